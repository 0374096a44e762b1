#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "output/hdf5_handle.hpp"
#include "output/run_result.hpp"
#include "output/stored_text.hpp"

namespace tpinfer {

/// Shape of a dataset: [rows] or [rows, columns].
struct Hdf5Shape {
  hsize_t rows = 0;
  std::optional<hsize_t> columns = std::nullopt;
};

/// One dataset written front to back in blocks of whole rows, so that no flat copy of a long column is made.
class DatasetWriter {
 public:
  DatasetWriter(const Hdf5Context& context, hid_t group, std::string path, hid_t type, std::size_t element_bytes,
                Hdf5Shape shape, const char* units);

  /// Elements that one write_block() should bring; the last block may be shorter.
  std::size_t block_elements() const { return block_elements_; }
  void write_block(const void* elements, std::size_t count, hid_t memory_type);
  /// Closes the dataset, all of whose rows must have been written: the last chunk reaches the file here.
  void finish();

 private:
  const Hdf5Context& context_;
  std::string path_;
  Hdf5Shape shape_;
  Hdf5Dataset dataset_;
  std::size_t block_elements_ = 0;
  hsize_t rows_written_ = 0;
};

/// DatasetWriter for values of type T that come one by one or in spans.
template <class T>
class ArrayWriter {
 public:
  ArrayWriter(DatasetWriter writer, hid_t memory_type) : writer_(std::move(writer)), memory_type_(memory_type) {
    buffer_.reserve(writer_.block_elements());
  }
  void put(T value) {
    buffer_.push_back(value);
    if (buffer_.size() == writer_.block_elements()) flush();
  }
  template <class List>
  void put_all(const List& list) {
    for (const auto value : list) put(static_cast<T>(value));
  }
  void fill(T value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) put(value);
  }
  void finish() {
    flush();
    writer_.finish();
  }

 private:
  void flush() {
    if (!buffer_.empty()) writer_.write_block(buffer_.data(), buffer_.size(), memory_type_);
    buffer_.clear();
  }
  DatasetWriter writer_;
  hid_t memory_type_;
  std::vector<T> buffer_;
};

template <class Row>
class TableWriter;

/// A group of the file being written. Its functions and those of TableWriter have the names and arguments of their
/// counterparts that read, so that result_layout.hpp describes the file once for both.
class GroupWriter {
 public:
  GroupWriter(const Hdf5Context& context, Hdf5Group group, std::string path)
      : context_(&context), group_(std::move(group)), path_(std::move(path)) {}

  GroupWriter group(const char* name) const;
  template <class Row>
  TableWriter<Row> table(const char* name, const std::vector<Row>& rows) const {
    return {group(name), pointers(rows)};
  }

  static constexpr bool keeps(const char*) { return true; }
  void attribute(const char* name, const std::string& text) const;
  template <std::integral T>
  void attribute(const char* name, T value) const {
    write_attribute(name, file_type<T>(), memory_type<T>(), &value);
  }
  template <class Enum, std::size_t N>
  void named_attribute(const char* name, Enum value, const std::array<const char*, N>& names) const {
    attribute(name, std::string(names.at(static_cast<std::size_t>(value))));
  }
  /// A scalar dataset of text.
  void text(const char* name, const std::string& text) const;
  /// A one-dimensional dataset of texts.
  void texts(const char* name, const std::vector<std::string>& texts) const;
  void constant_texts(const char* name, std::span<const char* const> texts) const { write_texts(name, texts); }

  template <class T>
  ArrayWriter<T> array(const char* name, Hdf5Shape shape, const char* units = nullptr) const {
    return {dataset(name, file_type<T>(), sizeof(T), shape, units), memory_type<T>()};
  }
  DatasetWriter dataset(const char* name, hid_t type, std::size_t element_bytes, Hdf5Shape shape,
                        const char* units = nullptr) const;
  void write_texts(const char* name, std::span<const char* const> texts) const;
  const Hdf5Context& context() const { return *context_; }

  template <class Row>
  static std::vector<const Row*> pointers(const std::vector<Row>& rows) {
    std::vector<const Row*> result;
    result.reserve(rows.size());
    for (const auto& row : rows) result.push_back(&row);
    return result;
  }

 private:
  void write_attribute(const char* name, hid_t type, hid_t memory_type, const void* value) const;

  const Hdf5Context* context_;
  Hdf5Group group_;
  std::string path_;
};

/// A table: one dataset a column, one element a row. `field` is a member pointer of Row or a function of a row.
template <class Row>
class TableWriter : public GroupWriter {
 public:
  TableWriter(GroupWriter group, std::vector<const Row*> rows)
      : GroupWriter(std::move(group)), rows_(std::move(rows)) {}

  TableWriter subtable(const char* name) const { return {group(name), rows_}; }

  template <class Field>
  void column(const char* name, Field field, const char* units = nullptr) const {
    using T = std::remove_cvref_t<std::invoke_result_t<Field, const Row&>>;
    auto out = array<T>(name, {rows_.size()}, units);
    for (const Row* row : rows_) out.put(std::invoke(field, *row));
    out.finish();
  }

