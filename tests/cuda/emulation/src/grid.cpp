#include "grid.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "fiber.hpp"

namespace cuda_emulation {
namespace {

constexpr int kLanes = 32;
constexpr std::size_t kMostGift = 64;
constexpr std::size_t kMostShared = 232448;

enum class State : unsigned char { ready, at_block, at_warp, done };

struct PendingCopy {
  void* to;
  const void* from;
  std::size_t bytes;
  int group;
};

struct Thread {
  State state = State::done;
  unsigned mask = 0;        // of the warp collective that it waits at
  WarpWork work{};          // and what it does there
  std::uint64_t value = 0;  // given to it, then received from it
  int from = 0;
  uint3 index{};
  int groups = 0;  // of asynchronous copies, committed
  std::vector<PendingCopy> copies;
};

struct Warp {
  unsigned waiting = 0;  // lanes at a warp collective
  int alive = 0;
  int gift_side = 0;
  alignas(16) std::array<std::array<std::byte, kLanes * kMostGift>, 2> gifts;
};

struct Block {
  Fibers fibers;
  std::vector<Thread> threads = std::vector<Thread>(Fibers::kMost);
  std::vector<Warp> warps = std::vector<Warp>(Fibers::kMost / kLanes);
  std::vector<std::byte> shared = std::vector<std::byte>(kMostShared + 16);
  Running running;
  const KernelCall* call = nullptr;
  int size = 0;
  int current = 0;
  int alive = 0;
  int at_barrier = 0;
  int counted = 0;          // sum of the values brought to the barrier so far
  int last_count = 0;       // of the barrier that opened last
  std::uint64_t order = 0;  // changes from block to block
};

Block* the_block = nullptr;  // made at the first kernel, for as long as any thread may run kernels

Block& block() { return *the_block; }

Warp& own_warp() { return block().warps[static_cast<std::size_t>(block().current / kLanes)]; }
Thread& own_thread() { return block().threads[static_cast<std::size_t>(block().current)]; }

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "CUDA emulation: %s: %s\n", running_place().c_str(), what.c_str());
  std::fflush(stderr);
  std::abort();
}

void thread_main() {
  Block& b = block();
  b.call->body();
  Thread& own = own_thread();
  if (!own.copies.empty()) die("the thread ends while asynchronous copies that it began are under way");
  own.state = State::done;
  --own_warp().alive;
  --b.alive;
  b.fibers.leave();
}

void switch_away(State state) {
  own_thread().state = state;
  block().fibers.leave();
}

// Lane l holds, with g = l / 4 and t = l % 4 * 2: of a (g, t..) (g + 8, t..) (g, t + 8..) (g + 8, t + 8..), of b (t..,
// g) (t + 8.., g), of the sums (g, t..) (g + 8, t..), each two adjacent columns, or rows of b.
[[gnu::target_clones("avx2", "default")]] void multiply(MatrixPart* parts) {
  float a[16][16];
  float b[16][8];
  float c[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const MatrixPart& part = parts[lane];
    const int g = lane / 4;
    const int t = lane % 4 * 2;
    for (int i = 0; i < 8; ++i) a[g + i / 2 % 2 * 8][t + i / 4 * 8 + i % 2] = part.a[i];
    for (int i = 0; i < 4; ++i) b[t + i / 2 * 8 + i % 2][g] = part.b[i];
    for (int i = 0; i < 4; ++i) c[g + i / 2 * 8][t + i % 2] = part.sums[i];
  }
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      for (int col = 0; col < 8; ++col) c[row][col] += a[row][k] * b[k][col];
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i) parts[lane].sums[i] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

// All lanes of `mask` are there: they exchange and may go on.
void open_warp(Warp& warp, int first, unsigned mask) {
  Block& b = block();
  std::array<std::uint64_t, kLanes> gifts{};
  unsigned ballot = 0;
  const WarpWork work = own_thread().work;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1U)) continue;
    const Thread& thread = b.threads[static_cast<std::size_t>(first + lane)];
    if (thread.work != work) die("lanes of one warp meet at different operations");
    gifts[static_cast<std::size_t>(lane)] = thread.value;
    if (thread.value != 0) ballot |= 1U << lane;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1U)) continue;
    Thread& thread = b.threads[static_cast<std::size_t>(first + lane)];
    if (work == WarpWork::shuffle) {
      if (thread.from < 0 || thread.from >= kLanes || !(mask >> thread.from & 1U))
        die("a shuffle reads lane " + std::to_string(thread.from) + ", which does not take part");
      thread.value = gifts[static_cast<std::size_t>(thread.from)];
    } else if (work == WarpWork::ballot) {
      thread.value = ballot;
    } else if (work == WarpWork::exchange || work == WarpWork::multiply) {
      thread.value = static_cast<std::uint64_t>(warp.gift_side);
    }
    thread.state = State::ready;
  }
  if (work == WarpWork::multiply)
    multiply(reinterpret_cast<MatrixPart*>(warp.gifts[static_cast<std::size_t>(warp.gift_side)].data()));
  if (work == WarpWork::exchange || work == WarpWork::multiply) warp.gift_side = 1 - warp.gift_side;
  warp.waiting &= ~mask;
}

