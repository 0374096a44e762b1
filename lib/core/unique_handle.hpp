#pragma once

#include <utility>

namespace tpinfer {

/// Owner of one foreign handle (file descriptor, HDF5 id, mapping, device pointer ...): movable, not copyable.
///
/// `Traits` says what the handle is and how it goes: `using Handle`, `Handle empty() const noexcept`, `void
/// close(Handle) const noexcept`. Traits may hold data (the length of a mapping, say); closing must not throw.
template <class Traits>
class UniqueHandle : private Traits {
 public:
  using Handle = typename Traits::Handle;

  UniqueHandle() noexcept : handle_(Traits::empty()) {}
  explicit UniqueHandle(Handle handle, Traits traits = {}) noexcept : Traits(std::move(traits)), handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept
      : Traits(std::move(other.traits())), handle_(std::exchange(other.handle_, traits().empty())) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      traits() = std::move(other.traits());
      handle_ = std::exchange(other.handle_, traits().empty());
    }
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  Handle get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != Traits::empty(); }
  const Traits& traits() const noexcept { return *this; }

  Handle release() noexcept { return std::exchange(handle_, Traits::empty()); }
  void reset() noexcept {
    if (handle_ != Traits::empty()) Traits::close(std::exchange(handle_, Traits::empty()));
  }

 private:
  Traits& traits() noexcept { return *this; }
  Handle handle_;
};

}  // namespace tpinfer