  template <class Field, std::size_t N>
  void enum_column(const char* name, Field field, const std::array<const char*, N>& names) const {
    write_enum<std::uint8_t>(name, field, names);
  }

  template <class Field>
  void text_column(const char* name, Field field) const {
    StoredTexts stored;
    std::vector<const char*> texts;
    texts.reserve(rows_.size());
    for (const Row* row : rows_) texts.push_back(stored(std::invoke(field, *row)));
    write_texts(name, texts);
  }

  /// Text beside the flag that says whether it lost something, be it only here.
  template <class Text, class Flag>
  void lossy_text_column(const char* name, const char* flag_name, Text text, Flag flag) const {
    text_column(name, text);
    write_enum<std::int8_t>(
        flag_name, [&](const Row& row) { return std::invoke(flag, row) || !is_storable_text(std::invoke(text, row)); },
        kFlagNames);
  }

  /// Lists of the rows one behind the other; row i has elements offsets[i] to offsets[i + 1]. `count_name`, when given,
  /// is a column of their lengths. The per_token() and top_*() columns that follow have the same offsets.
  template <class Field>
  void ragged(const char* name, const char* offsets_name, Field field, const char* count_name = nullptr) {
    using T = typename std::remove_cvref_t<std::invoke_result_t<Field, const Row&>>::value_type;
    lengths_.clear();
    for (const Row* row : rows_) lengths_.push_back(std::invoke(field, *row).size());
    auto offsets = array<std::int64_t>(offsets_name, {rows_.size() + 1});
    total_ = 0;
    offsets.put(0);
    for (const std::size_t length : lengths_) offsets.put(static_cast<std::int64_t>(total_ += length));
    offsets.finish();
    auto values = array<T>(name, {total_});
    for (const Row* row : rows_) values.put_all(std::invoke(field, *row));
    values.finish();
    if (!count_name) return;
    auto counts = array<std::int32_t>(count_name, {rows_.size()});
    counts.put_all(lengths_);
    counts.finish();
  }

  /// One float a token; NaN for a row that has none.
  template <class Field>
  void per_token(const char* name, Field field) const {
    auto out = array<float>(name, {total_});
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto& list = std::invoke(field, *rows_[i]);
      if (list.empty())
        out.fill(std::numeric_limits<float>::quiet_NaN(), lengths_[i]);
      else
        out.put_all(list);
    }
    out.finish();
  }

  /// The best k candidates of each token, [tokens, largest k], -1 and NaN beyond a row's own; absent when k is 0.
  template <class Count, class Ids, class Logprobs>
  void top_columns(const char* ids_name, const char* logprobs_name, Count count, Ids ids, Logprobs logprobs) const {
    std::int32_t widest = 0;
    for (const Row* row : rows_) widest = std::max(widest, std::invoke(count, *row));
    if (widest == 0) return;
    const auto k = static_cast<std::size_t>(widest);
    write_top<std::int32_t>(ids_name, k, count, ids, -1);
    write_top<float>(logprobs_name, k, count, logprobs, std::numeric_limits<float>::quiet_NaN());
  }

  /// [rows, columns]; 0 where a row's list is shorter.
  template <class Field>
  void matrix(const char* name, Field field, std::size_t columns, const char* units = nullptr) const {
    auto out = array<std::uint64_t>(name, {rows_.size(), columns}, units);
    for (const Row* row : rows_) {
      const auto& list = std::invoke(field, *row);
      out.put_all(list);
      out.fill(0, columns - list.size());
    }
    out.finish();
  }

  /// [phases, rows] of one number of the ranks' memory.
  void by_phase(const char* name, std::uint64_t RankRow::Memory::*field, const char* units) const {
    const std::size_t phases = std::size(kMemoryPhases);
    auto out = array<std::uint64_t>(name, {phases, rows_.size()}, units);
    for (std::size_t phase = 0; phase < phases; ++phase)
      for (const Row* row : rows_) out.put(phase < row->memory.size() ? row->memory[phase].*field : 0);
    out.finish();
  }

 private:
  template <class T, class Field, std::size_t N>
  void write_enum(const char* name, Field field, const std::array<const char*, N>& names) const {
    const auto type = enum_type<T>(context(), names);
    ArrayWriter<T> out(dataset(name, type.get(), sizeof(T), {rows_.size()}), type.get());
    for (const Row* row : rows_) out.put(static_cast<T>(std::invoke(field, *row)));
    out.finish();
  }

  template <class T, class Count, class Field>
  void write_top(const char* name, std::size_t widest, Count count, Field field, T nothing) const {
    auto out = array<T>(name, {total_, widest});
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto k = static_cast<std::size_t>(std::invoke(count, *rows_[i]));
      const auto& list = std::invoke(field, *rows_[i]);
      for (std::size_t token = 0; token < lengths_[i]; ++token) {
        out.put_all(std::span(list).subspan(token * k, k));
        out.fill(nothing, widest - k);
      }
    }
    out.finish();
  }

  std::vector<const Row*> rows_;
  std::vector<std::size_t> lengths_;  ///< [rows] of the last ragged column
  std::size_t total_ = 0;
};

}  // namespace tpinfer
