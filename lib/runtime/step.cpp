#include "runtime/step.hpp"

#include "core/bytes.hpp"

namespace tpinfer {

void Step::clear() {
  stop = false;
  for (auto* list : {&tokens, &positions, &slots, &row_begin, &block_table, &block_copies, &logit_rows}) list->clear();
  row_begin.push_back(0);
  table_width = 0;
}

void encode(const Step& step, std::vector<std::byte>& bytes) {
  std::size_t room = 256;
  for (const auto* list : {&step.tokens, &step.positions, &step.slots, &step.row_begin, &step.block_table,
                           &step.block_copies, &step.logit_rows})
    room += list->capacity() * sizeof(std::int32_t);
  bytes.reserve(room);
  ByteWriter writer(std::move(bytes));
  writer.put(step.stop);
  writer.put(step.table_width);
  for (const auto* list : {&step.tokens, &step.positions, &step.slots, &step.row_begin, &step.block_table,
                           &step.block_copies, &step.logit_rows})
    writer.put(*list);
  bytes = writer.take();
}

void decode_step(std::span<const std::byte> bytes, Step& step) {
  ByteReader reader(bytes);
  step.stop = reader.get<bool>();
  step.table_width = reader.get<std::int32_t>();
  for (auto* list : {&step.tokens, &step.positions, &step.slots, &step.row_begin, &step.block_table, &step.block_copies,
                     &step.logit_rows})
    reader.get_list(*list);
}

}  // namespace tpinfer
