#include "runtime/kv_blocks.hpp"

#include <algorithm>
#include <bit>

#include "core/bytes.hpp"
#include "core/checked_cast.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr int kMostCandidates = 32;  // many answers may go on from one prompt, each in a block of its own

PrefixChain hash_tokens(PrefixChain before, std::span<const std::int32_t> tokens) {
  return hash_bytes(std::as_bytes(tokens), before + 1);
}

}  // namespace

KvBlocks::KvBlocks(std::int64_t blocks, std::int64_t block_size)
    : block_size_(block_size),
      blocks_(static_cast<std::size_t>(blocks)),
      tokens_(static_cast<std::size_t>(blocks * block_size), -1),
      mask_(std::bit_ceil(static_cast<std::size_t>(2 * blocks + 1)) - 1),
      full_(mask_ + 1, -1),
      begins_(mask_ + 1, -1) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    at(static_cast<std::int32_t>(b)).users = 1;
    release(static_cast<std::int32_t>(b));
  }
}

std::size_t KvBlocks::begin_bucket(PrefixChain before, std::span<const std::int32_t> tokens) const {
  return static_cast<std::size_t>(hash_tokens(before, tokens.first(kLeastPartial))) & mask_;
}

// Out of the list of free blocks.
void KvBlocks::unlink(std::int32_t block) {
  Block& b = at(block);
  FreeList& list = list_of(b);
  (b.older >= 0 ? at(b.older).newer : list.oldest) = b.newer;
  (b.newer >= 0 ? at(b.newer).older : list.newest) = b.older;
  b.older = b.newer = -1;
  --free_;
}

void KvBlocks::forget(std::int32_t block) {
  Block& b = at(block);
  const auto drop = [&](std::int32_t& first, std::int32_t Block::*next) {
    for (std::int32_t* link = &first; *link >= 0; link = &(at(*link).*next)) {
      if (*link != block) continue;
      *link = b.*next;
      b.*next = -1;
      return;
    }
  };
  if (b.filled >= kLeastPartial) drop(begins_[begin_bucket(b.before, tokens_of(block))], &Block::next_begin);
  if (b.filled == block_size_) drop(full_[full_bucket(b.chain)], &Block::next_full);
  b.filled = b.settled = 0;
  b.shared = false;
}

std::int32_t KvBlocks::upcoming(std::int32_t taken) const {
  if (taken >= 0 && at(taken).newer >= 0) return at(taken).newer;
  if (taken < 0 && free_lists_[0].oldest >= 0) return free_lists_[0].oldest;
  return taken >= 0 && at(taken).shared ? -1 : free_lists_[1].oldest;
}

std::int32_t KvBlocks::take() {
  const FreeList& list = free_lists_[free_lists_[0].oldest >= 0 ? 0 : 1];
  const std::int32_t block = list.oldest;
  if (block < 0) throw Error(ExitCode::internal, "the KV cache has no free block although one was promised");
  unlink(block);
  forget(block);
  at(block).users = 1;
  return block;
}

void KvBlocks::share(std::int32_t block) {
  Block& b = at(block);
  if (b.users == 0) unlink(block);
  ++b.users;
  b.shared = true;
}

void KvBlocks::release(std::int32_t block) {
  Block& b = at(block);
  if (b.users <= 0)
    throw Error(ExitCode::internal, fmt::format("block {} of the KV cache was given back twice", block));
  if (--b.users > 0) return;
  FreeList& list = list_of(b);
  b.older = list.newest;
  b.newer = -1;
  (list.newest >= 0 ? at(list.newest).newer : list.oldest) = block;
  list.newest = block;
  ++free_;
}

void KvBlocks::index_begin(std::int32_t block) {
  std::int32_t& first = begins_[begin_bucket(at(block).before, tokens_of(block))];
  at(block).next_begin = first;
  first = block;
}

void KvBlocks::index_full(std::int32_t block) {
  Block& b = at(block);
  b.chain = hash_tokens(b.before, tokens_of(block));
  std::int32_t& first = full_[full_bucket(b.chain)];
  b.next_full = first;
  first = block;
}

void KvBlocks::append(std::int32_t block, PrefixChain before, std::int32_t token) {
  Block& b = at(block);
  if (b.users != 1 || b.filled >= block_size_)
    throw Error(ExitCode::internal, fmt::format("block {} of the KV cache, with {} users and {} tokens, was written to",
                                                block, b.users, b.filled));
  if (b.step != step_) {
    b.step = step_;
    b.settled = b.filled;
  }
  b.before = before;
  tokens_of(block)[static_cast<std::size_t>(b.filled++)] = token;
  if (b.filled == kLeastPartial) index_begin(block);
  if (b.filled == block_size_) index_full(block);
}

void KvBlocks::copied(std::int32_t block, PrefixChain before, std::int32_t from, std::int64_t count) {
  Block& b = at(block);
  b.before = before;
  b.step = step_;
  std::copy_n(tokens_of(from).begin(), count, tokens_of(block).begin());
  b.filled = checked_cast<std::int32_t>(count);
  b.settled = 0;  // the copy is made in this step
  if (b.filled >= kLeastPartial) index_begin(block);
}

std::optional<std::int32_t> KvBlocks::find(PrefixChain before, std::span<const std::int32_t> tokens) const {
  const PrefixChain chain = hash_tokens(before, tokens);
  for (std::int32_t block = full_[full_bucket(chain)]; block >= 0; block = at(block).next_full)
    if (at(block).chain == chain && at(block).before == before && std::ranges::equal(tokens_of(block), tokens))
      return block;
  return std::nullopt;
}

KvBlocks::Partial KvBlocks::find_partial(PrefixChain before, std::span<const std::int32_t> tokens) const {
  Partial best;
  if (static_cast<std::int64_t>(tokens.size()) < kLeastPartial) return best;
  int candidates = kMostCandidates;
  for (std::int32_t block = begins_[begin_bucket(before, tokens)]; block >= 0; block = at(block).next_begin) {
    const Block& b = at(block);
    if (b.before != before) continue;
    if (candidates-- == 0 || best.tokens == static_cast<std::int64_t>(tokens.size())) break;
    const std::int32_t settled = b.step == step_ ? b.settled : b.filled;
    const auto theirs = tokens_of(block).first(static_cast<std::size_t>(settled));
    const auto common = std::ranges::mismatch(theirs, tokens).in1 - theirs.begin();
    if (common >= kLeastPartial && common > best.tokens) best = {block, common};
  }
  return best;
}

}  // namespace tpinfer
