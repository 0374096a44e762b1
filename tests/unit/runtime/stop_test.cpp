#include "runtime/stop.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "runtime/time_limit.hpp"

namespace tpinfer {
namespace {

using namespace std::chrono_literals;
using Asked = StopSwitch::Asked;

const StopPlan::Clock::time_point kStart{};

TEST(Stop, NobodyAsksAndThereIsNoLimit) {
  StopSwitch asked;
  StopPlan plan(asked, std::nullopt, 120);
  EXPECT_EQ(plan.phase(kStart + 1000h), StopPhase::go);
}

TEST(Stop, ALimitClosesAMarginBeforeAndLeavesTimeToWrite) {
  StopSwitch asked;
  StopPlan plan(asked, kStart + 1000s, 100);
  EXPECT_EQ(plan.phase(kStart + 899s), StopPhase::go);
  EXPECT_EQ(plan.phase(kStart + 900s), StopPhase::close);
  EXPECT_EQ(plan.phase(kStart + 974s), StopPhase::close);
  EXPECT_EQ(plan.phase(kStart + 975s), StopPhase::leave);
  EXPECT_EQ(plan.phase(kStart), StopPhase::leave);
}

TEST(Stop, AGentleWishIsALimitThatIsAMarginAway) {
  StopSwitch asked;
  StopPlan plan(asked, std::nullopt, 400);
  EXPECT_EQ(plan.phase(kStart), StopPhase::go);
  asked.ask(Asked::gently);
  EXPECT_EQ(plan.phase(kStart + 10s), StopPhase::close);
  EXPECT_EQ(plan.phase(kStart + 379s), StopPhase::close);
  EXPECT_EQ(plan.phase(kStart + 380s), StopPhase::leave);  // 30 s are for writing
}

TEST(Stop, AGentleWishDoesNotPutOffALimit) {
  StopSwitch asked;
  StopPlan plan(asked, kStart + 60s, 40);
  asked.ask(Asked::gently);
  EXPECT_EQ(plan.phase(kStart + 15s), StopPhase::close);
  EXPECT_EQ(plan.phase(kStart + 45s), StopPhase::leave);
}

TEST(Stop, AnUrgentWishEndsItAndAGentleOneDoesNotUndoThat) {
  StopSwitch asked;
  StopPlan plan(asked, std::nullopt, 40);
  asked.ask(Asked::at_once);
  asked.ask(Asked::gently);
  EXPECT_EQ(asked.asked(), Asked::at_once);
  EXPECT_EQ(plan.phase(kStart), StopPhase::leave);
}

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto at = values.find(name);
    return at == values.end() ? std::string() : at->second;
  };
}

TEST(TimeLimits, ComeFromTheJobOrFromSlurm) {
  std::vector<std::string> said;
  const Log log([&](LogLevel, const std::string& text) { said.push_back(text); });
  EXPECT_EQ(seconds_left({.automatic = false, .seconds = {}}, 5, environment({{"SLURM_JOB_END_TIME", "1"}}), log),
            std::nullopt);
  EXPECT_EQ(seconds_left({.automatic = false, .seconds = 100}, 5, environment({}), log), 95);
  EXPECT_EQ(seconds_left({}, 5, environment({}), log), std::nullopt);
  const auto left =
      seconds_left({}, 5, environment({{"SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 500)}}), log);
  ASSERT_TRUE(left);
  EXPECT_NEAR(*left, 500, 2);
  EXPECT_TRUE(said.empty());
  EXPECT_EQ(seconds_left({}, 5, environment({{"SLURM_JOB_END_TIME", "tomorrow"}}), log), std::nullopt);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("tomorrow"), std::string::npos);
  // no such job, no squeue: no limit
  EXPECT_EQ(seconds_left({}, 5, environment({{"SLURM_JOB_ID", "12; touch x"}}), log), std::nullopt);
}

TEST(TimeLimits, AMarginIsAtMostHalfOfThem) {
  int said = 0;
  const Log log([&](LogLevel, const std::string&) { ++said; });
  RunJob run;
  EXPECT_EQ(stop_margin(run, log), 120);
  run.time_limit = {.automatic = false, .seconds = 240};
  EXPECT_EQ(stop_margin(run, log), 120);
  EXPECT_EQ(said, 0);
  run.time_limit.seconds = 60;
  EXPECT_EQ(stop_margin(run, log), 30);
  EXPECT_EQ(said, 1);
}

}  // namespace
}  // namespace tpinfer