void start_block(const KernelCall& call, uint3 index) {
  Block& b = block();
  b.running.block = index;
  b.alive = b.size;
  b.at_barrier = 0;
  b.counted = 0;
  // What a kernel reads of shared memory without having written it is not a number.
  std::memset(b.running.dynamic_shared, 0xFF, call.shared_bytes);
  for (int i = 0; i < b.size; ++i) {
    Thread& thread = b.threads[static_cast<std::size_t>(i)];
    const auto at = static_cast<unsigned>(i);
    thread.state = State::ready;
    thread.index = {at % call.block.x, at / call.block.x % call.block.y, at / call.block.x / call.block.y};
    thread.groups = 0;
    thread.copies.clear();
    b.fibers.prepare(i, thread_main);
  }
  for (int i = 0; i < (b.size + kLanes - 1) / kLanes; ++i) {
    Warp& warp = b.warps[static_cast<std::size_t>(i)];
    warp.waiting = 0;
    warp.alive = std::min(kLanes, b.size - i * kLanes);
  }
}

bool run_thread(int index) {
  Block& b = block();
  Thread& thread = b.threads[static_cast<std::size_t>(index)];
  if (thread.state != State::ready) return false;
  b.current = index;
  b.running.thread = thread.index;
  b.running.lane = index % kLanes;
  b.fibers.resume(index);
  return true;
}

// As far as the warp comes without the other warps.
bool run_warp(int number) {
  Block& b = block();
  const int first = number * kLanes;
  const int lanes = std::min(kLanes, b.size - first);
  const auto start = static_cast<int>(b.order / 2 % static_cast<std::uint64_t>(lanes));
  bool any = false;
  for (bool moved = true; moved; any = any || moved) {
    moved = false;
    for (int i = 0; i < lanes; ++i) {
      const int lane = (start + (b.order % 2 == 0 ? i : lanes - 1 - i)) % lanes;
      moved = run_thread(first + lane) || moved;
    }
  }
  return any;
}

[[noreturn]] void deadlock() {
  Block& b = block();
  std::string text = "threads wait for each other in vain:";
  int told = 0;
  for (int i = 0; i < b.size && told < 6; ++i) {
    const Thread& thread = b.threads[static_cast<std::size_t>(i)];
    if (thread.state == State::done) continue;
    ++told;
    char line[96];
    if (thread.state == State::at_block)
      std::snprintf(line, sizeof line, " thread %d is at __syncthreads;", i);
    else
      std::snprintf(line, sizeof line, " thread %d is at a warp operation of lanes %08x;", i, thread.mask);
    text += line;
  }
  die(text + " " + std::to_string(b.size - b.alive) + " of " + std::to_string(b.size) + " threads have ended");
}

void run_block(const KernelCall& call, uint3 index) {
  Block& b = block();
  start_block(call, index);
  const int warps = (b.size + kLanes - 1) / kLanes;
  const auto start = static_cast<int>(b.order / 3 % static_cast<std::uint64_t>(warps));
  while (b.alive > 0) {
    bool any = false;
    for (int i = 0; i < warps; ++i) any = run_warp((start + (b.order % 3 == 0 ? warps - 1 - i : i)) % warps) || any;
    if (b.alive > 0 && b.at_barrier == b.alive) {  // threads that have ended do not count, as on the device
      b.at_barrier = 0;
      b.last_count = b.counted;
      b.counted = 0;
      for (int i = 0; i < b.size; ++i)
        if (Thread& thread = b.threads[static_cast<std::size_t>(i)]; thread.state == State::at_block)
          thread.state = State::ready;
    } else if (!any && b.alive > 0) {
      deadlock();
    }
  }
}

void perform(const PendingCopy& copy) {
  if (copy.from)
    std::memcpy(copy.to, copy.from, copy.bytes);
  else
    std::memset(copy.to, 0, copy.bytes);
}

}  // namespace

