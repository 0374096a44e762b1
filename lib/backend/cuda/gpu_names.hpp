#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

namespace tpinfer {

/// "GPU-5e3c...": as nvidia-smi spells it.
inline std::string gpu_uuid_text(std::span<const char, 16> bytes) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

}  // namespace tpinfer
