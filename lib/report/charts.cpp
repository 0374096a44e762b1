#include "report/charts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tpinfer {
namespace {

constexpr double kWidth = 480;
constexpr double kLetter = 8.4;  ///< width of one, at the 15 units of height that phones get

std::string units(double value) { return fmt::format("{:.6g}", std::round(value * 10) / 10); }

/// The rectangle that values are drawn in.
struct Frame {
  double left, top, right, bottom;
  double x_end, y_end;  ///< values at the right and upper edge
  double x(double value) const { return left + (right - left) * std::min(positive(value) / x_end, 1.0); }
  double y(double value) const { return bottom - (bottom - top) * std::min(positive(value) / y_end, 1.0); }
};

Html open_svg(const std::string& id, const std::string& title, const std::string& what, double height) {
  return html(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-t {}-d\"><title id=\"{}-t\">{}</title>"
      "<desc id=\"{}-d\">{}</desc>\n",
      units(kWidth), units(height), id, id, id, title, id, what);
}

Html word(double x, double y, const char* anchor, const std::string& text, const char* kind = "") {
  return html("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" class=\"{}\">{}</text>", units(x), units(y), anchor, kind,
              text);
}

Html stroke(double x1, double y1, double x2, double y2, const char* kind) {
  return html("<path d=\"M{} {}L{} {}\" class=\"{}\"/>", units(x1), units(y1), units(x2), units(y2), kind);
}

/// Grid and labels of both axes.
Html draw_axes(const Frame& f, const Axis& x, const std::string& x_name, const Axis& y, const std::string& y_name) {
  const auto with_unit = [](const std::string& name, const Axis& axis) {
    return axis.unit.empty() ? name : fmt::format("{} ({})", name, axis.unit);
  };
  Html out;
  for (const Axis::Tick& tick : y.ticks) {
    out += stroke(f.left, f.y(tick.value), f.right, f.y(tick.value), tick.value > 0 ? "rule" : "base");
    out += word(f.left - 6, f.y(tick.value) + 4, "end", tick.label);
  }
  for (const Axis::Tick& tick : x.ticks) {
    out += stroke(f.x(tick.value), f.bottom, f.x(tick.value), f.bottom + 4, "base");
    out += word(f.x(tick.value), f.bottom + 18, "middle", tick.label);
  }
  out += word(f.right, f.bottom + 35, "end", with_unit(x_name, x), "quiet");
  out += word(2, f.top - 12, "start", with_unit(y_name, y), "quiet");
  return out;
}

/// The axis ends so far from the picture's edge that half of its last label has room.
double right_end(const Axis& x) {
  return kWidth - 4 - kLetter * static_cast<double>(std::max<std::size_t>(x.ticks.back().label.size(), 2)) / 2;
}

double widest_label(const Axis& axis) {
  std::size_t most = 0;
  for (const Axis::Tick& tick : axis.ticks) most = std::max(most, tick.label.size());
  return kLetter * static_cast<double>(most);
}

void append_points(std::string& path, const Frame& f, const std::vector<Point>& points, bool backwards = false) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& p = backwards ? points[points.size() - 1 - i] : points[i];
    path += fmt::format("{}{} {}", path.empty() ? "M" : "L", units(f.x(p.x)), units(f.y(p.y)));
  }
}

Html draw_series(const Frame& f, const Series& series) {
  Html out;
  if (!series.high.empty()) {
    std::string band;
    append_points(band, f, series.high);
    append_points(band, f, series.low, true);
    out += html("<path d=\"{}Z\" class=\"band f{}\"/>", band, series.colour);
  }
  std::string path;
  append_points(path, f, series.line);
  if (series.line.size() == 1)
    out += html("<circle cx=\"{}\" cy=\"{}\" r=\"3\" class=\"f{}\"/>", units(f.x(series.line[0].x)),
                units(f.y(series.line[0].y)), series.colour);
  out += html("<path d=\"{}\" class=\"line s{}{}\"/>\n", path, series.colour, series.dashed ? " dashed" : "");
  return out;
}

Html rectangle(double x, double y, double width, double height, const std::string& kind, const std::string& title) {
  return html("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"><title>{}</title></rect>", units(x),
              units(y), units(std::max(width, 0.5)), units(height), kind, title);
}

double sum(const std::vector<double>& parts) {
  return std::transform_reduce(parts.begin(), parts.end(), 0.0, std::plus{}, positive);
}

}  // namespace

Html legend(const std::vector<BarChart::Kind>& kinds) {
  Html out("<ul class=\"legend\">");
  for (const auto& kind : kinds) out += html("<li><i class=\"b{}\"></i>{}</li>", kind.colour, kind.name);
  out += Html("</ul>\n");
  return out;
}

Html figure(const std::string& title, const Html& picture, const Html& below) {
  return html("<figure><figcaption>{}</figcaption>\n{}{}</figure>\n", title, picture, below);
}

