// A whole decode step of a real model on the CPU - scheduling, message, forward pass, sampling, answers - takes no
// memory and makes no system call once prompts are computed.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "counted_memory.hpp"
#include "model_fixture.hpp"
#include "refused_calls.hpp"
#include "runtime/engine.hpp"

namespace tpinfer {
namespace {

constexpr int kFirstStep = 30;  // prompts are in, buffers have grown
constexpr int kLastStep = 110;  // a 16th position passes several times: new cache blocks, a wider block table
constexpr std::int64_t kNewTokens = 130;

/// What a child process tells.
struct Found {
  std::int64_t allocations = -1;
  int calls = -1;
  int last_call = -1;
  int steps = 0;
  bool refusing = false;
};

struct Case {
  const char* model;
  DType dtype;
  int threads;
};

SamplingParams shaped() {
  SamplingParams params;
  params.do_sample = true;
  params.temperature = 0.9;
  params.top_k = 50;
  params.top_p = 0.95;
  params.min_p = 0.01;
  return params;
}

std::vector<Request> requests(std::int64_t vocab) {
  SamplingParams greedy;
  greedy.do_sample = false;
  SamplingParams wide = shaped();
  wide.top_k = 0;
  SamplingParams scored = greedy;
  scored.logprobs = 5;
  std::vector<Request> list;
  for (const SamplingParams& params : {greedy, shaped(), wide, scored}) {
    Request request{.prompt_index = std::ssize(list), .id_hash = 7, .token_ids = {}};
    SamplingParams mine = params;
    mine.ignore_eos = true;
    request.params = std::make_shared<const SamplingParams>(mine);
    request.most_new_tokens = kNewTokens;
    for (std::int64_t i = 0; i < 20; ++i)
      request.token_ids.push_back(static_cast<std::int32_t>((i * 37 + 11 * std::ssize(list)) % vocab));
    list.push_back(request);
  }
  return list;
}

void run_steps(const Case& c, Found& found) {
  const auto comm = make_self_communicator();
  testing::ModelFixture model(
      *comm, std::string(TPINFER_TEST_DATA "/models/") + c.model,
      {.dtype = c.dtype, .kernels = testing::available_kernel_sets().back(), .threads = c.threads, .kv_blocks = 48});
  const RunSetup& setup = model.setup();
  const AnsweringContext context;
  Engine engine(*comm, model.worker().transformer(), model.worker().parallel(),
                {.max_sequences = 4, .max_rows = 64, .block_size = 16, .blocks = setup.kv_blocks}, context,
                setup.spec.vocab, std::chrono::steady_clock::now());
  RequestList source(requests(setup.spec.vocab));
  std::int64_t before = 0;
  EngineEvents events{.answer = [](const AnswerRow&) {},
                      .failed = [](std::int64_t, const std::string&) { _exit(3); },
                      .scored = [](std::int64_t, PromptRow&) {},
                      .step = {}};
  events.step = [&](const StepRow& row) {
    if (row.sequences != 4) return;
    ++found.steps;
    if (found.steps == kFirstStep) {
      // the clock is read without a system call where the machine allows it; threads may wait for each other
      found.refusing = c.threads == 1 ? testing::refuse_system_calls({SYS_clock_gettime})
                                      : testing::refuse_system_calls({SYS_clock_gettime, SYS_futex, SYS_sched_yield});
      before = testing::allocations();
    }
    if (found.steps < kLastStep) return;
    found.allocations = testing::allocations() - before;
    found.calls = testing::refused_calls().count;
    found.last_call = testing::refused_calls().last;
    _exit(0);
  };
  engine.run(source, events);
}

/// run_steps() in a process of its own, as refused system calls stay refused.
Found in_child(const Case& c) {
  void* shared = ::mmap(nullptr, sizeof(Found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* found = new (shared) Found;
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      run_steps(c, *found);
    } catch (const std::exception& e) {
      fprintf(stderr, "%s\n", e.what());
    }
    _exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << c.model << ": status " << status;
  const Found copy = *found;
  ::munmap(shared, sizeof(Found));
  return copy;
}

TEST(SteadyStep, TakesNoMemoryAndMakesNoSystemCall) {
  std::vector<Case> cases;
  for (const char* model : {"tiny-llama", "tiny-mixtral", "tiny-qwen2-moe", "tiny-gpt-bigcode", "rand-llama-uneven"})
    for (const DType dtype : {DType::float32, DType::bfloat16}) cases.push_back({model, dtype, 1});
  cases.push_back({"tiny-llama", DType::bfloat16, 2});
  cases.push_back({"tiny-qwen2-moe", DType::float32, 2});
  for (const Case& c : cases) {
    const Found found = in_child(c);
    SCOPED_TRACE(fmt::format("{} {} on {} threads", c.model, dtype_name(c.dtype), c.threads));
    EXPECT_EQ(found.steps, kLastStep);
    EXPECT_EQ(found.allocations, 0);
    if (found.refusing) {
      EXPECT_EQ(found.calls, 0) << "the last one has number " << found.last_call;
    } else {
      std::puts("system calls are not counted: the kernel has no seccomp");
    }
  }
}

}  // namespace
}  // namespace tpinfer
