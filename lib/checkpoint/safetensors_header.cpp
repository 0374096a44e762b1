#include "checkpoint/safetensors_header.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "core/bytes.hpp"
#include "core/error.hpp"
#include "core/json.hpp"

namespace tpinfer {
namespace {

constexpr std::string_view kMetadata = "__metadata__";

enum class Field : std::uint8_t { dtype, shape, data_offsets };
constexpr std::string_view kFieldNames[] = {"dtype", "shape", "data_offsets"};

// Reads {"NAME": {"dtype": D, "shape": [n, ...], "data_offsets": [begin, end]}, ..., "__metadata__": {"KEY": "TEXT"}}
// straight into TensorInfo (a document tree of 100,000 tensors would be slow and large). Offsets stay relative to the
// data.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(const std::string& where, std::uint32_t file) : where_(where), file_(file) {}
  std::vector<TensorInfo> take() { return std::move(tensors_); }

  bool null() override {
    if (at_ == At::header && name_ == kMetadata) return true;
    wrong("null");
  }
  bool boolean(bool v) override { wrong(v ? "true" : "false"); }
  bool number_integer(number_integer_t v) override { wrong(std::to_string(v)); }
  bool number_float(number_float_t, const string_t& text) override { wrong("the number " + text.substr(0, 40)); }
  bool binary(binary_t&) override { wrong("binary data"); }
  bool number_unsigned(number_unsigned_t v) override {
    if (at_ != At::list) wrong(std::to_string(v));
    std::vector<std::uint64_t>& list = *field_ == Field::shape ? shape_ : offsets_;
    const std::size_t longest = *field_ == Field::shape ? kMaxDimensions : 2;
    if (list.size() == longest) fail("{} holds more than {} numbers", field_name(), longest);
    list.push_back(v);
    return true;
  }
  bool string(string_t& v) override {
    if (at_ == At::metadata) return true;
    if (at_ != At::entry || field_ != Field::dtype) wrong("the string " + in_quotes(v));
    const auto dtype = dtype_from_safetensors(v);
    if (!dtype) fail("the dtype {} is not known", in_quotes(v));
    dtype_ = *dtype;
    return true;
  }
  bool start_object(std::size_t) override {
    if (at_ == At::start) {
      at_ = At::header;
    } else if (at_ == At::header) {
      at_ = name_ == kMetadata ? At::metadata : At::entry;
      field_.reset();
      seen_[0] = seen_[1] = seen_[2] = false;
    } else {
      wrong("an object");
    }
    return true;
  }
  bool end_object() override {
    if (at_ == At::entry) finish_entry();
    at_ = at_ == At::header ? At::start : At::header;
    return true;
  }
  bool start_array(std::size_t) override {
    if (at_ != At::entry || !field_ || field_ == Field::dtype) wrong("a list");
    (*field_ == Field::shape ? shape_ : offsets_).clear();
    at_ = At::list;
    return true;
  }
  bool end_array() override {
    at_ = At::entry;
    return true;
  }
  bool key(string_t& k) override {
    if (at_ == At::header) {
      if (k == kMetadata && std::exchange(metadata_seen_, true))
        fail_input("{}: the header has {} twice", where_, in_quotes(kMetadata));
      name_ = std::move(k);
    } else if (at_ == At::entry) {
      const auto* const found = std::find(std::begin(kFieldNames), std::end(kFieldNames), k);
      if (found == std::end(kFieldNames)) fail("the header entry has a key {} that is not known", in_quotes(k));
      const auto number = static_cast<std::size_t>(found - std::begin(kFieldNames));
      field_ = static_cast<Field>(number);
      if (std::exchange(seen_[number], true)) fail("the header entry has {} twice", field_name());
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    std::string_view reason = e.what();
    reason = reason.substr(0, reason.find("; last read"));  // what was read may be long, and no text at all
    for (const std::string_view before : {"] ", ": "})      // "[json.exception...] parse error at line 1, column 9: "
      if (const auto at = reason.find(before); at != std::string_view::npos) reason.remove_prefix(at + 2);
    fail_input("{}: the header is not valid JSON at byte {}: {}", where_, position, reason.substr(0, 200));
  }

 private:
  enum class At : std::uint8_t { start, header, metadata, entry, list };

  std::string field_name() const { return in_quotes(kFieldNames[static_cast<std::size_t>(*field_)]); }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_input("{}: tensor {}: {}", where_, in_quotes(name_), fmt::format(text, std::forward<Args>(args)...));
  }

  // A value of the wrong type at this place.
  [[noreturn]] void wrong(const std::string& what) const {
    if (at_ == At::start) fail_input("{}: the header must be a JSON object, not {}", where_, what);
    if (name_ == kMetadata)
      fail_input("{}: {} must be an object of strings; it has {}", where_, in_quotes(name_), what);
    if (at_ == At::header) fail("its header entry must be an object, not {}", what);
    if (at_ == At::list)
      fail("{} must hold whole numbers, none below 0 or beyond 64 bits; it has {}", field_name(), what);
    fail("{} must be {}, not {}", field_name(), field_ == Field::dtype ? "a string" : "a list of whole numbers", what);
  }

