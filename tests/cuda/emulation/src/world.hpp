#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "config.hpp"
#include "emulation/control.hpp"
#include "faults.hpp"
#include "memory.hpp"
#include "shared_use.hpp"

namespace cuda_emulation {

enum class Progress { moved, waiting };

/// A place in the order of a stream: reached when that many of its operations have run.
struct Position {
  std::shared_ptr<Stream> stream;
  std::uint64_t number = 0;
  bool reached() const noexcept;
};

/// What stands in a stream. `run` may be called again when it said that it waits (for other ranks), and in a graph as
/// often as the graph is launched.
struct Operation {
  std::function<Progress()> run;
  std::vector<Position> after = {};
  const std::byte* host = nullptr;  ///< pinned memory that it uses when it runs
  std::size_t host_bytes = 0;
};

struct Node {
  Operation operation;
  std::vector<std::size_t> after;  ///< earlier nodes
  std::string kind;
};

struct Graph {
  std::vector<Node> nodes;
};

struct GraphExec {
  std::shared_ptr<const Graph> graph;
  int device = 0;
};

struct Capture {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Stream* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::uint64_t thread = 0;
  bool invalid = false;
};

struct Stream {
  int device = 0;
  bool blocking = false;  ///< orders with the default stream
  std::deque<Operation> queue;
  std::uint64_t enqueued = 0, executed = 0;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> last_nodes;  ///< of the capture, that the next one comes after
};

struct Event {
  bool timing = true;
  int device = 0;
  std::optional<Position> recorded;
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
  std::shared_ptr<Capture> capture;  ///< of the last record, when that was captured
  std::vector<std::size_t> nodes;
};

struct Device {
  GpuConfig config;
  int physical = 0;
  std::unique_ptr<DeviceMemory> memory;  ///< made when the device is started
  std::shared_ptr<Stream> default_stream;
  std::uint64_t used = 0;  ///< by this process
};

enum class Order { late, eager, random };

/// All state of the emulation in one process, under one lock.
struct World {
  World();
  ~World();

  std::recursive_mutex lock;
  std::vector<GpuConfig> gpus;
  std::vector<Device> devices;  ///< that CUDA shows
  std::map<Stream*, std::shared_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Stream>> ended;  ///< destroyed with work left
  std::map<Event*, std::unique_ptr<Event>> events;
  std::map<const std::byte*, std::pair<std::size_t, bool>> pinned;  ///< bytes, allocated here (else registered)
  std::vector<std::shared_ptr<Capture>> captures;
  FaultPlan faults;
  cudaError_t sticky = cudaSuccess;
  Order order = Order::late;
  std::mt19937_64 random;
  Counts counts;
  SharedUse* shared = nullptr;
  std::chrono::steady_clock::time_point last_call;  ///< of a thread that enqueues work
  std::thread engine;
  bool ending = false;

  Device& start(int device);  ///< makes its memory
  std::uint64_t free_bytes(const Device& device) const;
  void count_use(Device& device, std::int64_t bytes);
  Device* device_of(const void* address);
  const std::pair<const std::byte* const, std::pair<std::size_t, bool>>* pinned_at(const void* address) const;
  std::shared_ptr<Stream> stream(Stream* handle);  ///< null: no such stream
};

World& world();
void replace_world();
std::uint64_t world_number();  ///< how many there were

/// What an API call does first: takes the lock, looks for errors that stay and for injected ones.
struct Entry {
  explicit Entry(const char* name);
  std::unique_lock<std::recursive_mutex> lock;
  cudaError_t error;
};
/// Sets the calling thread's last error.
cudaError_t finish(cudaError_t status);

int current_device();
void set_current_device(int device);
std::uint64_t thread_number();
cudaStreamCaptureMode& thread_capture_mode();
/// Whether a call that may not be made during captures is refused now; the capture is invalid then.
bool refused_by_capture();

/// Puts an operation behind the stream's others, or into the graph that it captures.
cudaError_t enqueue(Stream* handle, const char* kind, Operation operation);
/// Runs work until `position` is reached; gives the lock away while it waits for other ranks.
void run_until(const Position& position, std::unique_lock<std::recursive_mutex>& lock);
/// One operation, if there is one that can run, of `stream` or of what it waits for.
bool run_one(const std::shared_ptr<Stream>& stream);
/// From now on work also goes on when the host lets some time pass without a call: other ranks wait for it.
void start_engine();
void run_all(int device, std::unique_lock<std::recursive_mutex>& lock);
Position end_of(const std::shared_ptr<Stream>& stream);
/// Whether polling from this thread makes work go on: it has enqueued some.
bool thread_drives();

[[noreturn]] void die(const std::string& what);
void watch_for_bad_addresses();
/// A stack of its own for the calling thread's handler of bad addresses.
void use_own_signal_stack();

}  // namespace cuda_emulation
