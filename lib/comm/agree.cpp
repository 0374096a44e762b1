#include <algorithm>
#include <new>

#include "comm/communicator.hpp"
#include "core/bytes.hpp"

namespace tpinfer {
namespace {

struct Failure {
  ExitCode code = ExitCode::ok;
  std::string text;
};

Failure describe(const std::exception_ptr& failure) {
  if (!failure) return {};
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    // an Error with code `ok` would be taken for success by the others
    return {error.code() == ExitCode::ok ? ExitCode::internal : error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::internal, "out of memory"};
  } catch (const std::exception& error) {
    return {ExitCode::internal, error.what()};
  } catch (...) {
    return {ExitCode::internal, "an exception of unknown type"};
  }
}

bool alike(const std::vector<std::int64_t>& values) {
  return std::ranges::all_of(values, [&](std::int64_t value) { return value == values.front(); });
}

// The rank's own Error, whose type tells more.
[[noreturn]] void rethrow_as_error(const std::exception_ptr& failure) {
  const Failure own = describe(failure);
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.code() != ExitCode::ok) throw;
    throw Error(own.code, own.text);
  } catch (...) {
    throw Error(own.code, own.text);
  }
}

}  // namespace

void agree(Communicator& comm, const std::exception_ptr& failure, std::string_view where) {
  // without a working communicator the own failure says more than that of the agreement
  if (failure && comm.broken()) std::rethrow_exception(failure);
  const Failure own = describe(failure);
  std::vector<std::int64_t> codes, hashes;
  std::vector<std::byte> text;
  int first = -1;
  try {
    codes = comm.all_gather(static_cast<std::int64_t>(own.code), where);
    const auto found = std::find_if(codes.begin(), codes.end(), [](std::int64_t code) { return code != 0; });
    if (found == codes.end()) return;
    first = static_cast<int>(found - codes.begin());
    const auto* bytes = reinterpret_cast<const std::byte*>(own.text.data());
    if (comm.rank() == first) text.assign(bytes, bytes + own.text.size());
    comm.broadcast(text, first, where);
    hashes = comm.all_gather(static_cast<std::int64_t>(hash_bytes(own.text)), where);
  } catch (const Error&) {
    if (failure) std::rethrow_exception(failure);
    throw;
  }
  std::string sentence(reinterpret_cast<const char*>(text.data()), text.size());
  const auto more = std::count_if(codes.begin(), codes.end(), [](std::int64_t code) { return code != 0; }) - 1;
  if (!alike(codes) || !alike(hashes)) {
    if (first != 0) sentence = fmt::format("rank {}: {}", first, sentence);
    if (more > 0) sentence += fmt::format(", and {} more rank{}", more, more == 1 ? "" : "s");
  }
  if (failure && own.text == sentence) rethrow_as_error(failure);
  throw Error(static_cast<ExitCode>(codes[static_cast<std::size_t>(first)]), sentence);
}

}  // namespace tpinfer
