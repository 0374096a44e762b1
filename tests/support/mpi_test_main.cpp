// main() of the tests that run on several ranks: rank 0 prints, the others print only their failures; the exit code is
// the same on all; a test that hangs is named and ends the program.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "mpi_test.hpp"

namespace {

constexpr double kCollectiveTimeout = 40;  // seconds
constexpr std::chrono::seconds kHang{60};  // for one test

tpinfer::Communicator* the_world = nullptr;

/// Ends the program when one test takes too long.
class Watchdog {
 public:
  explicit Watchdog(int rank) : rank_(rank), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void begin(std::string test) {
    const std::lock_guard lock(mutex_);
    test_ = std::move(test);
    since_ = std::chrono::steady_clock::now();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      changed_.wait_for(lock, std::chrono::milliseconds(500));
      if (ended_ || test_.empty() || std::chrono::steady_clock::now() - since_ < kHang) continue;
      std::fprintf(stderr, "[rank %d] HANG: test %s has run for %lld s; ending the program\n", rank_, test_.c_str(),
                   static_cast<long long>(kHang.count()));
      std::fflush(stderr);
      std::_Exit(1);  // the launcher ends the other ranks
    }
  }

  int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::string test_;
  std::chrono::steady_clock::time_point since_;
  std::thread thread_;
};

class RankListener final : public ::testing::EmptyTestEventListener {
 public:
  RankListener(Watchdog& watchdog, int rank) : watchdog_(watchdog), rank_(rank) {}

 private:
  void OnTestStart(const ::testing::TestInfo& info) override {
    name_ = std::string(info.test_suite_name()) + "." + info.name();
    watchdog_.begin(name_);
  }
  void OnTestEnd(const ::testing::TestInfo&) override { watchdog_.begin({}); }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (rank_ == 0 || !result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s: %s:%d: %s\n", rank_, name_.c_str(),
                 result.file_name() ? result.file_name() : "?", result.line_number(), result.message());
  }

  Watchdog& watchdog_;
  int rank_;
  std::string name_;
};

int run_on_all_ranks() {
  Watchdog watchdog(the_world->rank());
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (the_world->rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new RankListener(watchdog, the_world->rank()));
  int code = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() == 0) code = 1;
  watchdog.begin("(agreeing on the exit code)");
  try {
    for (const auto theirs : the_world->all_gather(code, "exit code of the tests"))
      if (theirs != 0) code = 1;
  } catch (const tpinfer::Error& error) {
    std::fprintf(stderr, "[rank %d] %s\n", the_world->rank(), error.what());
    the_world->abort(tpinfer::ExitCode::internal);
  }
  return code;
}

}  // namespace

tpinfer::Communicator& tpinfer::testing::world() { return *the_world; }

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const tpinfer::MpiSession session;
  const auto comm = session.world(kCollectiveTimeout);
  the_world = comm.get();
  return run_on_all_ranks();
}
