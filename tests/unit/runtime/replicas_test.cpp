#include "runtime/replicas.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "runtime/drip.hpp"

namespace tpinfer {
namespace {

// Mailboxes of one process: letters to each rank.
struct Post {
  std::map<int, std::deque<Letter>> boxes;
};

class LocalMailbox final : public Mailbox {
 public:
  LocalMailbox(Post& post, int rank) : post_(post), rank_(rank) {}
  void send(int to, std::vector<std::byte> bytes) override { post_.boxes[to].push_back({rank_, std::move(bytes)}); }
  std::optional<Letter> receive() override {
    auto& box = post_.boxes[rank_];
    if (box.empty()) return std::nullopt;
    Letter letter = std::move(box.front());
    box.pop_front();
    return letter;
  }
  bool sent_all() override { return true; }

 private:
  Post& post_;
  int rank_;
};

std::vector<Request> requests(std::int64_t count, std::int64_t n = 1) {
  std::vector<Request> list;
  for (std::int64_t i = 0; i < count; ++i) {
    SamplingParams params;
    params.n = n;
    Request request{.prompt_index = i,
                    .token_ids = {1, 2, static_cast<std::int32_t>(i)},
                    .params = std::make_shared<const SamplingParams>(params)};
    request.most_new_tokens = 5;
    list.push_back(request);
  }
  return list;
}

AnswerRow answer_to(const Request& request) {
  AnswerRow row;
  row.prompt_index = request.prompt_index;
  return row;
}

TEST(Replicas, GroupsAreMadeOfRanksOfOneHost) {
  const auto layout = lay_out_replicas({0, 1, 0, 1, 0, 1}, 3);
  EXPECT_EQ(layout.replica, (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(layout.leaders, (std::vector<int>{0, 1}));
  EXPECT_EQ(layout.places(), (std::vector<int>{0, 0, 1, 1, 2, 2}));
  const auto uneven = lay_out_replicas({0, 0, 0, 3, 3, 3}, 2);
  EXPECT_EQ(uneven.replica, (std::vector<int>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(uneven.leaders, (std::vector<int>{0, 2, 4}));
  EXPECT_THROW(lay_out_replicas({0, 0, 0}, 2), Error);
}

TEST(Replicas, RequestsCrossRanksWhole) {
  Request request{.prompt_index = 3, .id_hash = 77, .token_ids = {5, 6}};
  request.params = std::make_shared<const SamplingParams>(SamplingParams{.max_new_tokens = 9,
                                                                         .max_length = 11,
                                                                         .min_new_tokens = 2,
                                                                         .do_sample = true,
                                                                         .temperature = 0.7,
                                                                         .top_k = 4,
                                                                         .top_p = 0.8,
                                                                         .min_p = 0.1,
                                                                         .repetition_penalty = 1.1,
                                                                         .presence_penalty = 0.2,
                                                                         .frequency_penalty = 0.3,
                                                                         .no_repeat_ngram_size = 2,
                                                                         .bad_words = {"a b", ""},
                                                                         .logit_bias = {{3, -1.5}, {9, 2.0}},
                                                                         .stop = {"x"},
                                                                         .stop_token_ids = {4, 5},
                                                                         .ignore_eos = true,
                                                                         .include_stop_str_in_output = true,
                                                                         .seed = 99,
                                                                         .n = 3,
                                                                         .logprobs = 0,
                                                                         .prompt_logprobs = 2,
                                                                         .skip_special_tokens = false,
                                                                         .allow_unknown_ids = true});
  request.bad_words = {{1, 2}, {}};
  request.most_new_tokens = 7;
  request.at_limit = FinishReason::context;
  const auto bytes = encode(std::span(&request, 1));
  const auto back = decode_requests(bytes);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(*back[0].params, *request.params);
  EXPECT_EQ(back[0].token_ids, request.token_ids);
  EXPECT_EQ(back[0].bad_words, request.bad_words);
  EXPECT_EQ(back[0].id_hash, 77U);
  EXPECT_EQ(back[0].prompt_index, 3);
  EXPECT_EQ(back[0].most_new_tokens, 7);
  EXPECT_EQ(back[0].at_limit, FinishReason::context);
}

TEST(Replicas, LongestWorkComesFirst) {
  auto list = requests(4);
  list[2].most_new_tokens = 50;
  list[3].token_ids.assign(3000, 1);
  RequestList source(list);
  std::vector<std::int64_t> order;
  while (!source.exhausted())
    for (const Request& r : source.take(1)) order.push_back(r.prompt_index);
  EXPECT_EQ(order, (std::vector<std::int64_t>{2, 3, 0, 1}));
}

TEST(Replicas, LateRequestsTakeTheirPlaceByLength) {
  auto all = requests(6);
  all[3].most_new_tokens = 50;
  all[4].most_new_tokens = 2;
  all[5].most_new_tokens = 50;
  Drip drip;
  StopSwitch asked;
  StopPlan stop(asked, std::nullopt, 60);
  StoppableList source(RequestList({all[0], all[1]}, &drip), nullptr, stop, asked);
  EXPECT_EQ(source.take(1)[0].prompt_index, 0);
  drip.come.assign(all.begin() + 2, all.end());
  EXPECT_EQ(source.phase(), StopPhase::go);
  drip.over = true;
  std::vector<std::int64_t> order;
  for (const Request& r : source.take(9)) order.push_back(r.prompt_index);
  EXPECT_EQ(order, (std::vector<std::int64_t>{3, 5, 1, 2, 4}));
  EXPECT_TRUE(source.exhausted());
}

TEST(Replicas, AListWaitsForThoseThatMayCome) {
  Drip drip;
  StopSwitch asked;
  StopPlan stop(asked, std::nullopt, 60);
  StoppableList source(RequestList(requests(1), &drip), nullptr, stop, asked);
  source.phase();
  EXPECT_EQ(drip.waits.back().count(), 0) << "there is something to do";
  source.take(1);
  EXPECT_FALSE(source.exhausted());
  source.phase();
  EXPECT_EQ(drip.waits.back().count(), 0) << "a step must not wait";
  source.wait();
  EXPECT_GT(drip.waits.back().count(), 0) << "nothing to do: no busy loop";
  drip.over = true;
  EXPECT_TRUE(source.exhausted());
}

TEST(Replicas, ALateFaultEndsTheJobAndAStopForgetsWhatIsToCome) {
  StopSwitch asked;
  StopPlan stop(asked, std::nullopt, 60);
  Drip drip;
  StoppableList source(RequestList(requests(5), &drip), nullptr, stop, asked);
  EXPECT_EQ(source.phase(), StopPhase::go);
  drip.broken = true;
  EXPECT_EQ(source.phase(), StopPhase::leave);
  EXPECT_TRUE(source.take(9).empty());
  EXPECT_TRUE(source.exhausted());
  Drip other;
  StoppableList stopped(RequestList(requests(5), &other), nullptr, stop, asked);
  asked.ask(StopSwitch::Asked::gently);
  EXPECT_EQ(stopped.phase(), StopPhase::close);
  for (const Request& r : requests(3)) other.come.push_back(r);
  stopped.phase();
  stopped.wait();
  EXPECT_TRUE(stopped.take(9).empty());
  EXPECT_TRUE(stopped.exhausted()) << "what was not read is left to the next attempt";
}

// A replica as simulated by its source: runs up to `slots` samples, each for a number of turns.
struct Runner {
  RequestSource* source;
  std::int64_t slots;
  std::vector<std::pair<Request, int>> running;
  std::int64_t most_held = 0;

  // -> requests that ended in this turn
  std::vector<Request> turn(const std::function<int(const Request&)>& turns) {
    for (Request& r : source->take(slots + source->ahead() - std::ssize(running))) {
      const int count = turns(r);
      running.emplace_back(std::move(r), count);
    }
    most_held = std::max(most_held, std::ssize(running));
    std::vector<Request> ended;
    std::int64_t worked = 0;
    for (auto& [request, left] : running)
      if (worked++ < slots) --left;
    std::erase_if(running, [&](auto& entry) {
      if (entry.second > 0) return false;
      ended.push_back(entry.first);
      return true;
    });
    return ended;
  }
};

TEST(Replicas, PromptsGoToThoseThatAreFreeAndEachIsAnsweredOnce) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const std::size_t count = 2 + random() % 3;
    const auto prompts = static_cast<std::int64_t>(1 + random() % 100);
    const auto slots = static_cast<std::int64_t>(1 + random() % 20);
    Post post;
    std::multiset<std::int64_t> answered;
    std::size_t series = 0;
    const EngineEvents events{.answer = [&](const AnswerRow& row) { answered.insert(row.prompt_index); },
                              .failed = [&](std::int64_t prompt, const std::string&) { answered.insert(prompt); },
                              .scored = {},
                              .step = [&](const StepRow&) { ++series; }};
    std::vector<int> leaders;
    for (std::size_t r = 0; r < count; ++r) leaders.push_back(static_cast<int>(r * 2));
    LocalMailbox first(post, 0);
    StopSwitch asked;
    StopPlan stop(asked, std::nullopt, 60);
    // of every other job some prompts become known late
    Drip drip;
    std::vector<Request> known = requests(prompts);
    std::deque<Request> late;
    for (; seed % 2 == 1 && std::ssize(known) > prompts / 3; known.pop_back()) late.push_front(known.back());
    Dealer dealer(first, RequestList(std::move(known), &drip), leaders, replica_ahead(slots), 60, stop, asked, events);
    std::deque<LocalMailbox> boxes;
    std::deque<ReplicaSource> sources;
    std::deque<EngineEvents> tell;
    std::vector<Runner> runners{{.source = &dealer, .slots = slots, .running = {}}};
    for (std::size_t r = 1; r < count; ++r) {
      boxes.emplace_back(post, leaders[r]);
      sources.emplace_back(boxes.back(), replica_ahead(slots));
      tell.push_back(sources.back().events([] {}));
      runners.push_back({.source = &sources.back(), .slots = slots, .running = {}});
    }
    std::vector<bool> over(count, false);
    // the first replica is slow: its prompts take ten times as long
    for (int turn = 0; turn < 10000 && std::ranges::count(over, false) > 0; ++turn) {
      for (auto drops = random() % 3; drops > 0 && !late.empty(); --drops) {
        drip.come.push_back(std::move(late.front()));
        late.pop_front();
      }
      drip.over = late.empty();
      for (std::size_t r = 0; r < count; ++r) {
        if (over[r]) continue;
        for (const Request& request : runners[r].turn([&](const Request&) { return r == 0 ? 20 : 2; })) {
          if (r == 0) {
            dealer.ended_here();
            events.answer(answer_to(request));
          } else if (request.prompt_index % 7 == 3) {
            tell[r - 1].failed(request.prompt_index, "no");
          } else {
            tell[r - 1].answer(answer_to(request));
          }
        }
        over[r] = runners[r].running.empty() && runners[r].source->exhausted();
        if (over[r] && r > 0) sources[r - 1].finish(1);
        if (r == 0) dealer.step_here({});
      }
      dealer.serve();
    }
    dealer.serve_until_done();
    EXPECT_EQ(std::ranges::count(over, true), static_cast<std::ptrdiff_t>(count));
    EXPECT_EQ(answered.size(), static_cast<std::size_t>(prompts));
    EXPECT_EQ(std::set(answered.begin(), answered.end()).size(), static_cast<std::size_t>(prompts));
    EXPECT_GT(series, 0U);
    for (const Runner& runner : runners) {
      EXPECT_LE(runner.most_held, slots + replica_ahead(slots));
      EXPECT_LE(runner.most_held, (prompts + std::ssize(runners) - 1) / std::ssize(runners)) << "more than its share";
    }
  }
}

TEST(Replicas, ReplicaThatIsSilentIsNamed) {
  Post post;
  LocalMailbox mail(post, 0);
  const EngineEvents events{.answer = {}, .failed = {}, .scored = {}, .step = [](const StepRow&) {}};
  StopSwitch asked;
  StopPlan stop(asked, std::nullopt, 60);
  Dealer dealer(mail, RequestList(requests(4)), {0, 3}, 0, 0.0, stop, asked, events);
  try {
    dealer.serve();
    FAIL() << "nobody missed the replica";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    EXPECT_NE(std::string(e.what()).find("replica 1 (led by rank 3)"), std::string::npos) << e.what();
  }
}

TEST(Replicas, AWishToStopReachesAllOfThem) {
  for (const auto how : {StopSwitch::Asked::gently, StopSwitch::Asked::at_once}) {
    Post post;
    LocalMailbox first(post, 0);
    LocalMailbox second(post, 2);
    LocalMailbox other(post, 3);  // leads nothing
    const EngineEvents events{.answer = {}, .failed = {}, .scored = {}, .step = [](const StepRow&) {}};
    StopSwitch asked;
    StopPlan stop(asked, std::nullopt, 60);
    Dealer dealer(first, RequestList(requests(100)), {0, 2}, 4, 60, stop, asked, events);
    ReplicaSource source(second, 4);
    EXPECT_EQ(dealer.take(3).size(), 3U);
    source.take(2);
    dealer.serve();
    EXPECT_EQ(source.take(2).size(), 2U);
    EXPECT_EQ(source.phase(), StopPhase::go);

    StopSwitch there;
    StopTeller teller(&other, there);
    teller.tell();
    EXPECT_TRUE(post.boxes[0].empty());
    there.ask(how);
    teller.tell();
    teller.tell();
    EXPECT_EQ(post.boxes[0].size(), 1U);  // once
    const StopPhase want = how == StopSwitch::Asked::gently ? StopPhase::close : StopPhase::leave;
    dealer.serve();
    EXPECT_EQ(dealer.phase(), want);
    EXPECT_TRUE(dealer.exhausted());
    EXPECT_TRUE(dealer.take(9).empty());
    EXPECT_EQ(source.phase(), want);
    EXPECT_TRUE(source.take(9).empty());
    EXPECT_TRUE(source.exhausted());
  }
}

}  // namespace
}  // namespace tpinfer
