#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "output/hdf5_handle.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

template <class Row>
class TableReader;

/// Rows of a table: `first` to first + count.
struct RowRange {
  std::size_t first = 0, count = 0;
};

/// A group of a result file being read; the counterpart of GroupWriter. Every function proves type, rank and size
/// before it takes values: Error(input) names file and object.
class GroupReader {
 public:
  GroupReader(const Hdf5Context& context, Hdf5Group group, std::string path)
      : context_(&context), group_(std::move(group)), path_(std::move(path)) {}

  GroupReader group(const char* name) const;
  template <class Row>
  TableReader<Row> table(const char* name, std::vector<Row>& rows) const {
    rows.clear();
    return {group(name), rows, false};
  }

  /// The same for some rows of the table, which it must have.
  template <class Row>
  TableReader<Row> table(const char* name, std::vector<Row>& rows, RowRange range) const {
    rows.clear();
    return {group(name), rows, false, range};
  }

  bool has(const char* name) const;
  /// Whether this file, which an earlier version may have written, has what has come since.
  bool keeps(const char* name) const { return has(name); }
  bool has_attribute(const char* name) const;
  void attribute(const char* name, std::string& text) const;
  template <std::integral T>
  void attribute(const char* name, T& value) const {
    read_attribute(name, file_type<T>(), memory_type<T>(), &value);
  }
  template <class Enum, std::size_t N>
  void named_attribute(const char* name, Enum& value, const std::array<const char*, N>& names) const {
    std::string text;
    attribute(name, text);
    value = static_cast<Enum>(index_of(name, text, names));
  }
  void text(const char* name, std::string& text) const;
  /// `range`: some of the texts; without it all. Returns how many the dataset has.
  std::size_t texts(const char* name, std::vector<std::string>& texts, std::optional<RowRange> range = {}) const;
  /// The part of a table with a ragged column that begins with row `first` (at most the number of rows) and has no more
  /// than these rows and elements, but one row; none at the table's end.
  RowRange part(const char* offsets_name, std::size_t first, std::size_t most_rows, std::int64_t most_elements) const;
  void constant_texts(const char* name, std::span<const char* const> expected) const;

  [[noreturn]] void fail(const char* name, std::string_view what) const { context_->fail(object(name), what); }
  const Hdf5Context& context() const { return *context_; }

 protected:
  /// Values of a dataset, all or some rows of it; the extent of the whole (one or two numbers, as `extent` has room
  /// for) goes to `extent`.
  template <class T>
  std::vector<T> values(const char* name, hid_t type, hid_t memory_type, std::span<hsize_t> extent,
                        std::optional<RowRange> range = {}) const {
    const auto dataset = open(name, type, extent);
    std::size_t count = checked_count(name, dataset.get(), extent, sizeof(T));
    if (range)
      count = rows_to_read(name, extent, *range) * (extent.size() > 1 ? static_cast<std::size_t>(extent[1]) : 1);
    std::vector<T> list(count);
    if (count != 0) read(name, dataset.get(), memory_type, extent, range, list.data());
    return list;
  }
  template <class T>
  std::vector<T> values(const char* name, std::span<hsize_t> extent, std::optional<RowRange> range = {}) const {
    return values<T>(name, file_type<T>(), memory_type<T>(), extent, range);
  }

 private:
  std::string object(const char* name) const { return path_ + "/" + name; }
  std::size_t index_of(const char* name, const std::string& text, std::span<const char* const> names) const;
  void read_attribute(const char* name, hid_t type, hid_t memory_type, void* value) const;
  /// The dataset, whose type must equal `type` and whose rank must be extent.size().
  Hdf5Dataset open(const char* name, hid_t type, std::span<hsize_t> extent) const;
  /// Elements of a dataset, which cannot hold more than its stored bytes expand to: a damaged extent must not become
  /// an allocation.
  std::size_t checked_count(const char* name, hid_t dataset, std::span<const hsize_t> extent,
                            std::size_t element_bytes) const;
  /// range.count, where the dataset has these rows.
  std::size_t rows_to_read(const char* name, std::span<const hsize_t> extent, RowRange range) const;
  void read(const char* name, hid_t dataset, hid_t memory_type, std::span<const hsize_t> extent,
            std::optional<RowRange> range, void* to) const;

  const Hdf5Context* context_;
  Hdf5Group group_;
  std::string path_;
};