Html draw(const LineChart& chart) {
  double largest = 0;
  for (const Series& s : chart.series) {
    for (const Point& p : s.line) largest = std::max(largest, positive(p.y));
    for (const Point& p : s.high) largest = std::max(largest, positive(p.y));
  }
  const Axis y = make_axis(largest, chart.y_unit, 4);
  const Axis x = make_axis(chart.x_end, Unit::seconds, 6);
  const Frame f{
      .left = widest_label(y) + 12, .top = 30, .right = right_end(x), .bottom = 196, .x_end = x.end, .y_end = y.end};
  Html out = open_svg(chart.id, chart.title, chart.what, 236);
  out += draw_axes(f, x, "time", y, chart.y_name);
  for (const double mark : chart.marks) out += stroke(f.x(mark), f.top, f.x(mark), f.bottom, "mark");
  for (const Series& s : chart.series) out += draw_series(f, s);
  out += Html("</svg>\n");
  std::vector<BarChart::Kind> names;
  for (const Series& s : chart.series) names.push_back({s.dashed ? s.name + " (dashed)" : s.name, s.colour});
  return figure(chart.title, out, legend(names));
}

Html draw(const BarChart& chart) {
  constexpr double kBar = 15, kStep = 19, kGap = 9;
  double largest = 0, most = 0, height = 4;
  for (const auto& bar : chart.bars) {
    largest = std::max(largest, sum(bar.parts));
    most = std::max(most, kLetter * static_cast<double>(bar.label.size()));
    height += kStep + (bar.gap ? kGap : 0);
  }
  const Axis axis = make_axis(largest, chart.unit, 4);
  const double left = std::min(most + 8, 170.0);
  const Frame f{.left = left, .top = 4, .right = kWidth - 78, .bottom = height, .x_end = axis.end, .y_end = 1};
  Html out = open_svg(chart.id, chart.title, chart.what, height + 24);
  for (const Axis::Tick& tick : axis.ticks) {
    out += stroke(f.x(tick.value), f.top, f.x(tick.value), f.bottom, tick.value > 0 ? "rule" : "base");
    const bool last = &tick == &axis.ticks.back() && !axis.unit.empty();
    out += word(f.x(tick.value), f.bottom + 16, "middle", last ? tick.label + " " + axis.unit : tick.label);
  }
  double y = f.top;
  for (const auto& bar : chart.bars) {
    if (bar.gap) y += kGap;
    out += word(left - 6, y + 12, "end", shortened(bar.label, 20));
    double from = 0;
    for (std::size_t k = 0; k < bar.parts.size(); ++k) {
      const double part = positive(bar.parts[k]);
      if (part == 0) continue;
      out +=
          rectangle(f.x(from), y, f.x(from + part) - f.x(from) - 1, kBar,
                    fmt::format("f{0}{1}", chart.kinds[k].colour,
                                bar.hollow ? fmt::format(" s{} hollow", chart.kinds[k].colour) : ""),
                    fmt::format("{}, {}: {}", bar.label, chart.kinds[k].name, make_axis(part, chart.unit).named(part)));
      from += part;
    }
    out += word(f.x(from) + 5, y + 12, "start", make_axis(from, chart.unit).named(from), "quiet");
    out += Html("\n");
    y += kStep;
  }
  out += Html("</svg>\n");
  return figure(chart.title, out, legend(chart.kinds));
}

Html draw(const Histogram& chart) {
  const Axis y = make_axis(chart.counts.empty() ? 0 : *std::ranges::max_element(chart.counts), Unit::count, 4);
  const Axis x = make_axis(chart.bin * static_cast<double>(chart.counts.size()), Unit::count, 6);
  const Frame f{
      .left = widest_label(y) + 12, .top = 30, .right = right_end(x), .bottom = 166, .x_end = x.end, .y_end = y.end};
  Html out = open_svg(chart.id, chart.title, chart.what, 206);
  out += draw_axes(f, x, chart.x_name, y, chart.y_name);
  for (std::size_t i = 0; i < chart.counts.size(); ++i) {
    if (chart.counts[i] <= 0) continue;
    const double from = chart.bin * static_cast<double>(i);
    out += rectangle(f.x(from) + 0.5, f.y(chart.counts[i]), f.x(from + chart.bin) - f.x(from) - 1,
                     f.bottom - f.y(chart.counts[i]), fmt::format("f{}", chart.colour),
                     fmt::format("{:.0f} to {:.0f}: {:.0f}", from, from + chart.bin - 1, chart.counts[i]));
  }
  out += Html("</svg>\n");
  return figure(chart.title, out, {});
}

Histogram histogram_of(const std::vector<double>& values, int bins) {
  Histogram h;
  if (values.empty()) return h;
  const double largest = std::transform_reduce(
      values.begin(), values.end(), 0.0, [](double a, double b) { return std::max(a, b); }, positive);
  const Axis axis = make_axis(largest + 1, Unit::count, bins);
  h.bin = axis.end / static_cast<double>(axis.ticks.size() - 1);
  h.counts.resize(axis.ticks.size() - 1);
  for (const double value : values) {
    const auto at = static_cast<std::size_t>(positive(value) / h.bin);
    h.counts[std::min(at, h.counts.size() - 1)] += 1;
  }
  return h;
}

}  // namespace tpinfer
