#include "report/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/units.hpp"

namespace tpinfer {
namespace {

struct Scale {
  double factor;
  const char* unit;
};

Scale scale_of(double largest, Unit unit) {
  const auto largest_below = [&](std::initializer_list<Scale> scales, double share) {
    Scale best = *scales.begin();
    for (const Scale& s : scales)
      if (largest >= s.factor * (s.factor > 1 ? share : 1)) best = s;
    return best;
  };
  switch (unit) {
    case Unit::bytes: return largest_below({{1, "B"}, {1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"}, {1e12, "TB"}}, 1);
    case Unit::seconds: return largest_below({{1e-3, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}}, 3);
    default: return {1, ""};
  }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double digit : {1.0, 2.0, 5.0})
    if (digit * power >= least * (1 - 1e-9)) return digit * power;
  return 10 * power;
}

std::string number(double value) {
  if (value >= 1e4) return format_count(static_cast<std::uint64_t>(std::llround(std::min(value, 1e18))));
  return fmt::format("{:.6g}", value);
}

}  // namespace

double positive(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

Axis make_axis(double largest, Unit unit, int steps) {
  largest = std::min(positive(largest), 1e18);
  if (largest == 0) largest = 1;
  const Scale scale = scale_of(largest, unit);
  const double whole = unit == Unit::count || (scale.factor == 1 && unit == Unit::bytes) ? 1 : 0;
  const double step = std::max(round_step(largest / scale.factor / steps), whole);
  const int count = std::max(static_cast<int>(std::ceil(largest / scale.factor / step - 1e-9)), 1);
  Axis axis{.ticks = {}, .end = count * step * scale.factor, .unit = scale.unit, .factor = scale.factor};
  for (int i = 0; i <= count; ++i) axis.ticks.push_back({i * step * scale.factor, number(i * step)});
  return axis;
}

std::string Axis::named(double value) const {
  const double scaled = positive(value) / factor;
  const std::string digits = scaled == std::floor(scaled) ? number(scaled)
                             : scaled >= 1000             ? number(std::round(scaled))
                             : scaled >= 100              ? fmt::format("{:.0f}", scaled)
                                                          : fmt::format("{:.3g}", scaled);
  return unit.empty() ? digits : digits + " " + unit;
}

}  // namespace tpinfer
