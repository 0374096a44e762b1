#include "runtime/request.hpp"

#include <algorithm>
#include <numeric>

#include "core/bytes.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kTokensPerStep = 256;  // prompt tokens that cost about as much as one more decode step

std::int64_t work(const Request& request) {
  return request.most_new_tokens + static_cast<std::int64_t>(request.token_ids.size()) / kTokensPerStep;
}

bool is_after(const Request& a, const Request& b) {
  return std::pair(-work(a), a.prompt_index) > std::pair(-work(b), b.prompt_index);
}

void put(ByteWriter& to, const OptionalInt& value) {
  to.put(value.has_value());
  to.put(value.value_or(0));
}

OptionalInt get_optional(ByteReader& from) {
  const bool given = from.get<bool>();
  const auto value = from.get<std::int64_t>();
  return given ? OptionalInt(value) : OptionalInt();
}

void put(ByteWriter& to, const std::vector<std::string>& list) {
  to.put(static_cast<std::uint64_t>(list.size()));
  for (const std::string& text : list) to.put(text);
}

std::vector<std::string> get_strings(ByteReader& from) {
  std::vector<std::string> list(from.get<std::uint64_t>());
  for (std::string& text : list) text = from.get_string();
  return list;
}

// The plain numbers of the parameters, in one order for both directions.
template <class Params, class Each>
void for_each_number(Params& p, Each each) {
  each(p.max_new_tokens), each(p.min_new_tokens), each(p.do_sample), each(p.temperature), each(p.top_k), each(p.top_p);
  each(p.min_p), each(p.repetition_penalty), each(p.presence_penalty), each(p.frequency_penalty);
  each(p.no_repeat_ngram_size), each(p.ignore_eos), each(p.include_stop_str_in_output), each(p.seed), each(p.n);
  each(p.skip_special_tokens), each(p.allow_unknown_ids);
}

void put(ByteWriter& to, const SamplingParams& p) {
  for_each_number(p, [&](const auto& value) { to.put(value); });
  for (const OptionalInt& value : {p.max_length, p.logprobs, p.prompt_logprobs}) put(to, value);
  put(to, p.bad_words);
  put(to, p.stop);
  to.put(p.stop_token_ids);
  to.put(static_cast<std::uint64_t>(p.logit_bias.size()));
  for (const auto& [id, bias] : p.logit_bias) {
    to.put(id);
    to.put(bias);
  }
}

SamplingParams get_params(ByteReader& from) {
  SamplingParams p;
  for_each_number(p, [&](auto& value) { value = from.get<std::remove_reference_t<decltype(value)>>(); });
  for (OptionalInt* value : {&p.max_length, &p.logprobs, &p.prompt_logprobs}) *value = get_optional(from);
  p.bad_words = get_strings(from);
  p.stop = get_strings(from);
  from.get_list(p.stop_token_ids);
  for (auto count = from.get<std::uint64_t>(); count > 0; --count) {
    const auto id = from.get<std::int64_t>();
    p.logit_bias[id] = from.get<double>();
  }
  return p;
}

// What an answer depends on besides the model.
void put_content(ByteWriter& to, const Request& request) {
  to.put(request.token_ids);
  put(to, *request.params);
  to.put(static_cast<std::uint64_t>(request.bad_words.size()));
  for (const auto& word : request.bad_words) to.put(word);
  to.put(request.most_new_tokens);
  to.put(request.at_limit);
}

}  // namespace

std::vector<std::byte> encode(std::span<const Request> requests) {
  ByteWriter to;
  to.put(static_cast<std::uint64_t>(requests.size()));
  for (const Request& r : requests) {
    to.put(r.prompt_index);
    to.put(r.id_hash);
    put_content(to, r);
    to.put(r.finished);
  }
  return to.take();
}

std::vector<Request> decode_requests(std::span<const std::byte> bytes) {
  ByteReader from(bytes);
  std::vector<Request> requests(from.get<std::uint64_t>());
  for (Request& r : requests) {
    r.prompt_index = from.get<std::int64_t>();
    r.id_hash = from.get<std::uint64_t>();
    from.get_list(r.token_ids);
    r.params = std::make_shared<const SamplingParams>(get_params(from));
    r.bad_words.resize(from.get<std::uint64_t>());
    for (auto& word : r.bad_words) from.get_list(word);
    r.most_new_tokens = from.get<std::int64_t>();
    r.at_limit = from.get<FinishReason>();
    from.get_list(r.finished);
  }
  return requests;
}

std::uint64_t content_hash(const Request& request) {
  ByteWriter to;
  put_content(to, request);
  return std::max<std::uint64_t>(1, hash_bytes(to.bytes()));
}

std::uint64_t params_hash(const SamplingParams& params) {
  ByteWriter to;
  put(to, params);
  return hash_bytes(to.bytes());
}

std::int64_t samples_of(std::span<const Request> requests) {
  return std::accumulate(requests.begin(), requests.end(), std::int64_t{0},
                         [](std::int64_t sum, const Request& r) { return sum + r.samples(); });
}

RequestList::RequestList(std::vector<Request> requests, LateRequests* late)
    : requests_(std::move(requests)), late_(late), left_(samples_of(requests_)) {
  std::ranges::make_heap(requests_, is_after);
}

void RequestList::look(std::chrono::milliseconds patience) {
  if (closed_ || !late_ || late_->ended() || late_->failed()) return;
  for (Request& request : late_->take(requests_.empty() ? patience : std::chrono::milliseconds{0})) {
    left_ += request.samples();
    requests_.push_back(std::move(request));
    std::ranges::push_heap(requests_, is_after);
  }
}

std::vector<Request> RequestList::take(std::int64_t most) {
  std::vector<Request> out;
  while (most > 0 && !requests_.empty()) {
    std::ranges::pop_heap(requests_, is_after);
    most -= requests_.back().samples();
    left_ -= requests_.back().samples();
    out.push_back(std::move(requests_.back()));
    requests_.pop_back();
  }
  return out;
}

void RequestList::close() noexcept {
  requests_.clear();
  left_ = 0;
  closed_ = true;
}

}  // namespace tpinfer
