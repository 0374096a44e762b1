#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "job/sampling.hpp"
#include "output/run_result.hpp"
#include "runtime/stop.hpp"

namespace tpinfer {

/// A prompt ready to run.
struct Request {
  std::int64_t prompt_index = 0;
  std::uint64_t id_hash = 0;  ///< of the prompt's id, for the draws
  std::vector<std::int32_t> token_ids;
  std::shared_ptr<const SamplingParams> params = std::make_shared<const SamplingParams>();  ///< equal ones are shared
  std::vector<std::vector<std::int32_t>> bad_words = {};                                    ///< each as ids
  std::int64_t most_new_tokens = 0;              ///< of each sample, under all limits
  FinishReason at_limit = FinishReason::length;  ///< why it ends at most_new_tokens
  std::vector<std::int32_t> finished = {};       ///< samples that have their answer already, ascending

  bool is_finished(std::int32_t sample) const {
    return std::find(finished.begin(), finished.end(), sample) != finished.end();
  }
  /// Samples that are to be run.
  std::int64_t samples() const noexcept { return params->n - static_cast<std::int64_t>(finished.size()); }
  std::int64_t most_tokens() const noexcept { return static_cast<std::int64_t>(token_ids.size()) + most_new_tokens; }
};

/// Requests as they cross ranks.
std::vector<std::byte> encode(std::span<const Request> requests);
std::vector<Request> decode_requests(std::span<const std::byte> bytes);
/// Hash of all that the answers of a request depend on, but the model and the prompt's id; never 0.
std::uint64_t content_hash(const Request& request);
std::uint64_t params_hash(const SamplingParams& params);
std::int64_t samples_of(std::span<const Request> requests);

/// Where an engine gets its work from.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  /// Requests with about `most` samples together, the last one may go beyond; none when there are none at the moment.
  virtual std::vector<Request> take(std::int64_t most) = 0;
  /// True when take() will never give any more.
  virtual bool exhausted() const = 0;
  /// Samples that an engine should hold besides those that it runs.
  virtual std::int64_t ahead() const = 0;
  /// Called before each step; from `close` on take() gives nothing more.
  virtual StopPhase phase() { return StopPhase::go; }
  /// Called when the engine has nothing to do and more may come; returns soon.
  virtual void wait() {}
};

/// Requests that become known while others run.
class LateRequests {
 public:
  virtual ~LateRequests() = default;
  /// Some that have become known, in their order; waits for `patience` at most while there are none.
  virtual std::vector<Request> take(std::chrono::milliseconds patience) = 0;
  /// take() will never give any more.
  virtual bool ended() const = 0;
  /// It will not because of a fault, for which the job is to end.
  virtual bool failed() const = 0;
};

/// All requests of a job, longest first as far as they are known, so that the end of the job is not one long answer
/// alone. Equal ones keep their order.
class RequestList final : public RequestSource {
 public:
  /// `late` (may be null) must stay.
  explicit RequestList(std::vector<Request> requests, LateRequests* late = nullptr);
  std::vector<Request> take(std::int64_t most) override;
  bool exhausted() const override { return requests_.empty() && (closed_ || !late_ || late_->ended()); }
  std::int64_t ahead() const override { return kAhead; }
  std::int64_t left() const noexcept { return left_; }  ///< samples
  /// Takes over what has become known; while there is nothing at all, waits for it up to `patience`.
  void look(std::chrono::milliseconds patience = std::chrono::milliseconds{0});
  /// Others should have come, and cannot.
  bool failed() const { return late_ && late_->failed(); }
  /// Gives nothing more.
  void close() noexcept;

 private:
  static constexpr std::int64_t kAhead = 64;  // enough to look for those that can share a prefix

  std::vector<Request> requests_;  ///< a heap, the next one in front
  LateRequests* late_;
  std::int64_t left_ = 0;
  bool closed_ = false;
};

}  // namespace tpinfer
