#include "shard/nearest_family.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "model/families.hpp"

namespace tpinfer {
namespace {

using Kinds = std::set<std::string>;

// Numbers between dots are one kind: model.layers.17.mlp.experts.3.w1.weight -> model.layers.N.mlp.experts.N.w1.weight
std::string kind_of(std::string_view name) {
  std::string kind;
  while (!name.empty()) {
    const auto dot = std::min(name.find('.'), name.size());
    const std::string_view word = name.substr(0, dot);
    const bool number = !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
    kind += (kind.empty() ? "" : ".") + (number ? "N" : std::string(word));
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return kind;
}

std::string with_numbers(std::string_view pattern) {
  std::string kind(pattern);
  for (const std::string_view mark : {"{L}", "{E}"})
    if (const auto at = kind.find(mark); at != std::string::npos) kind.replace(at, mark.size(), "N");
  return kind;
}

struct FamilyKinds {
  Kinds all;
  Kinds required;
};

FamilyKinds kinds_of(const FamilySpec& family) {
  FamilyKinds kinds;
  const auto add = [&](std::string kind, Need need) {
    if (!family.prefix.empty() && kind.starts_with(family.prefix)) kinds.all.insert(kind.substr(family.prefix.size()));
    if (need == Need::required) kinds.required.insert(kind);
    kinds.all.insert(std::move(kind));
  };
  for (const TensorRow& row : family.tensors) {
    const std::string name = with_numbers(row.name);
    add(row.fusion == Fusion::stacked ? name : name + ".weight", row.weight);
    if (row.bias != Need::never) add(name + ".bias", row.bias);
  }
  for (const std::string_view pattern : family.ignore) add(with_numbers(pattern), Need::never);
  return kinds;
}

// Of `wanted`, what is not in `there`.
std::vector<std::string> beyond(const Kinds& wanted, const Kinds& there) {
  std::vector<std::string> out;
  std::ranges::set_difference(wanted, there, std::back_inserter(out));
  return out;
}

}  // namespace

std::string nearest_family(const std::vector<std::string>& names) {
  Kinds found;
  for (const std::string& name : names) found.insert(kind_of(name));
  const FamilySpec* best = nullptr;
  std::vector<std::string> misfits;
  std::tuple<std::size_t, std::size_t, std::size_t> least;
  for (const FamilySpec* family : all_families()) {
    const FamilyKinds known = kinds_of(*family);
    std::vector<std::string> others = beyond(found, known.all);
    const std::tuple distance(others.size(), beyond(known.required, found).size(), beyond(known.all, found).size());
    if (best && distance >= least) continue;
    best = family;
    least = distance;
    misfits = std::move(others);
  }
  if (!best || misfits.size() * 2 > found.size()) return {};
  if (misfits.empty())
    return fmt::format("its tensors have the names of the family {}, but its block may be another", best->name);
  constexpr std::size_t kShown = 6;
  const std::size_t shown = std::min(misfits.size(), kShown);
  return fmt::format("its tensors are most like those of the family {}, but {} of {} kinds do not fit: {}{}",
                     best->name, misfits.size(), found.size(),
                     fmt::join(misfits.begin(), misfits.begin() + static_cast<long>(shown), ", "),
                     misfits.size() > shown ? ", ..." : "");
}

}  // namespace tpinfer