/// A table, or some rows of it, being read into the fields of its rows; the counterpart of TableWriter. The first
/// column sets the number of rows, the others must have it too.
template <class Row>
class TableReader : public GroupReader {
 public:
  TableReader(GroupReader group, std::vector<Row>& rows, bool sized, std::optional<RowRange> range = {})
      : GroupReader(std::move(group)), rows_(&rows), sized_(sized), table_rows_(rows.size()), range_(range) {}

  TableReader subtable(const char* name) const { return {group(name), *rows_, true}; }

  template <class Field>
  void column(const char* name, Field field, const char* = nullptr) {
    using T = std::remove_cvref_t<std::invoke_result_t<Field, Row&>>;
    hsize_t extent[1];
    const auto list = values<T>(name, extent, range_);
    set_rows(name, extent[0]);
    for (std::size_t i = 0; i < list.size(); ++i) std::invoke(field, (*rows_)[i]) = list[i];
  }

  template <class Field, std::size_t N>
  void enum_column(const char* name, Field field, const std::array<const char*, N>& names) {
    read_enum<std::uint8_t>(name, field, names);
  }

  template <class Field>
  void text_column(const char* name, Field field) {
    std::vector<std::string> list;
    set_rows(name, texts(name, list, range_));
    for (std::size_t i = 0; i < list.size(); ++i) std::invoke(field, (*rows_)[i]) = std::move(list[i]);
  }

  template <class Text, class Flag>
  void lossy_text_column(const char* name, const char* flag_name, Text text, Flag flag) {
    text_column(name, text);
    read_enum<std::int8_t>(flag_name, flag, kFlagNames);
  }

  template <class Field>
  void ragged(const char* name, const char* offsets_name, Field field, const char* count_name = nullptr) {
    using List = std::remove_cvref_t<std::invoke_result_t<Field, Row&>>;
    hsize_t extent[1];
    read_offsets(offsets_name);
    const auto flat = values<typename List::value_type>(name, extent, elements_);
    check_elements(name, extent[0], "elements");
    for (std::size_t i = 0; i < rows_->size(); ++i)
      std::invoke(field, (*rows_)[i]) = List(flat.begin() + offsets_[i], flat.begin() + offsets_[i + 1]);
    if (count_name) check_counts(count_name);
  }

