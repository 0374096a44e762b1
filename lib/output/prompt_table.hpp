#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "output/hdf5_handle.hpp"

namespace tpinfer {

/// A row of an HDF5 prompt file.
struct PromptTableRow {
  std::string id;  ///< empty without the dataset
  std::string text;
  std::vector<std::int64_t> token_ids;
  std::string fault;  ///< why this row cannot be read
};

/// Reads an HDF5 prompt file block by block: root datasets of one length with an id (text or whole numbers, optional)
/// and a text, or token_ids with token_offsets (rows + 1 of them). Any string and integer types of HDF5.
class PromptTable {
 public:
  /// Error(input) when the file or its datasets are not so.
  PromptTable(const std::string& file, const std::string& id_name, const std::string& text_name);

  bool has_token_ids() const noexcept { return offsets_.count > 0; }
  /// The next rows, not too many at once; none at the end. Error(input) for offsets that are none, and what cannot be
  /// read.
  std::vector<PromptTableRow> next_rows();

 private:
  struct Column {
    std::string name;
    Hdf5Dataset data;
    Hdf5Type type;  ///< in memory
    bool is_text = false;
    std::uint64_t count = 0;  ///< elements; 0 where there is no such dataset
  };

  Column open(const std::string& name) const;
  void check_columns(const std::string& text_name) const;
  std::vector<std::string> read_texts(const Column& column, std::uint64_t start, std::uint64_t count) const;
  std::vector<std::int64_t> read_numbers(const Column& column, std::uint64_t start, std::uint64_t count) const;
  void read_block(const Column& column, std::uint64_t start, std::uint64_t count, void* to) const;
  std::uint64_t add_token_ids(std::vector<PromptTableRow>& rows) const;

  QuietHdf5 quiet_;
  Hdf5Context context_;
  Hdf5File file_;
  Column id_, text_, ids_, offsets_;
  std::uint64_t rows_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace tpinfer
