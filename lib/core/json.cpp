#include "core/json.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/file_handle.hpp"

namespace tpinfer {
namespace {

// SAX consumer that builds the document and refuses what a plain parse accepts silently: duplicate keys and deep
// nesting.
class StrictBuilder final : public nlohmann::json_sax<Json> {
 public:
  StrictBuilder(Json& root, const std::string& where, int max_depth)
      : where_(where), max_depth_(max_depth), root_(root) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(v); }
  bool number_unsigned(number_unsigned_t v) override { return put(v); }
  bool number_float(number_float_t v, const string_t&) override { return put(v); }
  bool string(string_t& v) override { return put(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& k) override {
    if (!keys_.back().insert(k).second) fail_input("{}: the key \"{}\" occurs twice in one object", where_, k);
    key_ = std::move(k);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    std::string text = e.what();
    if (const auto cut = text.find("] "); cut != std::string::npos) text = text.substr(cut + 2);
    // What was read last may end within a character: the message stays valid UTF-8.
    for (char& c : text)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    fail_input("{}: not valid JSON at byte {}: {}", where_, position, text);
  }

 private:
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (static_cast<int>(stack_.size()) >= max_depth_)
      fail_input("{}: JSON nested deeper than {} levels", where_, max_depth_);
    stack_.push_back(place(std::move(value)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }
  Json* place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // keys are known to be new: append without the linear search of ordered_json's operator[]
    auto& object = parent.get_ref<Json::object_t&>();
    object.Container::emplace_back(std::move(key_), std::move(value));
    return &object.back().second;
  }

  const std::string& where_;
  int max_depth_;
  Json& root_;
  std::vector<Json*> stack_;
  std::vector<std::set<std::string, std::less<>>> keys_;
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    fail_input("{}: {} bytes of JSON, more than the limit of {}", where, text.size(), limits.max_bytes);
  Json root;
  StrictBuilder builder(root, where, limits.max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) fail_input("{}: not valid JSON", where);
  return root;
}

std::string read_text_file(const std::string& path, std::size_t max_bytes, bool may_wait) {
  // O_NONBLOCK: a pipe is opened at once, and refused below
  const FileHandle fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (may_wait ? 0 : O_NONBLOCK)));
  if (!fd) fail_input("{}: cannot be opened: {}", path, system_message(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail_input("{}: cannot be read: {}", path, system_message(errno));
  if (S_ISDIR(info.st_mode)) fail_input("{}: is a folder, a file is needed", path);
  if (!may_wait && !S_ISREG(info.st_mode)) fail_input("{}: is a pipe or a device, a file is needed", path);
  std::string text;
  text.reserve(static_cast<std::size_t>(info.st_size));
  std::vector<char> buffer(1 << 16);
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_input("{}: cannot be read: {}", path, system_message(errno));
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > max_bytes) fail_input("{}: longer than the limit of {} bytes", path, max_bytes);
  }
}

Json read_json_file(const std::string& path, const JsonLimits& limits) {
  return parse_json(read_text_file(path, limits.max_bytes), path, limits);
}

std::string json_line(const Json& json) {
  static constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}};
  std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (const auto& [bytes, escape] : kEscapes)
    for (std::size_t at = line.find(bytes); at != std::string::npos; at = line.find(bytes, at + escape.size()))
      line.replace(at, bytes.size(), escape);
  line += '\n';
  return line;
}

}  // namespace tpinfer
