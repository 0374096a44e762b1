// For libFuzzer: four bytes say how many bytes of data follow the header, the rest is its JSON. It must end in a
// sentence or in tensors that tile the data.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "checkpoint/safetensors_header.hpp"
#include "core/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tpinfer;
  std::uint32_t data_bytes = 0;
  if (size < sizeof(data_bytes)) return 0;
  std::memcpy(&data_bytes, data, sizeof(data_bytes));
  const std::string_view json(reinterpret_cast<const char*>(data) + sizeof(data_bytes), size - sizeof(data_bytes));
  try {
    std::uint64_t sum = 0;
    for (const TensorInfo& tensor : parse_safetensors_header(json, "fuzz", 0, 8 + json.size(), data_bytes)) {
      if (tensor.offset < 8 + json.size() || tensor.bytes > data_bytes) __builtin_trap();
      sum += tensor.bytes;
    }
    if (sum != data_bytes) __builtin_trap();
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) __builtin_trap();
  }
  return 0;
}
