#pragma once

#include <hdf5.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/unique_handle.hpp"

namespace tpinfer {

template <herr_t (*Close)(hid_t)>
struct Hdf5Traits {
  using Handle = hid_t;
  static Handle empty() noexcept { return H5I_INVALID_HID; }
  static void close(Handle id) noexcept { Close(id); }
};

using Hdf5File = UniqueHandle<Hdf5Traits<H5Fclose>>;
using Hdf5Group = UniqueHandle<Hdf5Traits<H5Gclose>>;
using Hdf5Dataset = UniqueHandle<Hdf5Traits<H5Dclose>>;
using Hdf5Space = UniqueHandle<Hdf5Traits<H5Sclose>>;
using Hdf5Type = UniqueHandle<Hdf5Traits<H5Tclose>>;
using Hdf5Attribute = UniqueHandle<Hdf5Traits<H5Aclose>>;
using Hdf5Properties = UniqueHandle<Hdf5Traits<H5Pclose>>;

/// Keeps HDF5 from printing its error stack to stderr while it lives; to be made before any other use of HDF5.
class QuietHdf5 {
 public:
  QuietHdf5() noexcept;
  ~QuietHdf5();
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// Which file is worked on, and what a failure there means: output while writing, input while reading.
struct Hdf5Context {
  std::string file;
  ExitCode code = ExitCode::output;

  /// Throws "FILE: cannot write OBJECT: what", with the hint that fits.
  [[noreturn]] void fail(std::string_view object, std::string_view what) const;
  /// The same with the innermost message of HDF5's error stack.
  [[noreturn]] void fail(std::string_view object) const;

  /// `result` of an HDF5 call, where negative means failure.
  template <std::signed_integral T>
  T check(T result, std::string_view object) const {
    if (result < 0) fail(object);
    return result;
  }
};

/// Variable-length UTF-8 string.
Hdf5Type text_type(const Hdf5Context& context);
/// File access without locks: file systems that have none (errno 37, 95, 524) must not lose a result.
Hdf5Properties unlocked_access(const Hdf5Context& context);

/// The HDF5 type of T in the file (little endian) and in memory.
template <class T>
hid_t file_type();
template <class T>
hid_t memory_type();
// clang-format off
template <> hid_t file_type<std::int32_t>();
template <> hid_t file_type<std::int64_t>();
template <> hid_t file_type<std::uint64_t>();
template <> hid_t file_type<float>();
template <> hid_t file_type<double>();
template <> hid_t memory_type<std::int32_t>();
template <> hid_t memory_type<std::int64_t>();
template <> hid_t memory_type<std::uint64_t>();
template <> hid_t memory_type<float>();
template <> hid_t memory_type<double>();
// clang-format on
/// An HDF5 enum over T of names with the values 0, 1, ...
template <class T>
Hdf5Type enum_type(const Hdf5Context& context, std::span<const char* const> names);
extern template Hdf5Type enum_type<std::uint8_t>(const Hdf5Context&, std::span<const char* const>);
extern template Hdf5Type enum_type<std::int8_t>(const Hdf5Context&, std::span<const char* const>);

/// h5py's own way to store bool: int8 with these names.
inline constexpr std::array<const char*, 2> kFlagNames{"FALSE", "TRUE"};

}  // namespace tpinfer
