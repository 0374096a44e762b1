#include "output/prompt_table.hpp"

#include <algorithm>
#include <cstring>

namespace tpinfer {
namespace {

constexpr std::uint64_t kRows = 4096;                             ///< of one block
constexpr std::uint64_t kTokens = std::uint64_t{1} << 20;         ///< of one block, or one row
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 28;     ///< of a row
constexpr std::uint64_t kMostTextBytes = std::uint64_t{1} << 28;  ///< of fixed-length strings in one block

Hdf5File open_file(const std::string& file, const Hdf5Context& context) {
  const auto access = unlocked_access(context);
  return Hdf5File(context.check(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.get()), "the file"));
}

}  // namespace

PromptTable::PromptTable(const std::string& file, const std::string& id_name, const std::string& text_name)
    : context_{file, ExitCode::input},
      file_(open_file(file, context_)),
      id_(open(id_name)),
      text_(open(text_name)),
      ids_(open("token_ids")),
      offsets_(open("token_offsets")) {
  check_columns(text_name);
  rows_ = text_.data ? text_.count : offsets_.count - 1;
  if (id_.data && id_.count != rows_)
    context_.fail(id_.name, fmt::format("it has {} rows, there are {} prompts", id_.count, rows_));
}

void PromptTable::check_columns(const std::string& text_name) const {
  const bool ids = ids_.data || offsets_.data;
  if (ids == static_cast<bool>(text_.data))
    context_.fail("the prompts",
                  fmt::format("it needs the root dataset \"{}\", or \"token_ids\" with \"token_offsets\"", text_name));
  if (!ids) {
    if (!text_.is_text) context_.fail(text_.name, "it holds no strings");
    return;
  }
  for (const Column* column : {&ids_, &offsets_}) {
    if (!column->data) context_.fail("token_ids", "token_ids and token_offsets are needed together");
    if (column->is_text) context_.fail(column->name, "it holds no whole numbers");
  }
  if (offsets_.count == 0) context_.fail(offsets_.name, "it is empty, a file of n prompts has n + 1 offsets");
}

PromptTable::Column PromptTable::open(const std::string& name) const {
  Column column{.name = name, .data = {}, .type = {}};
  if (context_.check(H5Lexists(file_.get(), name.c_str(), H5P_DEFAULT), name) == 0) return column;
  column.data = Hdf5Dataset(context_.check(H5Dopen2(file_.get(), name.c_str(), H5P_DEFAULT), name));
  const Hdf5Type stored(context_.check(H5Dget_type(column.data.get()), name));
  const H5T_class_t kind = H5Tget_class(stored.get());
  column.is_text = kind == H5T_STRING;
  if (kind != H5T_STRING && kind != H5T_INTEGER) context_.fail(name, "it holds neither strings nor whole numbers");
  column.type = Hdf5Type(context_.check(H5Tcopy(column.is_text ? stored.get() : H5T_NATIVE_INT64), name));
  const Hdf5Space space(context_.check(H5Dget_space(column.data.get()), name));
  if (H5Sget_simple_extent_ndims(space.get()) != 1) context_.fail(name, "it must have one dimension");
  hsize_t extent = 0;
  context_.check(H5Sget_simple_extent_dims(space.get(), &extent, nullptr), name);
  column.count = extent;
  return column;
}

void PromptTable::read_block(const Column& column, std::uint64_t start, std::uint64_t count, void* to) const {
  const hsize_t from = start, size = count;
  const Hdf5Space file(context_.check(H5Dget_space(column.data.get()), column.name));
  const Hdf5Space memory(context_.check(H5Screate_simple(1, &size, nullptr), column.name));
  context_.check(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, &from, nullptr, &size, nullptr), column.name);
  context_.check(H5Dread(column.data.get(), column.type.get(), memory.get(), file.get(), H5P_DEFAULT, to), column.name);
}

std::vector<std::int64_t> PromptTable::read_numbers(const Column& column, std::uint64_t start,
                                                    std::uint64_t count) const {
  std::vector<std::int64_t> numbers(count);
  if (count > 0) read_block(column, start, count, numbers.data());
  return numbers;
}

