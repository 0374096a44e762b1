// Four bytes say how many bytes of data follow the header, the rest is its JSON. It must end in a sentence or in
// tensors that tile the data.

#include <cstring>

#include "checkpoint/safetensors_header.hpp"
#include "fuzz_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tpinfer;
  std::uint32_t data_bytes = 0;
  if (size < sizeof(data_bytes)) return 0;
  std::memcpy(&data_bytes, data, sizeof(data_bytes));
  const std::string_view json = fuzz::text_of(data, size).substr(sizeof(data_bytes));
  fuzz::may_refuse(ExitCode::input, [&] {
    std::uint64_t sum = 0;
    for (const TensorInfo& tensor : parse_safetensors_header(json, "fuzz", 0, 8 + json.size(), data_bytes)) {
      fuzz::require(tensor.offset >= 8 + json.size() && tensor.bytes <= data_bytes);
      sum += tensor.bytes;
    }
    fuzz::require(sum == data_bytes);
  });
  return 0;
}
