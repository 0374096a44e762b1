#include "output/hdf5_read.hpp"

namespace tpinfer {

namespace {

constexpr std::size_t kMostExpansion = 1100;  ///< deflate shrinks by 1032 at most
constexpr std::size_t kTextBlock = 4096;      ///< strings of one read

bool is_text(hid_t type) { return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) > 0; }

/// Strings that HDF5 allocated; an empty one may be null.
class TextBlock {
 public:
  TextBlock(hid_t type, Hdf5Space space, std::size_t count)
      : type_(type), space_(std::move(space)), texts_(count, nullptr) {}
  ~TextBlock() { H5Dvlen_reclaim(type_, space_.get(), H5P_DEFAULT, texts_.data()); }
  TextBlock(const TextBlock&) = delete;
  TextBlock& operator=(const TextBlock&) = delete;

  char** data() { return texts_.data(); }
  hid_t space() const { return space_.get(); }
  void append_to(std::vector<std::string>& list) const {
    for (const char* text : texts_) list.emplace_back(text ? text : "");
  }

 private:
  hid_t type_;
  Hdf5Space space_;
  std::vector<char*> texts_;
};

}  // namespace

GroupReader GroupReader::group(const char* name) const {
  const std::string path = object(name);
  Hdf5Group group(context_->check(H5Gopen2(group_.get(), name, H5P_DEFAULT), path));
  return {*context_, std::move(group), path};
}

bool GroupReader::has(const char* name) const {
  return context_->check(H5Lexists(group_.get(), name, H5P_DEFAULT), object(name)) > 0;
}

bool GroupReader::has_attribute(const char* name) const {
  return context_->check(H5Aexists(group_.get(), name), object(name)) > 0;
}

void GroupReader::read_attribute(const char* name, hid_t type, hid_t memory_type, void* value) const {
  const std::string where = path_ + "@" + name;
  const Hdf5Attribute attribute(context_->check(H5Aopen(group_.get(), name, H5P_DEFAULT), where));
  const Hdf5Type stored(context_->check(H5Aget_type(attribute.get()), where));
  const Hdf5Space space(context_->check(H5Aget_space(attribute.get()), where));
  if (H5Sget_simple_extent_npoints(space.get()) != 1) context_->fail(where, "it is no single value");
  if (H5Tequal(stored.get(), type) <= 0 && !(is_text(stored.get()) && is_text(type)))
    context_->fail(where, "its type is not that of the format");
  context_->check(H5Aread(attribute.get(), memory_type, value), where);
}

void GroupReader::attribute(const char* name, std::string& text) const {
  const auto type = text_type(*context_);
  TextBlock block(type.get(), Hdf5Space(context_->check(H5Screate(H5S_SCALAR), name)), 1);
  read_attribute(name, type.get(), type.get(), block.data());
  std::vector<std::string> list;
  block.append_to(list);
  text = std::move(list.front());
}

void GroupReader::text(const char* name, std::string& text) const {
  const std::string path = object(name);
  const auto type = text_type(*context_);
  const auto dataset = open(name, type.get(), {});
  TextBlock block(type.get(), Hdf5Space(context_->check(H5Screate(H5S_SCALAR), path)), 1);
  context_->check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, block.data()), path);
  std::vector<std::string> list;
  block.append_to(list);
  text = std::move(list.front());
}

std::size_t GroupReader::texts(const char* name, std::vector<std::string>& texts, std::optional<RowRange> range) const {
  const std::string path = object(name);
  const auto type = text_type(*context_);
  hsize_t extent[1];
  const auto dataset = open(name, type.get(), extent);
  const std::size_t all = checked_count(name, dataset.get(), extent, sizeof(char*));
  const std::size_t first = range ? range->first : 0, count = range ? rows_to_read(name, extent, *range) : all;
  const Hdf5Space file(context_->check(H5Dget_space(dataset.get()), path));
  texts.clear();
  texts.reserve(count);
  while (texts.size() < count) {
    const hsize_t start = first + texts.size(), size = std::min(kTextBlock, count - texts.size());
    TextBlock block(type.get(), Hdf5Space(context_->check(H5Screate_simple(1, &size, nullptr), path)),
                    static_cast<std::size_t>(size));
    context_->check(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, &start, nullptr, &size, nullptr), path);
    context_->check(H5Dread(dataset.get(), type.get(), block.space(), file.get(), H5P_DEFAULT, block.data()), path);
    block.append_to(texts);
  }
  return all;
}

