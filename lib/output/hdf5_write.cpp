#include "output/hdf5_write.hpp"

namespace tpinfer {

namespace {

constexpr std::size_t kCompressFrom = std::size_t{64} << 10;  ///< bytes of a dataset worth compressing
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;     ///< chunk, and block of one write
constexpr unsigned kGzipLevel = 4;

Hdf5Space space_of(const Hdf5Context& context, const std::string& path, const Hdf5Shape& shape) {
  const hsize_t extent[] = {shape.rows, shape.columns.value_or(0)};
  return Hdf5Space(context.check(H5Screate_simple(shape.columns ? 2 : 1, extent, nullptr), path));
}

/// No time stamps: the same result gives the same bytes.
Hdf5Properties plain_dataset(const Hdf5Context& context, const std::string& path) {
  Hdf5Properties properties(context.check(H5Pcreate(H5P_DATASET_CREATE), path));
  context.check(H5Pset_obj_track_times(properties.get(), false), path);
  return properties;
}

void write_text_attribute(const Hdf5Context& context, hid_t object, const std::string& path, const char* name,
                          const std::string& text) {
  const std::string where = path + "@" + name;
  const auto type = text_type(context);
  const Hdf5Space scalar(context.check(H5Screate(H5S_SCALAR), where));
  const Hdf5Attribute attribute(
      context.check(H5Acreate2(object, name, type.get(), scalar.get(), H5P_DEFAULT, H5P_DEFAULT), where));
  StoredTexts stored;
  const char* value = stored(text);
  context.check(H5Awrite(attribute.get(), type.get(), &value), where);
}

/// A close writes what HDF5 still buffers of the dataset, so it can fail.
void close(const Hdf5Context& context, Hdf5Dataset dataset, const std::string& path) {
  context.check(H5Dclose(dataset.release()), path);
}

}  // namespace

DatasetWriter::DatasetWriter(const Hdf5Context& context, hid_t group, std::string path, hid_t type,
                             std::size_t element_bytes, Hdf5Shape shape, const char* units)
    : context_(context), path_(std::move(path)), shape_(shape) {
  const hsize_t row = shape.columns.value_or(1);
  const hsize_t row_bytes = std::max<hsize_t>(1, row * element_bytes);
  const hsize_t block_rows = std::clamp<hsize_t>(kBlockBytes / row_bytes, 1, std::max<hsize_t>(1, shape.rows));
  block_elements_ = static_cast<std::size_t>(block_rows * std::max<hsize_t>(1, row));
  const auto properties = plain_dataset(context, path_);
  if (shape.rows * row * element_bytes >= kCompressFrom) {
    const hsize_t chunk[] = {block_rows, row};
    context.check(H5Pset_chunk(properties.get(), shape.columns ? 2 : 1, chunk), path_);
    context.check(H5Pset_shuffle(properties.get()), path_);
    context.check(H5Pset_deflate(properties.get(), kGzipLevel), path_);
  }
  const auto space = space_of(context, path_, shape);
  const auto name = path_.substr(path_.rfind('/') + 1);
  dataset_ = Hdf5Dataset(context.check(
      H5Dcreate2(group, name.c_str(), type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT), path_));
  if (units) write_text_attribute(context, dataset_.get(), path_, "units", units);
}

void DatasetWriter::write_block(const void* elements, std::size_t count, hid_t memory_type) {
  const Hdf5Shape block{count / shape_.columns.value_or(1), shape_.columns};
  const hsize_t start[] = {rows_written_, 0}, extent[] = {block.rows, shape_.columns.value_or(1)};
  const auto memory = space_of(context_, path_, block), file = space_of(context_, path_, shape_);
  context_.check(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start, nullptr, extent, nullptr), path_);
  context_.check(H5Dwrite(dataset_.get(), memory_type, memory.get(), file.get(), H5P_DEFAULT, elements), path_);
  rows_written_ += block.rows;
}

void DatasetWriter::finish() {
  close(context_, std::move(dataset_), path_);
  if (rows_written_ != shape_.rows && shape_.columns.value_or(1) != 0)
    throw Error(ExitCode::internal,
                fmt::format("{} rows of {} were written, {} expected", rows_written_, path_, shape_.rows));
}

GroupWriter GroupWriter::group(const char* name) const {
  const std::string path = path_ + "/" + name;
  Hdf5Group group(context_->check(H5Gcreate2(group_.get(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), path));
  return {*context_, std::move(group), path};
}

DatasetWriter GroupWriter::dataset(const char* name, hid_t type, std::size_t element_bytes, Hdf5Shape shape,
                                   const char* units) const {
  return {*context_, group_.get(), path_ + "/" + name, type, element_bytes, shape, units};
}

void GroupWriter::write_attribute(const char* name, hid_t type, hid_t memory_type, const void* value) const {
  const std::string where = path_ + "@" + name;
  const Hdf5Space scalar(context_->check(H5Screate(H5S_SCALAR), where));
  const Hdf5Attribute attribute(
      context_->check(H5Acreate2(group_.get(), name, type, scalar.get(), H5P_DEFAULT, H5P_DEFAULT), where));
  context_->check(H5Awrite(attribute.get(), memory_type, value), where);
}

void GroupWriter::attribute(const char* name, const std::string& text) const {
  write_text_attribute(*context_, group_.get(), path_, name, text);
}

void GroupWriter::text(const char* name, const std::string& text) const {
  const std::string path = path_ + "/" + name;
  const auto type = text_type(*context_);
  const auto properties = plain_dataset(*context_, path);
  const Hdf5Space scalar(context_->check(H5Screate(H5S_SCALAR), path));
  Hdf5Dataset dataset(context_->check(
      H5Dcreate2(group_.get(), name, type.get(), scalar.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT), path));
  StoredTexts stored;
  const char* value = stored(text);
  context_->check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value), path);
  close(*context_, std::move(dataset), path);
}

void GroupWriter::texts(const char* name, const std::vector<std::string>& texts) const {
  StoredTexts stored;
  std::vector<const char*> pointers;
  for (const auto& text : texts) pointers.push_back(stored(text));
  write_texts(name, pointers);
}

void GroupWriter::write_texts(const char* name, std::span<const char* const> texts) const {
  const std::string path = path_ + "/" + name;
  const auto type = text_type(*context_);
  const auto properties = plain_dataset(*context_, path);
  const auto space = space_of(*context_, path, {texts.size()});
  Hdf5Dataset dataset(context_->check(
      H5Dcreate2(group_.get(), name, type.get(), space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT), path));
  if (!texts.empty())
    context_->check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()), path);
  close(*context_, std::move(dataset), path);
}

}  // namespace tpinfer
