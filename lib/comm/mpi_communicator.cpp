#include "comm/mpi_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "comm/backoff.hpp"
#include "core/checked_cast.hpp"

namespace tpinfer {
namespace {

constexpr int kTestsBeforeYield = 50;

}  // namespace

void check_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ExitCode::communication, fmt::format("{}: MPI reports: {}", what, text));
}

std::string name_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const MpiSettings& settings, std::shared_ptr<MpiHealth> health)
    : comm_(comm), settings_(settings), health_(std::move(health)) {
  const std::string_view what = "a communicator cannot be set up";
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), what);
  check_mpi(MPI_Comm_rank(comm_, &rank_), what);
  check_mpi(MPI_Comm_size(comm_, &size_), what);
  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local), what);
  MPI_Comm_rank(local, &local_rank_);
  MPI_Comm_size(local, &local_size_);
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group ours = MPI_GROUP_NULL;
  MPI_Comm_group(comm_, &all);
  MPI_Comm_group(local, &ours);
  const int leader = 0;
  check_mpi(MPI_Group_translate_ranks(ours, 1, &leader, all, &host_), what);
  MPI_Group_free(&all);
  MPI_Group_free(&ours);
  MPI_Comm_free(&local);
  roll_call_ = std::make_unique<RollCall>(comm_, rank_, size_);
  head_ = std::make_shared<BroadcastHead>();
}

MpiCommunicator::~MpiCommunicator() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised || broken()) return;
  roll_call_->drain();
  MPI_Comm_free(&comm_);
}

MpiCommunicator::Place MpiCommunicator::begin(std::string_view operation, std::string_view where) {
  if (broken())
    throw Error(ExitCode::communication,
                fmt::format("{} ({}): communication has failed before: {}", operation, where, health_->why));
  ++sequence_;
  return {operation, where};
}

void MpiCommunicator::check(int code, const Place& place) const {
  if (code == MPI_SUCCESS) return;
  const std::string what = fmt::format("{} ({}) on rank {} of {}", place.operation, place.where, rank_, size_);
  health_->fail(what);
  check_mpi(code, what);
}

void MpiCommunicator::check_root(int root, const Place& place) const {
  if (root < 0 || root >= size_)
    throw Error(ExitCode::internal,
                fmt::format("{} ({}): root {} of {} ranks", place.operation, place.where, root, size_));
}

void MpiCommunicator::wait(MPI_Request request, const Place& place) {
  const double announce_after = std::min(1.0, settings_.timeout / 10);
  Backoff backoff(settings_.timeout, kTestsBeforeYield);
  for (;;) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), place);
    if (done) return;
    if (backoff.slow() && backoff.waited() > announce_after) roll_call_->announce(sequence_);
    if (!backoff.step()) missed_deadline(place, backoff.waited());
  }
}

void MpiCommunicator::missed_deadline(const Place& place, double waited) {
  const auto silent = roll_call_->silent(sequence_);
  auto sentence =
      fmt::format("{} ({}): rank {} of {} waited {:.1f} s", place.operation, place.where, rank_, size_, waited);
  sentence +=
      silent.empty() ? std::string(" although all ranks are there") : " without word from " + name_ranks(silent);
  health_->fail(sentence);
  throw Error(ExitCode::communication, sentence, std::string(kMissingRankHint));
}

void MpiCommunicator::barrier(std::string_view where) {
  const auto place = begin("barrier", where);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm_, &request), place);
  wait(request, place);
}

void MpiCommunicator::broadcast(std::vector<std::byte>& bytes, int root, std::string_view where) {
  const auto place = begin("broadcast", where);
  check_root(root, place);
  BroadcastHead* const head = head_.get();
  if (rank_ == root) {
    head->length = bytes.size();
    std::copy_n(bytes.begin(), std::min(bytes.size(), head->start.size()), head->start.begin());
  }
  try {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(head, sizeof(BroadcastHead), MPI_BYTE, root, comm_, &request), place);
    wait(request, place);
    const auto length = checked_cast<std::size_t>(head->length);
    const std::size_t in_head = std::min(length, head->start.size());
    if (rank_ != root) {
      bytes.resize(length);
      std::copy_n(head->start.begin(), in_head, bytes.begin());
    }
    for (std::size_t done = in_head; done < length;) {
      const std::size_t part = std::min(length - done, settings_.most_per_message);
      check(MPI_Ibcast(bytes.data() + done, checked_cast<int>(part), MPI_BYTE, root, comm_, &request), place);
      wait(request, place);
      done += part;
    }
  } catch (...) {
    health_->kept.push_back(head_);
    health_->kept.push_back(std::make_shared<std::vector<std::byte>>(std::move(bytes)));
    throw;
  }
}

