#include "runtime/step.hpp"

#include <cstring>

#include "core/bytes.hpp"

namespace tpinfer {
namespace {

// Structures of numbers without gaps, as they lie in memory.
template <class T>
void put_raw(ByteWriter& writer, const std::vector<T>& list) {
  writer.put(std::span(reinterpret_cast<const std::uint8_t*>(list.data()), list.size() * sizeof(T)));
}

template <class T>
void get_raw(ByteReader& reader, std::vector<T>& list) {
  const std::span<const std::uint8_t> bytes = reader.view<std::uint8_t>();
  list.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(list.data(), bytes.data(), list.size() * sizeof(T));
}

}  // namespace

void Step::clear() {
  part = StepPart::whole;
  stop = false;
  for (auto* list : {&tokens, &positions, &slots, &row_begin, &block_table, &block_copies, &logit_rows}) list->clear();
  row_begin.push_back(0);
  table_width = 0;
  wishes.clear();
  edits.clear();
}

void encode(const Step& step, std::vector<std::byte>& bytes) {
  std::size_t room = 256;
  for (const auto* list : {&step.tokens, &step.positions, &step.slots, &step.row_begin, &step.block_table,
                           &step.block_copies, &step.logit_rows})
    room += list->capacity() * sizeof(std::int32_t);
  room += step.wishes.capacity() * sizeof(RowWish) + step.edits.capacity() * sizeof(LogitEdit);
  bytes.reserve(room);
  ByteWriter writer(std::move(bytes));
  writer.put(step.part);
  writer.put(step.stop);
  writer.put(step.table_width);
  for (const auto* list : {&step.tokens, &step.positions, &step.slots, &step.row_begin, &step.block_table,
                           &step.block_copies, &step.logit_rows})
    writer.put(*list);
  put_raw(writer, step.wishes);
  put_raw(writer, step.edits);
  bytes = writer.take();
}

void decode_step(std::span<const std::byte> bytes, Step& step) {
  ByteReader reader(bytes);
  step.part = reader.get<StepPart>();
  step.stop = reader.get<bool>();
  step.table_width = reader.get<std::int32_t>();
  for (auto* list : {&step.tokens, &step.positions, &step.slots, &step.row_begin, &step.block_table, &step.block_copies,
                     &step.logit_rows})
    reader.get_list(*list);
  get_raw(reader, step.wishes);
  get_raw(reader, step.edits);
}

}  // namespace tpinfer