  void finish_entry() {
    for (std::size_t i = 0; i < std::size(kFieldNames); ++i)
      if (!seen_[i]) fail("its header entry has no {}", in_quotes(kFieldNames[i]));
    if (offsets_.size() != 2) fail("\"data_offsets\" must hold 2 numbers, it has {}", offsets_.size());
    std::uint64_t bytes = dtype_size(dtype_);
    bool fits = true;
    for (const std::uint64_t n : shape_) fits = fits && std::in_range<std::int64_t>(n) && multiply(bytes, n);
    if (!fits) fail("the shape [{}] is too large for 64 bits", fmt::join(shape_, ", "));
    const auto [begin, end] = std::pair(offsets_[0], offsets_[1]);
    if (end < begin) fail("data_offsets [{}, {}] end before they begin", begin, end);
    if (end - begin != bytes)
      fail("data_offsets [{}, {}] span {} bytes, but {} of shape [{}] needs {}", begin, end, end - begin,
           safetensors_name(dtype_), fmt::join(shape_, ", "), bytes);
    TensorInfo& info = tensors_.emplace_back();
    info.name = std::move(name_);
    info.dtype = dtype_;
    info.shape.assign(shape_.begin(), shape_.end());
    info.file = file_;
    info.offset = begin;
    info.bytes = bytes;
  }
  static bool multiply(std::uint64_t& product, std::uint64_t factor) noexcept {
    return !__builtin_mul_overflow(product, factor, &product);
  }

  const std::string& where_;
  std::uint32_t file_;
  std::vector<TensorInfo> tensors_;
  At at_ = At::start;
  bool metadata_seen_ = false;
  // the entry that is being read
  std::string name_;
  std::optional<Field> field_;
  bool seen_[3] = {false, false, false};
  DType dtype_ = DType::float32;
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> offsets_;
};

void refuse_duplicates(const std::vector<TensorInfo>& sorted, const std::string& where) {
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                        [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twice != sorted.end()) fail_input("{}: the header has the tensor {} twice", where, in_quotes(twice->name));
}

// Offsets are still relative to the data, which has data_bytes.
void check_tiling(const std::vector<TensorInfo>& tensors, const std::string& where, std::uint64_t data_start,
                  std::uint64_t data_bytes) {
  std::vector<const TensorInfo*> order(tensors.size());
  std::transform(tensors.begin(), tensors.end(), order.begin(), [](const TensorInfo& t) { return &t; });
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  const TensorInfo* last = nullptr;
  std::uint64_t covered = 0;
  for (const TensorInfo* t : order) {
    if (t->offset > covered && last == nullptr)
      fail_input("{}: the first tensor, {}, begins at byte {} of the data instead of 0", where, in_quotes(t->name),
                 t->offset);
    if (t->offset > covered)
      fail_input("{}: {} bytes between the tensors {} and {} belong to nothing", where, t->offset - covered,
                 in_quotes(last->name), in_quotes(t->name));
    if (t->offset < covered)
      fail_input("{}: the tensors {} and {} overlap: one ends at byte {} of the data, the other begins at {}", where,
                 in_quotes(last->name), in_quotes(t->name), covered, t->offset);
    covered += t->bytes;
    last = t;
  }
  if (covered > data_bytes)
    fail_input(
        "{}: the file has {} bytes, but its tensors need {} and a header of {}: {} ends beyond the file "
        "(incomplete download?)",
        where, data_start + data_bytes, covered, data_start, in_quotes(last->name));
  if (covered < data_bytes)
    fail_input("{}: the file has {} bytes, but its last tensor ends at {}: {} bytes after it belong to nothing", where,
               data_start + data_bytes, data_start + covered, data_bytes - covered);
}

[[noreturn]] void refuse_foreign(const ModelFile& file, const std::string& otherwise) {
  const auto kind = foreign_kind(read_bytes(file, 0, std::min<std::uint64_t>(file.bytes, 512)));
  if (!kind.empty()) fail_input("{}: is not a safetensors file but {}", file.where, kind);
  fail_input("{}: {}", file.where, otherwise);
}

std::uint64_t little_endian(std::string_view eight_bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = (value << 8) | static_cast<unsigned char>(eight_bytes[i]);
  return value;
}

}  // namespace

std::vector<TensorInfo> parse_safetensors_header(std::string_view json, const std::string& where, std::uint32_t file,
                                                 std::uint64_t data_start, std::uint64_t data_bytes) {
  HeaderReader reader(where, file);
  if (!Json::sax_parse(json.begin(), json.end(), &reader)) fail_input("{}: the header is not valid JSON", where);
  std::vector<TensorInfo> tensors = reader.take();
  const auto by_name = [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; };
  if (!std::is_sorted(tensors.begin(), tensors.end(), by_name)) std::sort(tensors.begin(), tensors.end(), by_name);
  refuse_duplicates(tensors, where);
  check_tiling(tensors, where, data_start, data_bytes);
  for (TensorInfo& t : tensors) t.offset += data_start;
  return tensors;
}

SafetensorsHeader read_safetensors_header(const ModelFile& file, std::uint32_t file_index) {
  if (file.bytes == 0) fail_input("{}: is empty: 0 bytes (incomplete download?)", file.where);
  if (file.bytes < 8)
    refuse_foreign(file,
                   fmt::format("has only {} bytes, too few for a safetensors file (incomplete download?)", file.bytes));
  const std::uint64_t length = little_endian(read_bytes(file, 0, 8));
  if (length == 0) fail_input("{}: is not a safetensors file: its header has length 0", file.where);
  if (length > file.bytes - 8)
    refuse_foreign(file, fmt::format("is cut short or not a safetensors file: it has {} bytes, but its header alone "
                                     "claims {} (download it again)",
                                     file.bytes, length));
  if (length > kMaxHeaderBytes)
    refuse_foreign(
        file, fmt::format("its header claims {} bytes, more than the {} that are accepted", length, kMaxHeaderBytes));
  const std::string json = read_bytes(file, 8, length);
  if (json[0] != '{') refuse_foreign(file, "its header must be a JSON object, which begins with {");
  SafetensorsHeader header;
  header.header_bytes = 8 + length;
  header.hash = hash_bytes(json);
  header.tensors =
      parse_safetensors_header(json, file.where, file_index, header.header_bytes, file.bytes - header.header_bytes);
  return header;
}

}  // namespace tpinfer