std::vector<std::int64_t> MpiCommunicator::all_gather(std::int64_t value, std::string_view where) {
  const auto place = begin("all-gather", where);
  // [own, from rank 0, from rank 1, ...], shared so that it can outlive this call
  const auto values = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(size_) + 1);
  (*values)[0] = value;
  MPI_Request request = MPI_REQUEST_NULL;
  try {
    check(MPI_Iallgather(values->data(), 1, MPI_INT64_T, values->data() + 1, 1, MPI_INT64_T, comm_, &request), place);
    wait(request, place);
  } catch (...) {
    health_->kept.push_back(values);
    throw;
  }
  return {values->begin() + 1, values->end()};
}

std::vector<std::vector<std::byte>> MpiCommunicator::gather(std::span<const std::byte> bytes, int root,
                                                            std::string_view where) {
  check_root(root, {"gather", where});
  // everybody waits for everybody here, so that a missing rank is noticed, and named, by all
  const auto lengths = all_gather(checked_cast<std::int64_t>(bytes.size()), where);
  const Place place{"gather", where};
  std::vector<std::vector<std::byte>> all;
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank_ != root) {
    // the receiver's memory is never at risk here: a given-up send only reads
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t part = std::min(bytes.size() - done, settings_.most_per_message);
      check(MPI_Isend(bytes.data() + done, checked_cast<int>(part), MPI_BYTE, root, kGatherTag, comm_, &request),
            place);
      wait(request, place);
      done += part;
    }
    return all;
  }
  all.resize(lengths.size());
  try {
    for (int from = 0; from < size_; ++from) {
      auto& to = all[static_cast<std::size_t>(from)];
      if (from == rank_) {
        to.assign(bytes.begin(), bytes.end());
        continue;
      }
      to.resize(static_cast<std::size_t>(lengths[static_cast<std::size_t>(from)]));
      for (std::size_t done = 0; done < to.size();) {
        const std::size_t part = std::min(to.size() - done, settings_.most_per_message);
        check(MPI_Irecv(to.data() + done, checked_cast<int>(part), MPI_BYTE, from, kGatherTag, comm_, &request), place);
        wait(request, place);
        done += part;
      }
    }
  } catch (...) {
    health_->kept.push_back(std::make_shared<std::vector<std::vector<std::byte>>>(std::move(all)));
    throw;
  }
  return all;
}

std::unique_ptr<MpiCommunicator> MpiCommunicator::split_with(int color, double timeout, std::string_view where) {
  barrier(where);  // MPI's split has no deadline: only begin it when all are there
  const Place place{"split", where};
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, color, rank_, &part), place);
  auto settings = settings_;
  settings.timeout = timeout;
  return std::make_unique<MpiCommunicator>(part, settings, health_);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, std::string_view where) {
  if (color < 0) throw Error(ExitCode::internal, fmt::format("split ({}): color {} is negative", where, color));
  return split_with(color, settings_.timeout, where);
}

void MpiCommunicator::abort(ExitCode code) noexcept {
  MPI_Abort(comm_, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

void MpiCommunicator::all_reduce_sum(std::span<double> values, const std::shared_ptr<const void>& owner,
                                     std::string_view where) {
  all_reduce(std::as_writable_bytes(values).data(), values.size(), MPI_DOUBLE, sizeof(double), owner, where);
}

void MpiCommunicator::all_reduce_sum(std::span<float> values, const std::shared_ptr<const void>& owner,
                                     std::string_view where) {
  all_reduce(std::as_writable_bytes(values).data(), values.size(), MPI_FLOAT, sizeof(float), owner, where);
}

void MpiCommunicator::all_reduce(std::byte* values, std::size_t count, MPI_Datatype type, std::size_t size,
                                 const std::shared_ptr<const void>& owner, std::string_view where) {
  const auto place = begin("all-reduce", where);
  const std::size_t most = std::max<std::size_t>(1, settings_.most_per_message / size);
  try {
    for (std::size_t done = 0; done < count;) {
      const std::size_t part = std::min(count - done, most);
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Iallreduce(MPI_IN_PLACE, values + done * size, checked_cast<int>(part), type, MPI_SUM, comm_, &request),
            place);
      wait(request, place);
      done += part;
    }
  } catch (...) {
    health_->kept.push_back(owner);
    throw;
  }
}

void MpiCommunicator::gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                                     float* out, std::string_view where) {
  const auto place = begin("gather of columns", where);
  std::int64_t total = 0;
  for (const auto width : widths) total += width;
  if (total == 0 || rows == 0) return;
  const std::int64_t own = widths[static_cast<std::size_t>(rank_)];
  const auto most = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(settings_.most_per_message / sizeof(float)) / total);  // rows in one message
  for (std::int64_t row = 0; row < rows; row += most) {
    const std::int64_t part = std::min(most, rows - row);
    gather_rows({local + row * own, static_cast<std::size_t>(part * own)}, part, widths,
                rank_ == 0 ? out + row * total : nullptr, place);
  }
}

