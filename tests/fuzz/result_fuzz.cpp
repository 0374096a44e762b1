// Edits of a result file. The first byte says of what kind: (even) bytes of the file, four for the place and one for
// what is put there, its checksum as it was; (odd) elements of its datasets, one byte for the dataset, two for the
// element, eight for the value, and no checksum, as an editing program leaves it. Reading must end in a sentence or in
// answers that belong to prompts.

#include <cstring>
#include <vector>

#include "fuzz_folder.hpp"
#include "output/hdf5_handle.hpp"
#include "output/result_reader.hpp"
#include "output/result_writer.hpp"
#include "sample_result.hpp"

namespace {

using namespace tpinfer;

const std::filesystem::path& sample() {
  static const std::filesystem::path kFile = [] {
    write_result_file(fuzz::folder() / "sample.h5", test::sample_result());
    return fuzz::folder() / "sample.h5";
  }();
  return kFile;
}

/// Paths of all datasets with numbers in them.
const std::vector<std::string>& datasets() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    const Hdf5File file(H5Fopen(sample().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const auto add = [](hid_t root, const char* name, const H5O_info_t* info, void* to) -> herr_t {
      if (info->type != H5O_TYPE_DATASET) return 0;
      const Hdf5Dataset data(H5Dopen2(root, name, H5P_DEFAULT));
      const Hdf5Type type(H5Dget_type(data.get()));
      if (H5Tis_variable_str(type.get()) <= 0 && H5Tget_size(type.get()) <= 8)
        static_cast<std::vector<std::string>*>(to)->emplace_back(name);
      return 0;
    };
    H5Ovisit2(file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, add, &names, H5O_INFO_BASIC);
    fuzz::require(!names.empty());
    return names;
  }();
  return kNames;
}

void edit_element(hid_t file, const std::string& name, std::size_t element, const std::uint8_t* value) {
  const Hdf5Dataset data(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
  const Hdf5Type type(H5Dget_type(data.get()));
  const Hdf5Space space(H5Dget_space(data.get()));
  const auto count = static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get()));
  if (count == 0) return;
  const std::size_t size = H5Tget_size(type.get());
  std::vector<std::uint8_t> all(count * size);
  H5Dread(data.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data());
  std::memcpy(all.data() + element % count * size, value, size);
  H5Dwrite(data.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data());
}

void edit_values(const std::filesystem::path& path, const std::uint8_t* data, std::size_t size) {
  const Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  for (; size >= 11; data += 11, size -= 11)
    edit_element(file.get(), datasets()[data[0] % datasets().size()], data[1] + 256U * data[2], data + 3);
}

/// -> whether the file has changed.
bool edit_bytes(const std::filesystem::path& path, const std::uint8_t* data, std::size_t size) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto length = std::filesystem::file_size(path);
  bool changed = false;
  for (; size >= 5; data += 5, size -= 5) {
    std::uint32_t place = 0;
    std::memcpy(&place, data, sizeof(place));
    const auto at = static_cast<std::streamoff>(place % length);
    changed |= file.seekg(at).get() != data[4];
    file.seekp(at).put(static_cast<char>(data[4]));
  }
  return changed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const QuietHdf5 quiet;
  const std::filesystem::path path = fuzz::folder() / "edited.h5";
  std::filesystem::copy_file(sample(), path, std::filesystem::copy_options::overwrite_existing);
  bool damaged = false;
  if (data[0] % 2 != 0)
    edit_values(path, data + 1, size - 1);
  else
    damaged = edit_bytes(path, data + 1, size - 1);
  fuzz::may_refuse(ExitCode::input, [&] {
    const RunResult result = read_result_file(path);
    fuzz::require(!damaged);
    for (const AnswerRow& answer : result.answers)
      fuzz::require(answer.prompt_index >= 0 && static_cast<std::size_t>(answer.prompt_index) < result.prompts.size());
  });
  return 0;
}
