#pragma once

#include <string>
#include <vector>

#include "report/axis.hpp"
#include "report/html.hpp"

namespace tpinfer {

// Pictures as inline SVG with a title for screen readers, drawn 480 units wide, so that their letters can be read on a
// phone too. Texts are escaped here. Colours are numbers of the page's palette, which has two shades for its themes.

inline constexpr int kColours = 8;

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name;
  int colour = 0;
  std::vector<Point> line = {};            ///< by x
  std::vector<Point> low = {}, high = {};  ///< a band behind the line; empty: none
  bool dashed = false;
};

struct LineChart {
  std::string id, title;
  std::string what;  ///< one sentence for those who can not see the picture
  std::string y_name;
  Unit y_unit = Unit::count;
  double x_end = 0;  ///< seconds
  std::vector<Series> series = {};
  std::vector<double> marks = {};  ///< seconds: upright lines
};
Html draw(const LineChart& chart);

/// Lying bars, each of parts one after the other.
struct BarChart {
  struct Bar {
    std::string label;
    std::vector<double> parts;  ///< [kinds]
    bool hollow = false;        ///< drawn lighter: planned, beside a measured one
    bool gap = false;           ///< some room above: a new group begins
  };
  struct Kind {
    std::string name;
    int colour = 0;
  };
  std::string id, title, what;
  Unit unit = Unit::bytes;
  std::vector<Kind> kinds = {};
  std::vector<Bar> bars = {};
};
Html draw(const BarChart& chart);

/// Standing columns side by side over a number line.
struct Histogram {
  std::string id, title, what, x_name, y_name;
  double bin = 1;                   ///< width of a column
  std::vector<double> counts = {};  ///< from zero on
  int colour = 0;
};
Html draw(const Histogram& chart);
/// Columns of round width for these values; at most `bins`.
Histogram histogram_of(const std::vector<double>& values, int bins = 24);

/// The names of colours, below a picture.
Html legend(const std::vector<BarChart::Kind>& kinds);
/// A picture with its title, as a card of the page.
Html figure(const std::string& title, const Html& picture, const Html& below);

}  // namespace tpinfer
