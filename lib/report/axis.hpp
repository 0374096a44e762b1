#pragma once

#include <string>
#include <vector>

namespace tpinfer {

/// What is measured, which decides how the ticks of an axis are named.
enum class Unit { count, bytes, seconds, rate };

/// An axis from zero with round ticks.
struct Axis {
  struct Tick {
    double value = 0;   ///< in the quantity's own unit (bytes, seconds)
    std::string label;  ///< in the unit of the axis, without it
  };
  std::vector<Tick> ticks;  ///< the first is 0, the last is `end`
  double end = 1;           ///< at least as large as the largest value
  std::string unit;         ///< "GB", "min", ""
  /// `value` with its unit, for a label: "12.3 GB".
  std::string named(double value) const;
  double factor = 1;  ///< of the unit
};

/// Room for values up to `largest` (anything but a positive number counts as 1), in at most `steps` + 1 steps of 1, 2
/// or 5 times a power of ten.
Axis make_axis(double largest, Unit unit, int steps = 5);

/// The value, or 0 for what is no positive number: a file may hold anything.
double positive(double value);

}  // namespace tpinfer
