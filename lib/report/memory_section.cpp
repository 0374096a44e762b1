#include <algorithm>

#include "core/units.hpp"
#include "output/answer_stats.hpp"
#include "report/charts.hpp"
#include "report/sections.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostBars = 32;  ///< ranks in a picture
constexpr std::size_t kMostRows = 256;

struct ClassGroup {
  const char* name;
  int colour;
};
constexpr ClassGroup kClassGroups[] = {
    {"embeddings and head", 0}, {"attention", 1}, {"MLP and experts", 2}, {"norms and others", 3}};

/// The group that a class of weights, which is a role of the plan, is drawn in: its row of kClassGroups.
std::size_t group_of(std::string_view role) {
  const auto begins = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(words, [&](std::string_view word) { return role.starts_with(word); });
  };
  if (begins({"token_embedding", "position_embedding", "lm_head"})) return 0;
  if (begins({"attn", "qkv", "q_", "k_", "v_"}) || role == "q" || role == "k" || role == "v") return 1;
  return begins({"mlp", "expert", "shared", "router"}) ? 2 : 3;
}

std::string rank_name(const RankRow& rank) { return fmt::format("rank {}", rank.rank); }

std::vector<double> by_group(const RunResult& r, const std::vector<std::uint64_t>& bytes) {
  std::vector<double> groups(std::size(kClassGroups), 0);
  for (std::size_t c = 0; c < std::min(bytes.size(), r.weight_classes.size()); ++c)
    groups[group_of(r.weight_classes[c])] += static_cast<double>(bytes[c]);
  return groups;
}

Html weights_chart(const RunResult& r) {
  BarChart chart{
      .id = "weights",
      .title = "Weights of each rank by class: planned and owned",
      .what = "For each rank a bar of the planned bytes and one of the bytes that it owned, by class of tensor."};
  for (const auto& group : kClassGroups) chart.kinds.push_back({group.name, group.colour});
  for (const RankRow& rank : r.ranks) {
    if (chart.bars.size() / 2 == kMostBars) break;
    chart.bars.push_back({rank_name(rank) + " planned", by_group(r, rank.weights.planned_by_class), true, true});
    chart.bars.push_back({"owned", by_group(r, rank.weights.owned_by_class)});
  }
  return draw(chart);
}

/// Planned: weights, KV cache, workspace; measured: what the process, or the GPU, held at its peak.
Html peak_chart(const RunResult& r) {
  BarChart chart{
      .id = "peaks",
      .title = "Memory of each rank: planned and at its peak",
      .what = "For each rank a bar of the memory planned before loading and one of what was measured at the peak.",
      .kinds = {{"weights", 0},
                {"KV cache", 1},
                {"workspace", 2},
                {"anonymous", 4},
                {"shared", 3},
                {"mapped files", 7},
                {"GPU", 5}}};
  for (std::size_t i = 0; i < std::min(r.ranks.size(), kMostBars); ++i) {
    const RankRow& rank = r.ranks[i];
    std::vector<double> planned(7, 0), measured(7, 0);
    if (i < r.memory_planned.size())
      for (std::size_t c = 0; c < std::min<std::size_t>(3, r.memory_planned[i].size()); ++c)
        planned[c] = static_cast<double>(r.memory_planned[i][c]);
    const auto peak =
        std::ranges::max_element(rank.memory, {}, [](const RankRow::Memory& m) { return m.anonymous + m.shared; });
    if (peak != rank.memory.end())
      measured = {0,
                  0,
                  0,
                  static_cast<double>(peak->anonymous),
                  static_cast<double>(peak->shared),
                  static_cast<double>(peak->file_backed),
                  static_cast<double>(peak_of(rank, &RankRow::Memory::device_used))};
    chart.bars.push_back({rank_name(rank) + " planned", planned, true, true});
    chart.bars.push_back({"peak", measured});
  }
  std::vector<bool> used(chart.kinds.size(), false);
  for (const auto& bar : chart.bars)
    for (std::size_t k = 0; k < bar.parts.size(); ++k) used[k] = used[k] || bar.parts[k] > 0;
  for (std::size_t k = chart.kinds.size(); k-- > 0;)
    if (!used[k]) {
      chart.kinds.erase(chart.kinds.begin() + static_cast<std::ptrdiff_t>(k));
      for (auto& bar : chart.bars) bar.parts.erase(bar.parts.begin() + static_cast<std::ptrdiff_t>(k));
    }
  return draw(chart);
}

Html memory_table(const RunResult& r) {
  HtmlTable table({"rank", "host", "planned", "owned", "touched", "read", "load", "RSS peak", "anonymous peak"}, 2);
  for (const RankRow& rank : r.ranks) {
    const auto& w = rank.weights;
    if (static_cast<std::size_t>(&rank - r.ranks.data()) == kMostRows) break;
    table.row({std::to_string(rank.rank), shortened(rank.host, 40), format_bytes(w.bytes_planned),
               format_bytes(w.bytes_owned), format_bytes(w.bytes_touched), format_bytes(w.bytes_read),
               fmt::format("{:.2f} s", w.load_seconds), format_bytes(peak_of(rank, &RankRow::Memory::rss_peak)),
               format_bytes(peak_of(rank, &RankRow::Memory::anonymous))});
  }
  return table.done();
}

/// Each class of the plan; of all ranks together, and the rank that owns most.
Html class_table(const RunResult& r) {
  HtmlTable table({"class", "planned, all ranks", "owned, all ranks", "owned, largest rank"});
  for (std::size_t c = 0; c < r.weight_classes.size(); ++c) {
    std::uint64_t planned = 0, owned = 0, most = 0;
    for (const RankRow& rank : r.ranks) {
      const auto of = [c](const std::vector<std::uint64_t>& list) { return c < list.size() ? list[c] : 0; };
      planned += of(rank.weights.planned_by_class);
      owned += of(rank.weights.owned_by_class);
      most = std::max(most, of(rank.weights.owned_by_class));
    }
    table.row({shortened(r.weight_classes[c], 80), format_bytes(planned), format_bytes(owned), format_bytes(most)});
  }
  return table.done();
}

}  // namespace

Section memory_section(const RunResult& r) {
  Section section{"memory", "Memory", {}};
  if (r.ranks.empty()) {
    section.body = only_at_the_end("What each rank planned, read and owned");
    return section;
  }
  section.body = html("<div class=\"grid\">{}{}</div>\n", weights_chart(r), peak_chart(r));
  if (r.ranks.size() > kMostBars)
    section.body += note(fmt::format("The first {} of {} ranks are drawn.", kMostBars, r.ranks.size()));
  section.body += note(
      "planned: the plan's bytes in the compute type; owned: the rank's own memory, padding included; touched: whole "
      "pages of "
      "the files that it copied from; read: stored bytes copied. "
      "Mapped files are pages of the checkpoint and of programs, which the system takes back when it needs them.");
  section.body += folded("Each rank in figures", memory_table(r));
  section.body += folded("Each class of weights in figures", class_table(r));
  return section;
}

}  // namespace tpinfer
