#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace tpinfer::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// This process's folder in memory, for what is read by its path.
inline const std::filesystem::path& folder() {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string name = "/dev/shm/tpinfer-fuzz-XXXXXX";
      if (::mkdtemp(name.data()) == nullptr) std::abort();
      path = name;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder kFolder;
  return kFolder.path;
}

inline std::filesystem::path write(const std::string& name, std::string_view bytes) {
  const std::filesystem::path file = folder() / name;
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file;
}

/// What a promise is worth: the fuzzer stops here.
inline void require(bool kept) {
  if (!kept) __builtin_trap();
}

/// Runs `body`, which may end in an Error of that code, with a sentence in it, and in nothing else.
template <class Body>
void may_refuse(ExitCode code, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    require(error.code() == code && *error.what() != '\0');
  }
}

}  // namespace tpinfer::fuzz