RowRange GroupReader::part(const char* offsets_name, std::size_t first, std::size_t most_rows,
                           std::int64_t most_elements) const {
  hsize_t extent[1];
  open(offsets_name, file_type<std::int64_t>(), extent);
  const hsize_t left = extent[0] > first ? extent[0] - first : 0;  // offsets: one more than rows
  RowRange range{first, static_cast<std::size_t>(std::min<hsize_t>(left, most_rows + 1))};
  const auto offsets = values<std::int64_t>(offsets_name, extent, range);
  if (offsets.size() < 2) return {first, 0};
  const auto fits = [&](std::int64_t offset) { return offset - offsets.front() <= most_elements; };
  const auto end = std::find_if_not(offsets.begin() + 2, offsets.end(), fits);
  return {first, static_cast<std::size_t>(end - offsets.begin() - 1)};
}

void GroupReader::constant_texts(const char* name, std::span<const char* const> expected) const {
  std::vector<std::string> found;
  texts(name, found);
  if (!std::ranges::equal(found, expected))
    fail(name, fmt::format("it is not the format's list of {} names", expected.size()));
}

std::size_t GroupReader::index_of(const char* name, const std::string& text, std::span<const char* const> names) const {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) fail(name, fmt::format("'{}' is none of its values", text));
  return static_cast<std::size_t>(found - names.begin());
}

Hdf5Dataset GroupReader::open(const char* name, hid_t type, std::span<hsize_t> extent) const {
  const std::string path = object(name);
  Hdf5Dataset dataset(context_->check(H5Dopen2(group_.get(), name, H5P_DEFAULT), path));
  const Hdf5Type stored(context_->check(H5Dget_type(dataset.get()), path));
  if (H5Tequal(stored.get(), type) <= 0 && !(is_text(stored.get()) && is_text(type)))
    fail(name, "its type is not that of the format");
  const Hdf5Space space(context_->check(H5Dget_space(dataset.get()), path));
  const int dimensions = context_->check(H5Sget_simple_extent_ndims(space.get()), path);
  if (std::cmp_not_equal(dimensions, extent.size()))
    fail(name, fmt::format("it has {} dimensions, not {}", dimensions, extent.size()));
  if (dimensions > 0) context_->check(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr), path);
  return dataset;
}

std::size_t GroupReader::checked_count(const char* name, hid_t dataset, std::span<const hsize_t> extent,
                                       std::size_t element_bytes) const {
  if (std::ranges::find(extent, hsize_t{0}) != extent.end()) return 0;
  const hsize_t stored = std::min<hsize_t>(H5Dget_storage_size(dataset), hsize_t{1} << 48);
  const hsize_t most = stored * kMostExpansion / element_bytes;
  hsize_t count = 1;
  for (const hsize_t n : extent) {
    if (count > most / n) fail(name, fmt::format("it claims {} x {} elements, more than it stores", count, n));
    count *= n;
  }
  return static_cast<std::size_t>(count);
}

std::size_t GroupReader::rows_to_read(const char* name, std::span<const hsize_t> extent, RowRange range) const {
  if (range.first > extent[0] || range.count > extent[0] - range.first)
    fail(name, fmt::format("it has {} rows, {} are needed", extent[0], range.first + range.count));
  return range.count;
}

void GroupReader::read(const char* name, hid_t dataset, hid_t memory_type, std::span<const hsize_t> extent,
                       std::optional<RowRange> range, void* to) const {
  const std::string path = object(name);
  if (!range) {
    context_->check(H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to), path);
    return;
  }
  const hsize_t start[] = {range->first, 0}, size[] = {range->count, extent.size() > 1 ? extent[1] : 1};
  const Hdf5Space file(context_->check(H5Dget_space(dataset), path));
  const Hdf5Space memory(context_->check(H5Screate_simple(static_cast<int>(extent.size()), size, nullptr), path));
  context_->check(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start, nullptr, size, nullptr), path);
  context_->check(H5Dread(dataset, memory_type, memory.get(), file.get(), H5P_DEFAULT, to), path);
}

}  // namespace tpinfer