Running* running = nullptr;

std::uint64_t warp_collective(WarpWork work, unsigned mask, std::uint64_t value, int from) {
  Thread& own = own_thread();
  Warp& warp = own_warp();
  const int lane = running->lane;
  if (!(mask >> lane & 1U)) die("a lane waits at a warp operation whose mask does not name it");
  own.work = work;
  own.mask = mask;
  own.value = value;
  own.from = from;
  warp.waiting |= 1U << lane;
  if ((warp.waiting & mask) == mask) {
    const int first = block().current / kLanes * kLanes;
    for (int i = 0; i < kLanes; ++i)
      if ((mask >> i & 1U) && block().threads[static_cast<std::size_t>(first + i)].mask != mask)
        die("lanes of one warp meet with different masks");
    open_warp(warp, first, mask);
    return own.value;
  }
  switch_away(State::at_warp);
  return own.value;
}

void block_barrier() {
  ++block().at_barrier;
  switch_away(State::at_block);
}

int block_count(int value) {
  block().counted += value;
  block_barrier();
  return block().last_count;
}

namespace {

const std::byte* give(WarpWork work, const void* gift, std::size_t bytes) {
  Warp& warp = own_warp();
  std::byte* place = warp.gifts[static_cast<std::size_t>(warp.gift_side)].data();
  std::memcpy(place + static_cast<std::size_t>(running->lane) * bytes, gift, bytes);
  const std::uint64_t side = warp_collective(work, 0xFFFFFFFFU, bytes, 0);
  return warp.gifts[static_cast<std::size_t>(side)].data();
}

}  // namespace

const void* exchange_bytes(const void* gift, std::size_t bytes) { return give(WarpWork::exchange, gift, bytes); }

void multiply_in_warp(MatrixPart& part) {
  const std::byte* all = give(WarpWork::multiply, &part, sizeof part);
  std::memcpy(&part, all + static_cast<std::size_t>(running->lane) * sizeof part, sizeof part);
}

void copy_async(void* to, const void* from, std::size_t bytes) {
  Thread& own = own_thread();
  own.copies.push_back({to, from, bytes, own.groups});
}

void copy_async_commit() { ++own_thread().groups; }

void copy_async_wait(int pending_groups) {
  Thread& own = own_thread();
  std::size_t done = 0;
  while (done < own.copies.size() && own.copies[done].group < own.groups - pending_groups) perform(own.copies[done++]);
  own.copies.erase(own.copies.begin(), own.copies.begin() + static_cast<std::ptrdiff_t>(done));
}

void kernel_fault(const char* what, const void* address) {
  char text[128];
  std::snprintf(text, sizeof text, "%s (%p)", what, address);
  die(text);
}

std::string running_place() {
  if (!running || !the_block->call) return {};
  const Block& b = block();
  Dl_info info{};
  char text[512];
  const bool known = dladdr(b.call->kernel, &info) != 0;
  std::snprintf(text, sizeof text, "kernel at +0x%zx of %s, block (%u, %u, %u), thread (%u, %u, %u)",
                reinterpret_cast<std::size_t>(b.call->kernel) - reinterpret_cast<std::size_t>(info.dli_fbase),
                known ? info.dli_fname : "?", running->block.x, running->block.y, running->block.z, running->thread.x,
                running->thread.y, running->thread.z);
  return text;
}

bool in_fiber_guard(const void* address) { return running && block().fibers.in_guard(address); }

void run_grid(const KernelCall& call) {
  if (!the_block) the_block = new Block;
  Block& b = block();
  b.call = &call;
  b.size = static_cast<int>(call.block.x * call.block.y * call.block.z);
  b.running.block_size = call.block;
  b.running.grid_size = call.grid;
  b.running.dynamic_shared = b.shared.data() + (16 - reinterpret_cast<std::uintptr_t>(b.shared.data()) % 16) % 16;
  running = &b.running;
  const std::uint64_t blocks = static_cast<std::uint64_t>(call.grid.x) * call.grid.y * call.grid.z;
  const bool forward = b.order % 2 == 0;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const auto at = forward ? i : blocks - 1 - i;
    ++b.order;
    run_block(call, {static_cast<unsigned>(at % call.grid.x), static_cast<unsigned>(at / call.grid.x % call.grid.y),
                     static_cast<unsigned>(at / call.grid.x / call.grid.y)});
  }
  ++b.order;
  running = nullptr;
  b.call = nullptr;
}

}  // namespace cuda_emulation
