#include "output/rank_row.hpp"

#include "sample_result.hpp"
#include "scratch.hpp"

namespace tpinfer::test {
namespace {

TEST(RankRow, ComesBackAsItWas) {
  for (const auto& row : {sample_rank(0), sample_rank(2), RankRow{}})
    EXPECT_EQ(to_text(decode_rank_row(encode(row))), to_text(row));
}

TEST(RankRow, RefusesAnyOtherLength) {
  auto bytes = encode(sample_rank(1));
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_THROW(decode_rank_row(std::span(bytes).first(n)), Error) << n;
  bytes.push_back(std::byte{0});
  EXPECT_THROW(decode_rank_row(bytes), Error);
}

}  // namespace
}  // namespace tpinfer::test
