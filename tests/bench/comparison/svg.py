"""A small SVG writer: a page with logarithmic axes, readable on light and dark grounds."""
import html
import math

STYLE = """
  svg { --ground: #ffffff; --ink: #1c1c1c; --pale: #d9d9d9; --roof: #444444; font: 13px sans-serif; }
  @media (prefers-color-scheme: dark) { svg { --ground: #16181c; --ink: #e8e8e8; --pale: #3a3d44; --roof: #c8c8c8; } }
  .ground { fill: var(--ground); } text { fill: var(--ink); } .grid { stroke: var(--pale); stroke-width: 1; }
  .roof { stroke: var(--roof); stroke-width: 2; fill: none; } .small { font-size: 11px; } .title { font-size: 16px; font-weight: bold; }
  .mark { stroke: var(--ground); stroke-width: 1; }
"""
# told apart by people who see no red or green too, and with enough contrast to either ground
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b8629b", "#8a7a00", "#3f8fc0", "#7f7f7f")


class Axis:
    """Places on a logarithmic scale from `low` to `high`, drawn between two pixels."""

    def __init__(self, low, high, begin, end):
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def at(self, value):
        part = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return self.begin + part * (self.end - self.begin)

    def ticks(self):
        """1, 2 and 5 times powers of ten."""
        found = [m * 10.0 ** e for e in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1) for m in (1, 2, 5)]
        return [t for t in found if self.low <= t <= self.high]


def number(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


class Page:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def add(self, part):
        self.parts.append("  " + part)

    def text(self, x, y, what, kind="", anchor="start", turn=False):
        turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self.add(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{html.escape(what)}</text>')

    def line(self, x1, y1, x2, y2, kind):
        self.add(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def mark(self, x, y, colour, form, hint):
        size = 6
        element, place = {"circle": ("circle", f'cx="{x:.1f}" cy="{y:.1f}" r="{size}"'),
                          "square": ("rect", f'x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}"'),
                          "diamond": ("path", f'd="M{x:.1f} {y - 8:.1f} l8 8 l-8 8 l-8 -8 z"'),
                          "triangle": ("path", f'd="M{x:.1f} {y - 7:.1f} l7 13 l-14 0 z"')}[form]
        self.add(f'<{element} {place} class="mark" fill="{colour}"><title>{html.escape(hint)}</title></{element}>')

    def written(self):
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
                          f'aria-label="{html.escape(self.title)}">', f"  <title>{html.escape(self.title)}</title>", f"  <style>{STYLE}  </style>",
                          f'  <rect class="ground" width="{self.width}" height="{self.height}"/>', *self.parts, "</svg>", ""])
