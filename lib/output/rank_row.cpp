#include "output/rank_row.hpp"

#include "core/bytes.hpp"

namespace tpinfer {

namespace {

/// The fields in order of the message, once for both directions: `io` is called with each.
template <class Io, class Row>
void visit(Io& io, Row& row) {
  for (auto* number : {&row.rank, &row.local_rank, &row.replica, &row.tp_rank, &row.numa_node}) io(*number);
  for (auto* text : {&row.host, &row.device_kind, &row.device_name, &row.device_uuid, &row.device_pci, &row.cpu_list})
    io(*text);
  auto& weights = row.weights;
  for (auto* number : {&weights.bytes_planned, &weights.bytes_touched, &weights.bytes_read, &weights.bytes_owned,
                       &weights.n_tensors, &weights.checksum})
    io(*number);
  io(weights.load_seconds);
  for (auto* list :
       {&weights.planned_by_class, &weights.touched_by_class, &weights.read_by_class, &weights.owned_by_class})
    io(*list);
  io.count(row.memory);
  for (auto& memory : row.memory)
    for (auto* number : {&memory.device_used, &memory.device_free, &memory.anonymous, &memory.file_backed,
                         &memory.shared, &memory.rss, &memory.rss_peak})
      io(*number);
  auto& time = row.time;
  for (auto* seconds : {&time.compute, &time.communication, &time.sampling, &time.wait, &time.io}) io(*seconds);
  for (auto* number : {&time.collectives, &time.collective_bytes}) io(*number);
}

struct Encoder {
  ByteWriter writer;
  template <class T>
  void operator()(const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      writer.put(std::string_view(value));
    else
      writer.put(value);
  }
  template <class T>
  void count(const std::vector<T>& list) {
    writer.put(static_cast<std::uint64_t>(list.size()));
  }
};

struct Decoder {
  ByteReader reader;
  std::size_t size;
  template <class T>
  void operator()(T& value) {
    value = reader.get<T>();
  }
  void operator()(std::string& text) { text = reader.get_string(); }
  void operator()(std::vector<std::uint64_t>& list) { reader.get_list(list); }
  template <class T>
  void count(std::vector<T>& list) {
    const auto count = reader.get<std::uint64_t>();
    if (count > size / sizeof(T)) throw Error(ExitCode::internal, "an encoded rank row claims too many entries");
    list.resize(count);
  }
};

}  // namespace

std::vector<std::byte> encode(const RankRow& row) {
  Encoder encoder;
  visit(encoder, row);
  return encoder.writer.take();
}

RankRow decode_rank_row(std::span<const std::byte> bytes) {
  RankRow row;
  Decoder decoder{ByteReader(bytes), bytes.size()};
  visit(decoder, row);
  if (!decoder.reader.done()) throw Error(ExitCode::internal, "an encoded rank row is followed by other bytes");
  return row;
}

}  // namespace tpinfer
