#include "report/plan_picture.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/units.hpp"
#include "report/charts.hpp"
#include "report/sections.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostStrips = 200;
constexpr std::int32_t kMostLanes = 32;
constexpr std::size_t kMostRuns = 20'000;  ///< in all strips together
constexpr std::size_t kNameLetters = 160;

struct NumberedName {
  std::string pattern;  ///< numbers as '#'
  std::vector<std::int64_t> numbers;
};

NumberedName numbered(const std::string& name) {
  NumberedName out;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
    const bool part =
        end > i && end - i < 10 && (i == 0 || name[i - 1] == '.') && (end == name.size() || name[end] == '.');
    if (part) {
      out.pattern += '#';
      out.numbers.push_back(std::stoll(name.substr(i, end - i)));
    } else if (end == i) {
      end = i + 1;
    }
    if (!part) out.pattern.append(name, i, end - i);
    i = end;
  }
  return out;
}

/// "0-5, 7": ascending numbers with their gaps.
std::string ranges_of(const std::set<std::int64_t>& numbers) {
  std::string out;
  std::size_t parts = 0;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const std::int64_t first = *it;
    std::int64_t last = first;
    while (++it != numbers.end() && *it == last + 1) ++last;
    if (++parts > 8) return out + ", …";
    out += fmt::format("{}{}", out.empty() ? "" : ", ", first);
    if (last > first) out += fmt::format("{}{}", last == first + 1 ? ", " : "-", last);
  }
  return out;
}

struct Draft {
  PlanGroup group;
  std::string pattern;
  std::vector<std::set<std::int64_t>> numbers;
};

std::string finished_name(const Draft& draft) {
  std::string name;
  std::size_t at = 0;
  for (const char c : draft.pattern) {
    if (c == '#' && at < draft.numbers.size()) {
      const auto& numbers = draft.numbers[at++];
      name += numbers.size() == 1 ? std::to_string(*numbers.begin()) : "{" + ranges_of(numbers) + "}";
    } else {
      name += c;
    }
  }
  return name;
}

std::string cut_key(const PlanTensorRow& tensor, const std::string& pattern,
                    const std::vector<const PlanSliceRow*>& slices) {
  std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n", pattern, tensor.role, tensor.dtype, tensor.split,
                                fmt::join(tensor.shape, ","));
  for (const PlanSliceRow* s : slices) key += fmt::format("{} {} {} {};", s->rank, s->axis, s->start, s->count);
  return key;
}

/// The parts of a lane, as one path in a box of 1000 to `height`.
std::string lane_path(const PlanGroup& group, std::int32_t rank, double top, double height) {
  std::string path;
  for (const PlanSliceRow* s : group.slices) {
    if (s->rank != rank || s->count <= 0) continue;
    double from = 0, width = 1000;
    if (s->axis >= 0 && std::cmp_less(s->axis, group.first->shape.size())) {
      const auto extent =
          static_cast<double>(std::max<std::int64_t>(group.first->shape[static_cast<std::size_t>(s->axis)], 1));
      from = 1000 * static_cast<double>(s->start) / extent;
      width = std::max(1000 * static_cast<double>(s->count) / extent, 1.0);
    }
    path += fmt::format("M{:.6g} {:.4g}h{:.6g}v{:.4g}h{:.6g}z", from, top, width, height, -width);
  }
  return path;
}

bool is_whole(const PlanGroup& group, const PlanSliceRow& slice) {
  if (slice.axis < 0 || std::cmp_greater_equal(slice.axis, group.first->shape.size())) return true;
  return slice.start == 0 && slice.count == group.first->shape[static_cast<std::size_t>(slice.axis)];
}

std::string held_text(const PlanGroup& group, std::int32_t rank) {
  std::string runs;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  for (const PlanSliceRow* s : group.slices) {
    if (s->rank != rank) continue;
    bytes += s->bytes;
    if (++count > 4) continue;
    runs += runs.empty() ? "" : ", ";
    runs += is_whole(group, *s) ? "the whole" : fmt::format("{} to {}", s->start, s->start + s->count - 1);
  }
  if (count > 4) runs += fmt::format(" and {} more", count - 4);
  return fmt::format("rank {}: {} ({}{})", rank, runs.empty() ? "nothing" : runs, format_bytes(bytes),
                     group.tensors > 1 ? " each" : "");
}

