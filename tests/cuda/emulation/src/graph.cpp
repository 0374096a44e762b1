#include <algorithm>

#include "world.hpp"

namespace cuda_emulation {
namespace {

// Where one launch of a graph stands. Any order of the nodes that the graph allows is right.
struct Replay {
  std::shared_ptr<const Graph> graph;
  std::vector<bool> done;
  std::size_t left = 0;

  explicit Replay(std::shared_ptr<const Graph> what)
      : graph(std::move(what)), done(graph->nodes.size()), left(graph->nodes.size()) {}

  bool ready(std::size_t node) const {
    return !done[node] && std::all_of(graph->nodes[node].after.begin(), graph->nodes[node].after.end(),
                                      [&](std::size_t earlier) { return done[earlier]; });
  }

  Progress run() {
    World& w = world();
    while (left > 0) {
      std::vector<std::size_t> able;
      for (std::size_t i = 0; i < done.size() && (able.empty() || w.order == Order::random); ++i)
        if (ready(i)) able.push_back(i);
      const std::size_t next = able[w.order == Order::random ? w.random() % able.size() : 0];
      if (w.sticky == cudaSuccess && graph->nodes[next].operation.run() == Progress::waiting) return Progress::waiting;
      done[next] = true;
      --left;
    }
    return Progress::moved;
  }
};

void end_capture(const std::shared_ptr<Capture>& capture) {
  World& w = world();
  for (const auto& [handle, stream] : w.streams)
    if (stream->capture == capture) {
      stream->capture.reset();
      stream->last_nodes.clear();
    }
  capture->origin = nullptr;
  std::erase(w.captures, capture);
}

// Every node must lead to the last one of the stream where the capture began.
bool joined(const Capture& capture, const Stream& origin) {
  const std::vector<Node>& nodes = capture.graph->nodes;
  std::vector<bool> reached(nodes.size());
  std::vector<std::size_t> next = origin.last_nodes;
  while (!next.empty()) {
    const std::size_t node = next.back();
    next.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    next.insert(next.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

}  // namespace
}  // namespace cuda_emulation

using namespace cuda_emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  Entry entry("cudaStreamBeginCapture");
  if (entry.error != cudaSuccess) return entry.error;
  World& w = world();
  const std::shared_ptr<Stream> stream = w.stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (!handle || stream->capture) return finish(cudaErrorStreamCaptureUnsupported);
  auto capture = std::make_shared<Capture>();
  capture->origin = handle;
  capture->mode = mode;
  capture->thread = thread_number();
  stream->capture = capture;
  stream->last_nodes.clear();
  w.captures.push_back(std::move(capture));
  return finish(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Entry entry("cudaStreamEndCapture");
  *graph = nullptr;
  if (entry.error != cudaSuccess) return entry.error;
  const std::shared_ptr<Stream> stream = world().stream(handle);
  if (!stream || !stream->capture || stream->capture->origin != handle) return finish(cudaErrorInvalidValue);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != thread_number())
    return finish(cudaErrorStreamCaptureWrongThread);
  const bool whole = joined(*capture, *stream);
  end_capture(capture);
  if (capture->invalid) return finish(cudaErrorStreamCaptureInvalidated);
  if (!whole) return finish(cudaErrorStreamCaptureUnjoined);
  *graph = new Graph(*capture->graph);
  return finish(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  Entry entry("cudaStreamIsCapturing");
  if (entry.error != cudaSuccess) return entry.error;
  const std::shared_ptr<Stream> stream = world().stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  *status = !stream->capture           ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return finish(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::unique_lock lock(world().lock);
  std::swap(*mode, thread_capture_mode());
  return finish(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  Entry entry("cudaGraphInstantiate");
  if (entry.error != cudaSuccess) return entry.error;
  if (!graph) return finish(cudaErrorInvalidValue);
  *exec = new GraphExec{std::make_shared<const Graph>(*graph), current_device()};
  return finish(cudaSuccess);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  Entry entry("cudaGraphExecUpdate");
  if (entry.error != cudaSuccess) return entry.error;
  const auto same = [](const Node& a, const Node& b) { return a.kind == b.kind && a.after == b.after; };
  const bool fits =
      std::equal(exec->graph->nodes.begin(), exec->graph->nodes.end(), graph->nodes.begin(), graph->nodes.end(), same);
  *info = {fits ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged, nullptr, nullptr};
  if (!fits) return finish(cudaErrorGraphExecUpdateFailure);
  exec->graph = std::make_shared<const Graph>(*graph);  // launches that stand in a stream keep the old one
  return finish(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  Entry entry("cudaGraphUpload");
  return entry.error != cudaSuccess ? entry.error : finish(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  Entry entry("cudaGraphLaunch");
  if (entry.error != cudaSuccess) return entry.error;
  ++world().counts.graph_launches;
  const auto replay = std::make_shared<Replay>(exec->graph);
  return finish(enqueue(stream, "graph", {.run = [replay] { return replay->run(); }}));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  std::unique_lock lock(world().lock);
  for (std::size_t i = 0; nodes && i < std::min(*count, graph->nodes.size()); ++i) nodes[i] = &graph->nodes[i];
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
