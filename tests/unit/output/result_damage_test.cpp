#include <hdf5.h>

#include <functional>

#include "output/file_checksum.hpp"
#include "output/result_reader.hpp"
#include "output/result_writer.hpp"
#include "sample_result.hpp"
#include "scratch.hpp"

namespace tpinfer::test {
namespace {

constexpr std::size_t kTrailer = 16;

class ResultDamage : public Scratch {
 protected:
  void SetUp() override {
    Scratch::SetUp();
    file_ = folder_ / "a.h5";
    auto result = sample_result();
    result.steps.resize(20);
    write_result_file(file_, result);
    bytes_ = slurp(file_);
  }
  std::string refusal() const {
    return complaint(ExitCode::input, [&] { read_result_file(file_); });
  }
  /// Edits the file as another HDF5 program would, which drops the checksum, and returns the refusal.
  std::string refusal_after(const std::function<void(hid_t)>& edit) const {
    spit(file_, bytes_);
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    edit(file);
    EXPECT_GE(H5Fclose(file), 0);
    EXPECT_EQ(check_checksum(file_), ChecksumState::absent);
    return refusal();
  }
  /// Overwrites the element `index` of a one-dimensional dataset.
  template <class T>
  static void poke(hid_t file, const char* name, hsize_t index, T value) {
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset);
    const hid_t type = H5Dget_type(dataset), one = H5Screate(H5S_SCALAR);
    H5Sselect_elements(space, H5S_SELECT_SET, 1, &index);
    EXPECT_GE(H5Dwrite(dataset, type, one, space, H5P_DEFAULT, &value), 0);
    H5Sclose(one);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
  }

  std::filesystem::path file_;
  std::string bytes_;
};

TEST_F(ResultDamage, MissingFolderAndForeignFilesAreRefusedByName) {
  const auto refuses = [](const std::filesystem::path& file, const char* part) {
    const auto text = complaint(ExitCode::input, [&] { read_result_file(file); });
    EXPECT_HAS(text, file.string());
    EXPECT_HAS(text, part);
  };
  refuses(folder_ / "none.h5", "No such file");
  refuses(folder_, "folder");
  spit(folder_ / "empty.h5", "");
  refuses(folder_ / "empty.h5", "HDF5");
  spit(folder_ / "text.h5", std::string(5000, 'x'));
  refuses(folder_ / "text.h5", "HDF5");
  const auto other = folder_ / "other.h5";
  H5Fclose(H5Fcreate(other.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  refuses(other, "tpinfer-results");
}

TEST_F(ResultDamage, EveryTruncationIsRefused) {
  const std::size_t content = bytes_.size() - kTrailer;
  for (std::size_t size = 0; size < content; size += size < 4096 ? 61 : 977) {
    spit(file_, bytes_.substr(0, size));
    EXPECT_HAS(refusal(), file_.string()) << size;
  }
  spit(file_, bytes_.substr(0, content - 1));
  refusal();
  spit(file_, bytes_.substr(0, content));  // the content whole, its checksum gone
  EXPECT_EQ(read_result_file(file_).prompts.size(), 5U);
}

TEST_F(ResultDamage, EveryFlippedByteIsFound) {
  const std::size_t content = bytes_.size() - kTrailer;
  for (std::size_t at = 0; at < content; at += 997) {
    auto bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    spit(file_, bytes);
    EXPECT_HAS(refusal(), "checksum") << at;
  }
}

TEST_F(ResultDamage, ALostEndIsFound) {
  for (const std::size_t zeros : {std::size_t{1}, kTrailer, std::size_t{4096}}) {
    spit(file_, bytes_.substr(0, bytes_.size() - zeros) + std::string(zeros, '\0'));
    EXPECT_HAS(refusal(), "checksum") << zeros;
  }
  spit(file_, bytes_.substr(0, bytes_.size() - 1));
  EXPECT_HAS(refusal(), "15 bytes at its end are none");
}

TEST_F(ResultDamage, UnsoundObjectsAreNamed) {
  const auto poked = [&](const char* name, hsize_t index, auto value) {
    const auto text = refusal_after([&](hid_t file) { poke(file, name, index, value); });
    EXPECT_HAS(text, file_.string());
    EXPECT_HAS(text, name);
    return text;
  };
  poked("/prompts/token_offsets", 1, std::int64_t{1000});
  poked("/prompts/token_offsets", 0, std::int64_t{1});
  poked("/results/token_offsets", 2, std::int64_t{-3});
  EXPECT_HAS(refusal_after([](hid_t file) { poke(file, "/plan/tensors/shape_offsets", 2, std::int64_t{1} << 60); }),
             "/plan/tensors/shape: it has 3 elements");
  poked("/results/n_tokens", 0, std::int32_t{9});
  poked("/results/prompt_index", 2, std::int64_t{5});
  EXPECT_HAS(poked("/results/prompt_index", 0, std::int64_t{1}), "order");
  EXPECT_HAS(poked("/prompts/status", 1, std::uint8_t{9}), "no name");
  poked("/results/finish_reason", 0, std::uint8_t{200});
  poked("/results/text_lossy", 0, std::int8_t{2});
}

TEST_F(ResultDamage, AbsentOrOtherObjectsAreNamed) {
  const auto gone = [](const char* name) {
    return [name](hid_t file) { EXPECT_GE(H5Ldelete(file, name, H5P_DEFAULT), 0); };
  };
  for (const char* name : {"/results/text", "/prompts", "/ranks/weights/class_names", "/job/source", "/results/top_ids",
                           "/model/config.json", "/steps/t", "/plan/memory/bytes", "/ranks/memory/rss_peak"})
    EXPECT_HAS(refusal_after(gone(name)), name);
  const auto swapped = [&](const char* by, const char* name) {
    return refusal_after([&](hid_t file) {
      gone(name)(file);
      EXPECT_GE(H5Lcreate_hard(file, by, file, name, H5P_DEFAULT, H5P_DEFAULT), 0);
    });
  };
  EXPECT_HAS(swapped("/prompts/text", "/results/text"), "/results");         // 5 rows, not 3
  EXPECT_HAS(swapped("/results/t_queued", "/results/attempt"), "its type");  // float64, not int32
  EXPECT_HAS(swapped("/results/top_logprobs", "/results/logprobs"), "2 dim");
  EXPECT_HAS(swapped("/prompts/prompt_top_ids", "/results/top_ids"), "/results/top_");
}

TEST_F(ResultDamage, ALaterFormatVersionIsRefused) {
  const auto text = refusal_after([](hid_t file) {
    const hid_t attribute = H5Aopen(file, "format_version", H5P_DEFAULT);
    const std::int32_t version = 2;
    EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_INT32, &version), 0);
    H5Aclose(attribute);
  });
  EXPECT_HAS(text, "format version 2");
}

TEST_F(ResultDamage, AFileEditedOnPurposeIsRead) {
  const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  poke(file, "/results/attempt", 0, std::int32_t{7});
  H5Fclose(file);
  EXPECT_EQ(read_result_file(file_).answers.at(0).attempt, 7);
}

}  // namespace
}  // namespace tpinfer::test