  /// A row whose elements are all NaN has none.
  template <class Field>
  void per_token(const char* name, Field field) {
    hsize_t extent[1];
    const auto flat = values<float>(name, extent, elements_);
    check_elements(name, extent[0], "rows");
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      const auto begin = flat.begin() + offsets_[i], end = flat.begin() + offsets_[i + 1];
      if (std::any_of(begin, end, [](float value) { return value == value; }))
        std::invoke(field, (*rows_)[i]) = std::vector<float>(begin, end);
    }
  }

  /// A row's own k is the most ids, before -1, that one of its tokens has.
  template <class Count, class Ids, class Logprobs>
  void top_columns(const char* ids_name, const char* logprobs_name, Count count, Ids ids, Logprobs logprobs) {
    if (!has(ids_name) && !has(logprobs_name)) return;
    hsize_t extent[2], same[2];
    const auto all_ids = values<std::int32_t>(ids_name, extent, elements_);
    const auto all_logprobs = values<float>(logprobs_name, same, elements_);
    check_elements(ids_name, extent[0], "rows");
    if (!std::ranges::equal(extent, same)) fail(logprobs_name, fmt::format("its shape is not that of {}", ids_name));
    const auto widest = static_cast<std::size_t>(extent[1]);
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      const auto first = static_cast<std::size_t>(offsets_[i]), last = static_cast<std::size_t>(offsets_[i + 1]);
      std::size_t k = 0;
      for (std::size_t token = first; token < last; ++token) {
        const auto row = std::span(all_ids).subspan(token * widest, widest);
        k = std::max(k, static_cast<std::size_t>(std::ranges::find(row, -1) - row.begin()));
      }
      std::invoke(count, (*rows_)[i]) = static_cast<std::int32_t>(k);
      for (std::size_t token = first; token < last; ++token) {
        append(std::invoke(ids, (*rows_)[i]), std::span(all_ids).subspan(token * widest, k));
        append(std::invoke(logprobs, (*rows_)[i]), std::span(all_logprobs).subspan(token * widest, k));
      }
    }
  }

  template <class Field>
  void matrix(const char* name, Field field, std::size_t columns, const char* = nullptr) {
    hsize_t extent[2];
    const auto list = values<std::uint64_t>(name, extent);
    set_rows(name, static_cast<std::size_t>(extent[0]));
    if (extent[1] != columns) fail(name, fmt::format("it has {} columns, {} are named", extent[1], columns));
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      const auto row = std::span(list).subspan(i * columns, columns);
      std::invoke(field, (*rows_)[i]).assign(row.begin(), row.end());
    }
  }

  void by_phase(const char* name, std::uint64_t RankRow::Memory::*field, const char*) {
    constexpr std::size_t kPhases = std::size(kMemoryPhases);
    hsize_t extent[2];
    const auto list = values<std::uint64_t>(name, extent);
    if (extent[0] != kPhases || extent[1] != rows_->size())
      fail(name, fmt::format("its shape is [{}, {}], not [{}, {}]", extent[0], extent[1], kPhases, rows_->size()));
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      (*rows_)[i].memory.resize(kPhases);
      for (std::size_t phase = 0; phase < kPhases; ++phase)
        (*rows_)[i].memory[phase].*field = list[phase * rows_->size() + i];
    }
  }

 private:
  /// `rows`: of the whole dataset.
  void set_rows(const char* name, hsize_t rows) {
    if (!sized_) {
      table_rows_ = static_cast<std::size_t>(rows);
      rows_->resize(range_ ? range_->count : table_rows_);
    }
    sized_ = true;
    if (table_rows_ != rows) fail(name, fmt::format("it has {} rows, its table {}", rows, table_rows_));
  }
  /// offsets_ of the rows, from 0 for the first of them, and which elements they stand for.
  void read_offsets(const char* name) {
    hsize_t extent[1];
    const auto range = range_ ? std::optional(RowRange{range_->first, range_->count + 1}) : std::nullopt;
    offsets_ = values<std::int64_t>(name, extent, range);
    const bool from_start = !range_ || range_->first == 0;
    if (offsets_.empty() || (from_start && offsets_.front() != 0)) fail(name, "the first offset is not 0");
    if (offsets_.front() < 0 || !std::ranges::is_sorted(offsets_))
      fail(name, "an offset is smaller than the one before it");
    set_rows(name, extent[0] - 1);
    to_the_end_ = !range_ || range_->first + range_->count == table_rows_;
    end_ = offsets_.back();
    elements_.reset();
    if (!range_) return;
    const std::int64_t first = offsets_.front();
    for (std::int64_t& offset : offsets_) offset -= first;
    elements_ = RowRange{static_cast<std::size_t>(first), static_cast<std::size_t>(offsets_.back())};
  }
  /// `count` elements, or rows, of a dataset that has one for each of those that the last row's offset counts.
  void check_elements(const char* name, hsize_t count, const char* what) const {
    if (to_the_end_ && std::cmp_not_equal(count, end_))
      fail(name, fmt::format("it has {} {}, its offsets say {}", count, what, end_));
  }
  void check_counts(const char* name) {
    hsize_t extent[1];
    const auto counts = values<std::int32_t>(name, extent, range_);
    set_rows(name, extent[0]);
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (counts[i] != offsets_[i + 1] - offsets_[i])
        fail(name, fmt::format("row {} says {}, its offsets say {}", i, counts[i], offsets_[i + 1] - offsets_[i]));
  }

  template <class T, class Field, std::size_t N>
  void read_enum(const char* name, Field field, const std::array<const char*, N>& names) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Field, Row&>>;
    const auto type = enum_type<T>(context(), names);
    hsize_t extent[1];
    const auto list = values<T>(name, type.get(), type.get(), extent, range_);
    set_rows(name, extent[0]);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (static_cast<std::uint8_t>(list[i]) >= N)
        fail(name, fmt::format("row {} has the value {}, which has no name", i, list[i]));
      std::invoke(field, (*rows_)[i]) = static_cast<Value>(list[i]);
    }
  }

  template <class T>
  static void append(std::vector<T>& list, std::span<const T> more) {
    list.insert(list.end(), more.begin(), more.end());
  }

  std::vector<Row>* rows_;
  bool sized_;
  std::size_t table_rows_;  ///< of the whole table
  std::optional<RowRange> range_;
  // of the last ragged column:
  std::vector<std::int64_t> offsets_;  ///< [rows + 1], the first is 0
  std::optional<RowRange> elements_;   ///< those of the rows in range_
  std::int64_t end_ = 0;               ///< the last offset, as it is stored
  bool to_the_end_ = true;             ///< the last row is the table's
};

}  // namespace tpinfer
