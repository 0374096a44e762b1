#include "world.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "errors.hpp"
#include "grid.hpp"

namespace cuda_emulation {
namespace {

std::unique_ptr<World>& instance() {
  static std::unique_ptr<World> world = std::make_unique<World>();
  return world;
}

std::atomic<std::uint64_t> worlds{0};

thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

// Tells what was touched, then lets the default action end the program.
void on_bad_address(int signal, siginfo_t* info, void*) {
  World& w = world();
  std::string text;
  const std::string place = running_place();
  char address[32];
  std::snprintf(address, sizeof address, "%p", info->si_addr);
  if (in_fiber_guard(info->si_addr)) {
    text = place + ": the thread's stack is used up";
  } else if (Device* device = w.device_of(info->si_addr)) {
    const Allocation* allocation = device->memory->find(info->si_addr);
    const std::string what = allocation
                                 ? "in an allocation of " + std::to_string(allocation->bytes) + " bytes, " +
                                       std::to_string(static_cast<std::byte*>(info->si_addr) - allocation->data) +
                                       " bytes from its start"
                                 : "outside of any allocation";
    text = (place.empty() ? "host code" : place) + " touches device memory at " + address + ", " + what;
  } else if (!place.empty()) {
    text = place + " touches " + address + ", which is not device memory";
  }
  if (!text.empty()) {
    text = "CUDA emulation: " + text + "\n";
    static_cast<void>(!write(2, text.data(), text.size()));
  }
  ::signal(signal, SIG_DFL);
}

}  // namespace

World::World() : gpus(read_gpus()), shared(map_shared_use()) {
  for (const int gpu : visible_gpus(gpus)) {
    Device device;
    device.config = gpus[static_cast<std::size_t>(gpu)];
    device.physical = gpu;
    devices.push_back(std::move(device));
  }
  const std::vector<std::string> how = split(environment("TPINFER_EMULATION_ORDER", "late"), ':');
  order = how[0] == "eager" ? Order::eager : how[0] == "random" ? Order::random : Order::late;
  random.seed(how.size() > 1 ? std::stoull(how[1]) : 0);
}

World::~World() {
  if (engine.joinable()) {
    {
      const std::lock_guard guard(lock);
      ending = true;
    }
    engine.join();
  }
  if (!shared) return;
  for (Device& device : devices) count_use(device, -static_cast<std::int64_t>(device.used));
  munmap(shared, sizeof *shared);
}

Device& World::start(int number) {
  Device& device = devices.at(static_cast<std::size_t>(number));
  if (device.memory) return device;
  device.memory = std::make_unique<DeviceMemory>(device.config.total);
  device.default_stream = std::make_shared<Stream>();
  device.default_stream->device = number;
  device.default_stream->blocking = true;
  count_use(device, static_cast<std::int64_t>(device.config.context));
  watch_for_bad_addresses();
  return device;
}

void World::count_use(Device& device, std::int64_t bytes) {
  device.used += static_cast<std::uint64_t>(bytes);
  if (shared) shared->bytes[device.config.host_index] += static_cast<std::uint64_t>(bytes);
}

std::uint64_t World::free_bytes(const Device& device) const {
  std::uint64_t used = device.config.used;
  used += shared ? shared->bytes[device.config.host_index].load() : device.used;
  return used < device.config.total ? device.config.total - used : 0;
}

Device* World::device_of(const void* address) {
  for (Device& device : devices)
    if (device.memory && device.memory->contains(address)) return &device;
  return nullptr;
}

const std::pair<const std::byte* const, std::pair<std::size_t, bool>>* World::pinned_at(const void* address) const {
  const auto* place = static_cast<const std::byte*>(address);
  auto next = pinned.upper_bound(place);
  if (next == pinned.begin()) return nullptr;
  --next;
  return place < next->first + next->second.first ? &*next : nullptr;
}

std::shared_ptr<Stream> World::stream(Stream* handle) {
  if (!handle) return start(current_device()).default_stream;
  const auto found = streams.find(handle);
  return found == streams.end() ? nullptr : found->second;
}

World& world() { return *instance(); }

std::uint64_t world_number() { return worlds; }

void replace_world() {
  ++worlds;
  instance().reset();
  current = 0;
  last = cudaSuccess;
  capture_mode = cudaStreamCaptureModeGlobal;
  instance() = std::make_unique<World>();
}

Entry::Entry(const char* name) : lock(world().lock), error(world().sticky) {
  if (thread_drives()) world().last_call = std::chrono::steady_clock::now();
  if (error == cudaSuccess && !world().faults.empty())
    if (const char* fault = world().faults.visit(name)) {
      error = error_named(fault);
      if (stays(error)) world().sticky = error;
    }
  if (error != cudaSuccess) last = error;
}

cudaError_t finish(cudaError_t status) {
  if (status == cudaSuccess && world().sticky != cudaSuccess) status = world().sticky;
  if (status != cudaSuccess) last = status;
  return status;
}

int current_device() { return current; }
void set_current_device(int device) { current = device; }
cudaStreamCaptureMode& thread_capture_mode() { return capture_mode; }

std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t own = next++;
  return own;
}

void die(const std::string& what) {
  std::fprintf(stderr, "CUDA emulation: %s\n", what.c_str());
  std::fflush(stderr);
  std::abort();
}

void use_own_signal_stack() {
  constexpr std::size_t kStack = 64 << 10;
  thread_local std::vector<std::byte> stack(kStack);
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
}

void watch_for_bad_addresses() {
  use_own_signal_stack();
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bad_address;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
  });
}

void reset() { replace_world(); }
Counts counts() { return world().counts; }
std::size_t device_bytes(int device) { return world().devices.at(static_cast<std::size_t>(device)).used; }

std::size_t pinned_bytes() {
  std::size_t bytes = 0;
  for (const auto& [data, range] : world().pinned)
    if (range.second) bytes += range.first;
  return bytes;
}

std::size_t pending_work() {
  std::size_t count = 0;
  for (const auto& [handle, stream] : world().streams) count += stream->queue.size();
  for (const Device& device : world().devices)
    if (device.default_stream) count += device.default_stream->queue.size();
  return count;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

cudaError_t cudaGetLastError() {
  const cudaError_t error = last;
  last = world().sticky;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last; }
