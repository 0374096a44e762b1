#include "runtime/gpu_choice.hpp"

#include <unistd.h>

#include <algorithm>

#include "backend/factory.hpp"
#include "core/bytes.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

struct Survey {
  std::string host;
  std::int64_t host_number = 0;
  std::string why_none;
  std::vector<GpuFacts> gpus;
};

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::vector<std::byte> encode(const Survey& survey) {
  ByteWriter w;
  w.put(survey.host);
  w.put(survey.host_number);
  w.put(survey.why_none);
  w.put(static_cast<std::uint64_t>(survey.gpus.size()));
  for (const GpuFacts& gpu : survey.gpus) {
    w.put(gpu.index);
    for (const std::string* text : {&gpu.name, &gpu.uuid, &gpu.pci}) w.put(*text);
    w.put(gpu.numa_node);
    w.put(gpu.total_bytes);
    w.put(gpu.free_bytes);
  }
  return w.take();
}

Survey decode(std::span<const std::byte> bytes) {
  ByteReader r(bytes);
  Survey survey;
  survey.host = r.get_string();
  survey.host_number = r.get<std::int64_t>();
  survey.why_none = r.get_string();
  const auto count = r.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    GpuFacts& gpu = survey.gpus.emplace_back();
    gpu.index = r.get<std::int32_t>();
    for (std::string* text : {&gpu.name, &gpu.uuid, &gpu.pci}) *text = r.get_string();
    gpu.numa_node = r.get<std::int32_t>();
    gpu.total_bytes = r.get<std::uint64_t>();
    gpu.free_bytes = r.get<std::uint64_t>();
  }
  return survey;
}

Survey survey_here(const Communicator& comm) {
  Survey survey{.host = host_name(), .host_number = comm.host(), .why_none = {}, .gpus = survey_gpus()};
  if (survey.gpus.empty()) {
    survey.why_none = cuda_reason();
    if (survey.why_none.empty()) survey.why_none = "CUDA sees no GPU";
  }
  return survey;
}

std::vector<Survey> exchange(Communicator& comm, const Survey& mine) {
  constexpr std::string_view kWhere = "telling each other of GPUs";
  const auto all = comm.gather(encode(mine), 0, kWhere);
  std::vector<std::byte> joined;
  if (comm.rank() == 0) {
    ByteWriter w;
    for (const auto& one : all) w.put(std::string_view(reinterpret_cast<const char*>(one.data()), one.size()));
    joined = w.take();
  }
  comm.broadcast(joined, 0, kWhere);
  ByteReader r(joined);
  std::vector<Survey> surveys;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::string one = r.get_string();
    surveys.push_back(decode(std::as_bytes(std::span(one))));
  }
  return surveys;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ") + std::to_string(ranks[i]);
  return text;
}

// The ranks of each host choose together.
std::vector<int> choose(const std::vector<Survey>& surveys) {
  std::vector<int> chosen(surveys.size(), -1);
  std::vector<bool> done(surveys.size(), false);
  for (std::size_t first = 0; first < surveys.size(); ++first) {
    if (done[first]) continue;
    std::vector<std::size_t> ranks;
    std::vector<std::vector<std::string>> uuids;
    for (std::size_t rank = first; rank < surveys.size(); ++rank) {
      if (surveys[rank].host_number != surveys[first].host_number) continue;
      done[rank] = true;
      ranks.push_back(rank);
      std::vector<std::string>& own = uuids.emplace_back();
      for (const GpuFacts& gpu : surveys[rank].gpus) own.push_back(gpu.uuid);
    }
    const std::vector<int> taken = assign_gpus(uuids);
    for (std::size_t i = 0; i < ranks.size(); ++i) chosen[ranks[i]] = taken[i];
  }
  return chosen;
}

}  // namespace

GpuChoice GpuChoice::survey(Communicator& comm) {
  Survey mine;
  together(comm, "looking for GPUs", [&] { mine = survey_here(comm); });
  const std::vector<Survey> surveys = exchange(comm, mine);
  const std::vector<int> chosen = choose(surveys);
  GpuChoice choice;
  for (std::size_t rank = 0; rank < surveys.size(); ++rank) {
    GpuSeat& seat = choice.seats_.emplace_back();
    seat.host = surveys[rank].host;
    seat.why_none = surveys[rank].why_none;
    seat.sees_gpu = chosen[rank] >= 0;
    if (seat.sees_gpu) seat.gpu = surveys[rank].gpus[static_cast<std::size_t>(chosen[rank])];
  }
  for (std::size_t rank = 0; rank < surveys.size(); ++rank) {
    GpuSeat& seat = choice.seats_[rank];
    seat.neighbours = 0;
    for (std::size_t other = 0; other < surveys.size(); ++other) {
      if (surveys[other].host_number != surveys[rank].host_number) continue;
      const GpuSeat& theirs = choice.seats_[other];
      if (theirs.gpu.numa_node == seat.gpu.numa_node) ++seat.neighbours;
      if (seat.sees_gpu && theirs.sees_gpu && theirs.gpu.uuid == seat.gpu.uuid)
        seat.sharers.push_back(static_cast<int>(other));
    }
  }
  return choice;
}

bool GpuChoice::decide(const ParallelJob& parallel) const {
  if (parallel.device == Device::cpu) return false;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (seats_[rank].sees_gpu) continue;
    if (parallel.device == Device::automatic) return false;
    throw Error(ExitCode::usage,
                fmt::format("parallel.device: cuda: rank {} on {} has no GPU: {}", rank, seats_[rank].host,
                            seats_[rank].why_none),
                "look at CUDA_VISIBLE_DEVICES and the job's GPUs (nvidia-smi -L), or use parallel.device: cpu");
  }
  for (const GpuSeat& seat : seats_) {
    if (seat.sharers.size() < 2 || parallel.share_gpus) continue;
    throw Error(ExitCode::usage,
                fmt::format("ranks {} on {} would share one GPU, {} ({}, PCI {})", rank_list(seat.sharers), seat.host,
                            seat.gpu.uuid, seat.gpu.name, seat.gpu.pci),
                "start one rank for each GPU, give each rank its own (--gpus-per-task=1), or set "
                "parallel.share_gpus: true");
  }
  return true;
}

bool GpuChoice::shared() const noexcept {
  return std::ranges::any_of(seats_, [](const GpuSeat& seat) { return seat.sharers.size() > 1; });
}

std::vector<std::uint64_t> GpuChoice::budgets(double utilization) const {
  std::vector<std::uint64_t> budgets;
  for (const GpuSeat& seat : seats_) {
    const auto usable = static_cast<std::uint64_t>(utilization * static_cast<double>(seat.gpu.total_bytes));
    const std::uint64_t used = seat.gpu.total_bytes - std::min(seat.gpu.free_bytes, seat.gpu.total_bytes);
    budgets.push_back((usable - std::min(usable, used)) / std::max<std::size_t>(seat.sharers.size(), 1));
  }
  return budgets;
}

}  // namespace tpinfer
