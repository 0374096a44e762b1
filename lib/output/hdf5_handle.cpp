#include "output/hdf5_handle.hpp"

#include <cstdint>

namespace tpinfer {

namespace {

constexpr const char* kLockWords = "unable to lock file";

const char* hint_for(ExitCode code, std::string_view what) {
  // Only this variable makes HDF5 ask for locks (unlocked_access).
  if (what.find(kLockWords) != std::string_view::npos)
    return "unset HDF5_USE_FILE_LOCKING and run the same command again";
  if (code == ExitCode::output) return "make room or name another output.file, then run the same command again";
  return "the file is damaged or was not written by tpinfer; take a whole copy or run the job again";
}

/// The system's own words where HDF5 quotes them, otherwise the description.
std::string essence(const std::string& description) {
  const std::string mark = "error message = '";
  const auto begin = description.find(mark);
  if (begin == std::string::npos) return description;
  const auto from = begin + mark.size();
  const auto words = description.substr(from, description.find('\'', from) - from);
  return description.find(kLockWords) == std::string::npos ? words : fmt::format("{}: {}", kLockWords, words);
}

herr_t keep_innermost(unsigned, const H5E_error2_t* entry, void* message) {
  // A walk upward meets the innermost call first; a non-zero return ends it.
  *static_cast<std::string*>(message) = entry->desc ? entry->desc : "";
  return 1;
}

std::string innermost_message() {
  std::string message;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &keep_innermost, &message);
  H5Eclear2(H5E_DEFAULT);
  return message.empty() ? "HDF5 gives no reason" : essence(message);
}

}  // namespace

QuietHdf5::QuietHdf5() noexcept {
  // Files are closed by their owners. At exit HDF5 would only try once more, and crash on, a file that a full disk has
  // kept it from closing.
  H5dont_atexit();
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

QuietHdf5::~QuietHdf5() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

void Hdf5Context::fail(std::string_view object, std::string_view what) const {
  const char* verb = code == ExitCode::output ? "write" : "read";
  throw Error(code, fmt::format("{}: cannot {} {}: {}", file, verb, object, what), hint_for(code, what));
}

void Hdf5Context::fail(std::string_view object) const { fail(object, innermost_message()); }

Hdf5Type text_type(const Hdf5Context& context) {
  Hdf5Type type(context.check(H5Tcopy(H5T_C_S1), "the text type"));
  context.check(H5Tset_size(type.get(), H5T_VARIABLE), "the text type");
  context.check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "the text type");
  return type;
}

Hdf5Properties unlocked_access(const Hdf5Context& context) {
  Hdf5Properties access(context.check(H5Pcreate(H5P_FILE_ACCESS), "the file"));
  context.check(H5Pset_file_locking(access.get(), false, true), "the file");
  // Closing the file closes what an exception left open in it.
  context.check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "the file");
  return access;
}

// clang-format off
template <> hid_t file_type<std::int32_t>() { return H5T_STD_I32LE; }
template <> hid_t file_type<std::int64_t>() { return H5T_STD_I64LE; }
template <> hid_t file_type<std::uint64_t>() { return H5T_STD_U64LE; }
template <> hid_t file_type<float>() { return H5T_IEEE_F32LE; }
template <> hid_t file_type<double>() { return H5T_IEEE_F64LE; }
template <> hid_t memory_type<std::int32_t>() { return H5T_NATIVE_INT32; }
template <> hid_t memory_type<std::int64_t>() { return H5T_NATIVE_INT64; }
template <> hid_t memory_type<std::uint64_t>() { return H5T_NATIVE_UINT64; }
template <> hid_t memory_type<float>() { return H5T_NATIVE_FLOAT; }
template <> hid_t memory_type<double>() { return H5T_NATIVE_DOUBLE; }
// clang-format on

template <class T>
Hdf5Type enum_type(const Hdf5Context& context, std::span<const char* const> names) {
  Hdf5Type type(context.check(H5Tenum_create(std::is_signed_v<T> ? H5T_STD_I8LE : H5T_STD_U8LE), "an enum"));
  T value = 0;
  for (const char* name : names) {
    context.check(H5Tenum_insert(type.get(), name, &value), "an enum");
    ++value;
  }
  return type;
}
template Hdf5Type enum_type<std::uint8_t>(const Hdf5Context&, std::span<const char* const>);
template Hdf5Type enum_type<std::int8_t>(const Hdf5Context&, std::span<const char* const>);

}  // namespace tpinfer
