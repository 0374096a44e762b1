#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tpinfer {

/// The driver's management library, opened at run time: it comes with the driver, and its header not with every
/// toolkit.
class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Bytes free on the GPU with this UUID; nothing when the library is not there or does not know it.
  std::optional<std::uint64_t> free_bytes(const std::string& uuid) const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;  ///< null: no library
};

}  // namespace tpinfer