void MpiCommunicator::Counts::clear() {
  for (auto* list : {&send, &send_at, &receive, &receive_at}) list->clear();
}

// What was received from each rank begins at starts[rank] of blocks_.
void MpiCommunicator::place_blocks(std::int64_t rows, std::span<const std::int64_t> widths, std::span<const int> starts,
                                   float* out) const {
  std::int64_t total = 0;
  for (const auto width : widths) total += width;
  std::int64_t column = 0;
  for (std::size_t from = 0; from < widths.size(); ++from) {
    const float* block = blocks_->data() + starts[from];
    for (std::int64_t row = 0; row < rows; ++row)
      std::copy_n(block + row * widths[from], widths[from], out + row * total + column);
    column += widths[from];
  }
}

void MpiCommunicator::gather_rows(std::span<const float> local, std::int64_t rows, std::span<const std::int64_t> widths,
                                  float* out, const Place& place) {
  counts_.clear();
  std::int64_t total = 0;
  for (const auto width : widths) {
    counts_.receive.push_back(checked_cast<int>(rows * width));
    counts_.receive_at.push_back(checked_cast<int>(rows * total));
    total += width;
  }
  if (rank_ == 0) blocks_->resize(std::max(blocks_->size(), static_cast<std::size_t>(rows * total)));
  MPI_Request request = MPI_REQUEST_NULL;
  try {
    check(MPI_Igatherv(local.data(), checked_cast<int>(local.size()), MPI_FLOAT, blocks_->data(),
                       counts_.receive.data(), counts_.receive_at.data(), MPI_FLOAT, 0, comm_, &request),
          place);
    wait(request, place);
  } catch (...) {
    health_->kept.push_back(blocks_);
    throw;
  }
  if (rank_ == 0) place_blocks(rows, widths, counts_.receive_at, out);
}

void MpiCommunicator::share_rows(const float* local, std::span<const std::int64_t> begins,
                                 std::span<const std::int64_t> widths, float* out, std::string_view where) {
  const auto place = begin("division of rows", where);
  const auto me = static_cast<std::size_t>(rank_);
  std::int64_t total = 0;
  std::int64_t longest = 0;
  for (std::size_t r = 0; r < widths.size(); ++r) {
    total += widths[r];
    longest = std::max(longest, begins[r + 1] - begins[r]);
  }
  if (total == 0) return;
  const std::int64_t most = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(settings_.most_per_message / sizeof(float)) / total);  // rows of a rank at once
  for (std::int64_t done = 0; done < longest; done += most) {
    const auto part_of = [&](std::size_t rank) {
      return std::clamp<std::int64_t>(begins[rank + 1] - begins[rank] - done, 0, most);
    };
    counts_.clear();
    std::int64_t received = 0;
    for (std::size_t r = 0; r < widths.size(); ++r) {
      counts_.send.push_back(checked_cast<int>(part_of(r) * widths[me]));
      counts_.send_at.push_back(checked_cast<int>(std::min(begins[r] + done, begins[r + 1]) * widths[me]));
      counts_.receive.push_back(checked_cast<int>(part_of(me) * widths[r]));
      counts_.receive_at.push_back(checked_cast<int>(received));
      received += counts_.receive.back();
    }
    blocks_->resize(std::max(blocks_->size(), static_cast<std::size_t>(received)));
    MPI_Request request = MPI_REQUEST_NULL;
    try {
      check(MPI_Ialltoallv(local, counts_.send.data(), counts_.send_at.data(), MPI_FLOAT, blocks_->data(),
                           counts_.receive.data(), counts_.receive_at.data(), MPI_FLOAT, comm_, &request),
            place);
      wait(request, place);
    } catch (...) {
      health_->kept.push_back(blocks_);
      throw;
    }
    if (part_of(me) > 0) place_blocks(part_of(me), widths, counts_.receive_at, out + done * total);
  }
}

}  // namespace tpinfer
