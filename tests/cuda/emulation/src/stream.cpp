#include <algorithm>

#include "world.hpp"

namespace cuda_emulation {
namespace {

thread_local bool drives = false;

// Device memory may be touched while one of these lives.
class DeviceWork {
 public:
  explicit DeviceWork(World& w) : world_(w) {
    for (Device& device : world_.devices)
      if (device.memory) device.memory->open();
  }
  ~DeviceWork() {
    for (Device& device : world_.devices)
      if (device.memory) device.memory->close();
  }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

 private:
  World& world_;
};

enum class Step { empty, moved, waiting };

// One operation of the stream, or of one that it waits for. Device memory must be open.
Step step(const std::shared_ptr<Stream>& stream) {
  if (stream->queue.empty()) return Step::empty;
  for (const Position& position : stream->queue.front().after)
    if (!position.reached()) return step(position.stream);
  // After an error that stays nothing runs any more; what is enqueued passes.
  Operation& operation = stream->queue.front();
  const Progress progress = world().sticky == cudaSuccess ? operation.run() : Progress::moved;
  if (progress == Progress::waiting) return Step::waiting;
  stream->queue.pop_front();
  ++stream->executed;
  return Step::moved;
}

std::shared_ptr<Stream> any_stream_with_work() {
  World& w = world();
  std::vector<std::shared_ptr<Stream>> found;
  for (const auto& [handle, stream] : w.streams)
    if (!stream->queue.empty()) found.push_back(stream);
  return found.empty() ? nullptr : found[w.random() % found.size()];
}

void order_with_default(const std::shared_ptr<Stream>& stream, Operation& operation) {
  World& w = world();
  const std::shared_ptr<Stream>& standard = w.start(stream->device).default_stream;
  if (stream == standard) {
    for (const auto& [handle, other] : w.streams)
      if (other->blocking && other->device == stream->device) operation.after.push_back(end_of(other));
  } else if (stream->blocking) {
    operation.after.push_back(end_of(standard));
  }
}

cudaError_t capture(Stream& stream, const char* kind, Operation operation) {
  Graph& graph = *stream.capture->graph;
  Node node{std::move(operation), stream.last_nodes, kind};
  graph.nodes.push_back(std::move(node));
  stream.last_nodes = {graph.nodes.size() - 1};
  return cudaSuccess;
}

}  // namespace

bool Position::reached() const noexcept { return stream->executed >= number; }

Position end_of(const std::shared_ptr<Stream>& stream) { return {stream, stream->enqueued}; }

bool thread_drives() { return drives; }

cudaError_t enqueue(Stream* handle, const char* kind, Operation operation) {
  World& w = world();
  const std::shared_ptr<Stream> stream = w.stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  drives = true;
  if (stream->capture)
    return stream->capture->invalid ? cudaErrorStreamCaptureInvalidated : capture(*stream, kind, std::move(operation));
  order_with_default(stream, operation);
  stream->queue.push_back(std::move(operation));
  ++stream->enqueued;
  if (w.order == Order::eager) {
    DeviceWork work(w);
    while (step(stream) == Step::moved && !stream->queue.empty()) {
    }
  } else if (w.order == Order::random && w.random() % 4 == 0) {
    if (const auto other = any_stream_with_work()) {
      DeviceWork work(w);
      step(other);
    }
  }
  return cudaSuccess;
}

bool run_one(const std::shared_ptr<Stream>& stream) {
  DeviceWork work(world());
  return step(stream) == Step::moved;
}

void run_until(const Position& position, std::unique_lock<std::recursive_mutex>& lock) {
  World& w = world();
  int waits = 0;
  while (!position.reached()) {
    bool waiting = false;
    {
      DeviceWork work(w);
      while (!position.reached() && !waiting) {
        std::shared_ptr<Stream> next = position.stream;
        if (w.order == Order::random && w.random() % 2 == 0)
          if (const auto other = any_stream_with_work()) next = other;
        waiting = step(next) == Step::waiting;
      }
    }
    if (waiting) {  // for other ranks, which may need this processor
      lock.unlock();
      if (++waits < 20)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      lock.lock();
    } else {
      waits = 0;
    }
  }
}

void run_all(int device, std::unique_lock<std::recursive_mutex>& lock) {
  World& w = world();
  std::vector<Position> ends;
  for (const auto& [handle, stream] : w.streams)
    if (stream->device == device) ends.push_back(end_of(stream));
  for (const auto& stream : w.ended)
    if (stream->device == device) ends.push_back(end_of(stream));
  if (w.devices[static_cast<std::size_t>(device)].default_stream)
    ends.push_back(end_of(w.devices[static_cast<std::size_t>(device)].default_stream));
  if (w.order == Order::random) std::shuffle(ends.begin(), ends.end(), w.random);
  for (const Position& end : ends) run_until(end, lock);
  std::erase_if(w.ended, [](const auto& stream) { return stream->queue.empty(); });
}

void start_engine() {
  World& w = world();
  if (w.engine.joinable()) return;
  w.engine = std::thread([&w] {
    constexpr std::chrono::milliseconds kIdle{2};
    use_own_signal_stack();
    while (true) {
      std::this_thread::sleep_for(kIdle);
      const std::lock_guard lock(w.lock);
      if (w.ending) return;
      if (std::chrono::steady_clock::now() - w.last_call < kIdle) continue;
      const DeviceWork work(w);
      for (const auto& [handle, stream] : w.streams)
        while (step(stream) == Step::moved) {
        }
    }
  });
}

bool refused_by_capture() {
  World& w = world();
  const cudaStreamCaptureMode own = thread_capture_mode();
  if (own == cudaStreamCaptureModeRelaxed) return false;
  bool refused = false;
  for (const auto& capture : w.captures) {
    const bool applies = capture->mode == cudaStreamCaptureModeGlobal
                             ? own == cudaStreamCaptureModeGlobal || capture->thread == thread_number()
                         : capture->mode == cudaStreamCaptureModeThreadLocal ? capture->thread == thread_number()
                                                                             : false;
    if (!applies) continue;
    capture->invalid = true;
    refused = true;
  }
  return refused;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

namespace {

cudaError_t make_stream(cudaStream_t* handle, unsigned flags) {
  World& w = world();
  if (w.devices.empty()) return cudaErrorNoDevice;
  w.start(current_device());
  auto stream = std::make_shared<Stream>();
  stream->device = current_device();
  stream->blocking = (flags & cudaStreamNonBlocking) == 0;
  *handle = stream.get();
  w.streams[stream.get()] = std::move(stream);
  return cudaSuccess;
}

// The nodes that what comes next in `stream` must come after.
cudaError_t wait_captured(Stream& stream, const Event& event) {
  if (!event.capture) return cudaErrorStreamCaptureUnsupported;  // recorded outside of the capture
  if (!stream.capture) {
    if (!event.capture->origin) return cudaErrorCapturedEvent;  // that capture is over
    stream.capture = event.capture;
    stream.last_nodes.clear();
  }
  if (stream.capture != event.capture) return cudaErrorStreamCaptureUnsupported;
  for (const std::size_t node : event.nodes)
    if (std::find(stream.last_nodes.begin(), stream.last_nodes.end(), node) == stream.last_nodes.end())
      stream.last_nodes.push_back(node);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  Entry entry("cudaStreamCreateWithFlags");
  return entry.error != cudaSuccess ? entry.error : finish(make_stream(stream, flags));
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  std::unique_lock lock(world().lock);
  const auto found = world().streams.find(handle);
  if (found == world().streams.end()) return finish(cudaErrorInvalidResourceHandle);
  if (!found->second->queue.empty()) world().ended.push_back(found->second);
  world().streams.erase(found);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Entry entry("cudaStreamSynchronize");
  if (entry.error != cudaSuccess) return entry.error;
  const std::shared_ptr<Stream> stream = world().stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    stream->capture->invalid = true;
    return finish(cudaErrorStreamCaptureUnsupported);
  }
  ++world().counts.synchronisations;
  run_until(end_of(stream), entry.lock);
  return finish(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Entry entry("cudaStreamQuery");
  if (entry.error != cudaSuccess) return entry.error;
  const std::shared_ptr<Stream> stream = world().stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    stream->capture->invalid = true;
    return finish(cudaErrorStreamCaptureUnsupported);
  }
  if (!stream->queue.empty() && thread_drives()) run_one(stream);
  if (const cudaError_t status = finish(cudaSuccess); status != cudaSuccess) return status;
  return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
  Entry entry("cudaDeviceSynchronize");
  if (entry.error != cudaSuccess) return entry.error;
  if (refused_by_capture()) return finish(cudaErrorStreamCaptureUnsupported);
  ++world().counts.synchronisations;
  if (!world().devices.empty()) run_all(current_device(), entry.lock);
  return finish(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  Entry entry("cudaStreamWaitEvent");
  if (entry.error != cudaSuccess) return entry.error;
  World& w = world();
  const std::shared_ptr<Stream> stream = w.stream(handle);
  if (!stream || !w.events.contains(event)) return finish(cudaErrorInvalidResourceHandle);
  if (stream->capture || event->capture) return finish(wait_captured(*stream, *event));
  if (!event->recorded) return finish(cudaSuccess);
  return finish(enqueue(handle, "wait", {.run = [] { return Progress::moved; }, .after = {*event->recorded}}));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  Entry entry("cudaLaunchHostFunc");
  if (entry.error != cudaSuccess) return entry.error;
  return finish(enqueue(stream, "host", {.run = [function, data] {
                          function(data);
                          return Progress::moved;
                        }}));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  Entry entry("cudaEventCreateWithFlags");
  if (entry.error != cudaSuccess) return entry.error;
  auto event = std::make_unique<Event>();
  event->timing = (flags & cudaEventDisableTiming) == 0;
  event->device = current_device();
  *handle = event.get();
  world().events[event.get()] = std::move(event);
  return finish(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::unique_lock lock(world().lock);
  return world().events.erase(event) == 1 ? cudaSuccess : finish(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  Entry entry("cudaEventRecord");
  if (entry.error != cudaSuccess) return entry.error;
  World& w = world();
  const std::shared_ptr<Stream> stream = w.stream(handle);
  if (!stream || !w.events.contains(event)) return finish(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    event->capture = stream->capture;
    event->nodes = stream->last_nodes;
    event->recorded.reset();
    return finish(cudaSuccess);
  }
  event->capture.reset();
  const auto time = std::make_shared<std::chrono::steady_clock::time_point>();
  event->time = time;
  const cudaError_t status = enqueue(handle, "record", {.run = [time] {
                                       *time = std::chrono::steady_clock::now();
                                       return Progress::moved;
                                     }});
  event->recorded = end_of(stream);
  return finish(status);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Entry entry("cudaEventQuery");
  if (entry.error != cudaSuccess) return entry.error;
  if (!world().events.contains(event)) return finish(cudaErrorInvalidResourceHandle);
  if (refused_by_capture()) return finish(cudaErrorStreamCaptureUnsupported);
  if (event->capture) return finish(cudaErrorCapturedEvent);
  if (event->recorded && !event->recorded->reached() && thread_drives()) run_one(event->recorded->stream);
  if (const cudaError_t status = finish(cudaSuccess); status != cudaSuccess) return status;
  return !event->recorded || event->recorded->reached() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Entry entry("cudaEventSynchronize");
  if (entry.error != cudaSuccess) return entry.error;
  if (!world().events.contains(event)) return finish(cudaErrorInvalidResourceHandle);
  if (refused_by_capture()) return finish(cudaErrorStreamCaptureUnsupported);
  if (event->capture) return finish(cudaErrorCapturedEvent);
  ++world().counts.synchronisations;
  if (event->recorded) run_until(Position(*event->recorded), entry.lock);
  return finish(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  Entry entry("cudaEventElapsedTime");
  if (entry.error != cudaSuccess) return entry.error;
  World& w = world();
  if (!w.events.contains(begin) || !w.events.contains(end) || !begin->timing || !end->timing || !begin->recorded ||
      !end->recorded)
    return finish(cudaErrorInvalidResourceHandle);
  if (!begin->recorded->reached() || !end->recorded->reached()) return finish(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *begin->time).count();
  return finish(cudaSuccess);
}