std::vector<std::string> PromptTable::read_texts(const Column& column, std::uint64_t start, std::uint64_t count) const {
  std::vector<std::string> texts;
  texts.reserve(count);
  if (H5Tis_variable_str(column.type.get()) > 0) {
    std::vector<char*> list(count, nullptr);
    read_block(column, start, count, list.data());
    for (char* text : list) {
      texts.emplace_back(text ? text : "");
      H5free_memory(text);
    }
    return texts;
  }
  const std::size_t size = H5Tget_size(column.type.get());
  if (size * count > kMostTextBytes) context_.fail(column.name, fmt::format("its strings have {} bytes each", size));
  std::vector<char> bytes(size * count);
  read_block(column, start, count, bytes.data());
  const bool spaces = H5Tget_strpad(column.type.get()) == H5T_STR_SPACEPAD;
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* begin = bytes.data() + i * size;
    std::string& text = texts.emplace_back(begin, strnlen(begin, size));
    if (spaces) text.erase(text.find_last_not_of(' ') + 1);
  }
  return texts;
}

// -> how many of the rows are within one block
std::uint64_t PromptTable::add_token_ids(std::vector<PromptTableRow>& rows) const {
  const auto offsets = read_numbers(offsets_, next_, rows.size() + 1);
  if (next_ == 0 && offsets.front() != 0) context_.fail(offsets_.name, "the first offset is not 0");
  if (!std::ranges::is_sorted(offsets) || offsets.front() < 0)
    context_.fail(offsets_.name, fmt::format("an offset after row {} is smaller than the one before it", next_));
  if (static_cast<std::uint64_t>(offsets.back()) > ids_.count)
    context_.fail(offsets_.name, fmt::format("offset {} is beyond the {} token ids", offsets.back(), ids_.count));
  if (next_ + rows.size() == rows_ && static_cast<std::uint64_t>(offsets.back()) != ids_.count)
    context_.fail(offsets_.name,
                  fmt::format("the last offset is {}, there are {} token ids", offsets.back(), ids_.count));
  std::uint64_t taken = 0;
  while (taken < rows.size()) {
    const auto begin = static_cast<std::uint64_t>(offsets[taken]);
    const std::uint64_t count = static_cast<std::uint64_t>(offsets[taken + 1]) - begin;
    if (taken > 0 && begin + count - static_cast<std::uint64_t>(offsets[0]) > kTokens) break;
    if (count > kMostTokens) {  // stands alone, by the line above
      rows[0].fault = fmt::format("the prompt has {} tokens", count);
      return 1;
    }
    ++taken;
  }
  const auto flat = read_numbers(ids_, static_cast<std::uint64_t>(offsets[0]),
                                 static_cast<std::uint64_t>(offsets[taken] - offsets[0]));
  for (std::uint64_t i = 0; i < taken; ++i)
    rows[i].token_ids.assign(flat.begin() + (offsets[i] - offsets[0]), flat.begin() + (offsets[i + 1] - offsets[0]));
  return taken;
}

std::vector<PromptTableRow> PromptTable::next_rows() {
  const std::uint64_t left = rows_ - next_;
  std::uint64_t count = std::min(left, kRows);
  std::vector<PromptTableRow> rows(count);
  if (count == 0) return rows;
  if (has_token_ids()) {
    count = add_token_ids(rows);
    rows.resize(count);
  } else {
    // fixed-length strings may be long
    const std::uint64_t size = H5Tis_variable_str(text_.type.get()) > 0 ? 1 : H5Tget_size(text_.type.get());
    count = std::clamp<std::uint64_t>(kMostTextBytes / std::max<std::uint64_t>(size, 1), 1, count);
    rows.resize(count);
    std::vector<std::string> texts = read_texts(text_, next_, count);
    for (std::uint64_t i = 0; i < count; ++i) rows[i].text = std::move(texts[i]);
  }
  if (id_.data && id_.is_text) {
    std::vector<std::string> ids = read_texts(id_, next_, count);
    for (std::uint64_t i = 0; i < count; ++i) rows[i].id = std::move(ids[i]);
  } else if (id_.data) {
    const auto ids = read_numbers(id_, next_, count);
    for (std::uint64_t i = 0; i < count; ++i) rows[i].id = std::to_string(ids[i]);
  }
  next_ += count;
  return rows;
}

}  // namespace tpinfer