Html strip(const PlanGroup& group, std::int32_t ranks) {
  const std::int32_t lanes = std::min(ranks, kMostLanes);
  const double lane = lanes <= 4 ? 8 : lanes <= 8 ? 6 : 3;
  const double height = lane * lanes;
  std::string holders;
  Html out = html(
      "<svg class=\"strip\" viewBox=\"0 0 1000 {0}\" style=\"height:{0}px\" preserveAspectRatio=\"none\" role=\"img\">",
      height);
  out += html("<title>{}: parts of {} ranks</title>", group.name, ranks);
  for (std::int32_t rank = 0; rank < lanes; ++rank)
    out += html("<path class=\"f{}\" d=\"{}\"><title>{}</title></path>", rank % kColours,
                lane_path(group, rank, lane * rank, lane - 1), held_text(group, rank));
  out += Html("</svg>\n");
  return out;
}

std::string cut_text(const PlanGroup& group) {
  const auto cut = std::ranges::find_if(group.slices, [&](const PlanSliceRow* s) { return !is_whole(group, *s); });
  if (cut == group.slices.end()) return "whole on every rank that has it";
  return fmt::format("cut along axis {} ({})", (*cut)->axis, group.first->split);
}

}  // namespace

std::vector<PlanGroup> plan_groups(const RunResult& r) {
  std::vector<std::vector<const PlanSliceRow*>> slices(r.plan_tensors.size());
  for (const PlanSliceRow& s : r.plan_slices)
    if (s.tensor >= 0 && std::cmp_less(s.tensor, slices.size()))
      slices[static_cast<std::size_t>(s.tensor)].push_back(&s);
  std::vector<Draft> drafts;
  std::map<std::string, std::size_t> known;
  for (std::size_t t = 0; t < r.plan_tensors.size(); ++t) {
    const PlanTensorRow& tensor = r.plan_tensors[t];
    NumberedName name = numbered(tensor.name);
    const auto [at, fresh] = known.emplace(cut_key(tensor, name.pattern, slices[t]), drafts.size());
    if (fresh) {
      Draft& made = drafts.emplace_back();
      made.group.first = &tensor;
      made.group.slices = std::move(slices[t]);
      made.pattern = std::move(name.pattern);
      made.numbers.resize(name.numbers.size());
    }
    Draft& draft = drafts[at->second];
    ++draft.group.tensors;
    for (std::size_t i = 0; i < name.numbers.size(); ++i) draft.numbers[i].insert(name.numbers[i]);
  }
  std::vector<PlanGroup> groups;
  for (Draft& draft : drafts) {
    draft.group.name = finished_name(draft);
    groups.push_back(std::move(draft.group));
  }
  return groups;
}

Html plan_picture(const RunResult& r) {
  const std::vector<PlanGroup> groups = plan_groups(r);
  const std::int32_t ranks = std::max(r.tensor_parallel_size, 1);
  std::vector<BarChart::Kind> names;
  for (std::int32_t rank = 0; rank < std::min(ranks, kMostLanes); ++rank)
    names.push_back({fmt::format("rank {}", rank), rank % kColours});
  Html out = legend(names);
  std::size_t strips = 0, runs = 0;
  for (const PlanGroup& group : groups) {
    runs += group.slices.size();
    if (strips == kMostStrips || runs > kMostRuns) break;
    ++strips;
    out +=
        html("<div class=\"tensor\"><div><b>{}</b> <span class=\"note\">{}{} · {} [{}] · {}</span></div>\n{}</div>\n",
             shortened(group.name, kNameLetters), group.tensors > 1 ? format_count(group.tensors) + " tensors · " : "",
             group.first->role, group.first->dtype, fmt::format("{}", fmt::join(group.first->shape, " × ")),
             cut_text(group), strip(group, ranks));
  }
  if (strips < groups.size())
    out += note(
        fmt::format("{} more kinds of tensors are not drawn; tpinfer show --plan lists all.", groups.size() - strips));
  if (ranks > kMostLanes) out += note(fmt::format("The first {} of {} ranks are drawn.", kMostLanes, ranks));
  return out;
}

Section plan_section(const RunResult& r) {
  Section section{"plan", "Who holds what", {}};
  if (r.plan_tensors.empty()) {
    section.body = only_at_the_end("Which rank holds which part of which tensor");
    return section;
  }
  section.body = html(
      "<p>{} tensors over {} rank{}{}. A strip is a tensor along the axis that is cut, with a lane for each rank; "
      "tensors cut "
      "alike are drawn once.</p>\n",
      format_count(r.plan_tensors.size()), r.tensor_parallel_size, r.tensor_parallel_size == 1 ? "" : "s",
      r.data_parallel_size > 1 ? fmt::format(", the same in each of {} replicas", r.data_parallel_size) : "");
  section.body += plan_picture(r);
  return section;
}

}  // namespace tpinfer
