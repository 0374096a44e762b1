#!/usr/bin/env python3
"""Draws results of compare.py under the machine's roofs, as SVG: operations a second over operations a byte of weights.

    roofline.py results.jsonl -o roofline.svg [--model tinyllama-1.1b] [--curves]

With 16-bit weights, operations a byte are the rows of a pass over the weights. The slope is the probe's read rate, the
roof its fastest product; lines and points are medians over rounds. A case with passes of several kinds (prompts, then
steps) lies where its operations and bytes add up to.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from comparison import results, svg  # noqa: E402

FORMS = ("circle", "square", "diamond", "triangle")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 620, 80, 250, 56, 70


def place(line, seconds):
    """(operations a byte, GFLOP/s) of a line's work done in some seconds."""
    read = sum(b * times for b, _, times in line["work"])
    flop = sum(f * times for _, f, times in line["work"])
    return flop / read, flop / seconds / 1e9


def points_of(found, model, curves):
    """[(program, what, operations a byte, GFLOP/s)]"""
    points = []
    for (name, case, program), lines in sorted(found.cases.items()):
        if name == model and lines[-1].get("work"):
            seconds = results.Spread(results.by_round(lines, "seconds").values()).median
            rate = results.Spread(results.by_round(lines, "decode").values()).median
            if rate and lines[-1].get("decode_work"):  # the steps alone, which are all of one kind
                read, flop, steps = lines[-1]["decode_work"]
                points.append((program, f"{case}, steps", flop / read, flop * steps * rate / 1e9))
            else:
                points.append((program, case, *place(lines[-1], seconds)))
    for x in sorted({line["x"] for line in found.curves.get(("rows", "tpinfer"), [])}) if curves else ():
        lines = [line for line in found.curves["rows", "tpinfer"] if line["x"] == x]
        seconds = results.Spread(results.by_round(lines, "seconds").values()).median
        points.append(("rows of a small model", f"{x} rows", *place(lines[-1], seconds)))
    return points


def roofs(found, model):
    """(GB/s, GFLOP/s): medians of the probes of these lines."""
    lines = [line for (name, _, _), some in found.cases.items() if name == model for line in some]
    peaks = [p for p in map(results.peak, lines or [line for some in found.curves.values() for line in some]) if p]
    if not peaks:
        raise SystemExit("the results have no probes of the machine, so there are no roofs to draw")
    return tuple(results.Spread(p[i] for p in peaks).median for i in (0, 1))


def axes(page, across, up):
    for tick in across.ticks():
        page.line(across.at(tick), up.begin, across.at(tick), up.end, "grid")
        page.text(across.at(tick), up.begin + 18, svg.number(tick), "small", "middle")
    for tick in up.ticks():
        page.line(across.begin, up.at(tick), across.end, up.at(tick), "grid")
        page.text(across.begin - 6, up.at(tick) + 4, svg.number(tick), "small", "end")
    page.text((across.begin + across.end) / 2, up.begin + 42, "operations a byte of weights (with 16 bits: rows of a pass)", "", "middle")
    page.text(24, (up.begin + up.end) / 2, "GFLOP/s", "", "middle", True)


def draw(points, limit, model):
    read, compute = limit
    rates, places = [p[3] for p in points] + [compute], [p[2] for p in points]
    across = svg.Axis(min([*places, 1]) / 1.5, max([*places, compute / read]) * 2, LEFT, WIDTH - RIGHT)
    up = svg.Axis(min(rates) / 2, max(rates) * 1.6, HEIGHT - BOTTOM, TOP)
    page = svg.Page(WIDTH, HEIGHT, f"{model} under the roofs of this machine")
    page.text(LEFT, 28, page.title, "title")
    axes(page, across, up)
    ridge, first = compute / read, max(across.low, up.low / read)
    page.add(f'<path class="roof" d="M{across.at(first):.1f} {up.at(first * read):.1f} L{across.at(ridge):.1f} {up.at(compute):.1f} '
             f'L{across.end:.1f} {up.at(compute):.1f}"/>')
    page.text(across.at(ridge) - 8, up.at(compute) - 8, f"{read:.0f} GB/s read", "small", "end")
    page.text(across.end - 4, up.at(compute) - 8, f"{compute:.0f} GFLOP/s", "small", "end")
    programs = sorted({p[0] for p in points}, key=lambda name: (not name.startswith("tpinfer"), name))
    for i, program in enumerate(programs):
        colour, form = svg.COLOURS[i % len(svg.COLOURS)], FORMS[i % len(FORMS)]
        page.mark(WIDTH - RIGHT + 24, TOP + 14 + 22 * i, colour, form, program)
        page.text(WIDTH - RIGHT + 38, TOP + 18 + 22 * i, program)
        for _, what, x, y in (p for p in points if p[0] == program):
            page.mark(across.at(x), up.at(y), colour, form, f"{program}, {what}: {y:.1f} GFLOP/s, {100 * y / min(x * read, compute):.0f} % of the roof")
    for what in sorted({p[1] for p in points if not p[1].endswith(" rows")}):  # below the slowest, where there is room
        _, _, x, y = min((p for p in points if p[1] == what), key=lambda p: p[3])
        page.text(across.at(x), up.at(y) + 20, what, "small", "middle")
    return page.written()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, help="JSON lines of compare.py")
    parser.add_argument("-o", "--out", type=pathlib.Path, default=pathlib.Path("roofline.svg"))
    parser.add_argument("--model", help="default: the first one of the file")
    parser.add_argument("--curves", action="store_true", help="also the places of the curve over rows")
    args = parser.parse_args()
    if not args.results.exists():
        raise SystemExit(f"{args.results} is missing; compare.py writes such a file")
    found = results.Results(results.read(args.results))
    model = args.model or next(iter(found.models()), "")
    points = points_of(found, model, args.curves)
    if not points:
        raise SystemExit(f"{args.results} has no cases of {model or 'any model'}; it has {', '.join(found.models()) or 'none'}")
    args.out.write_text(draw(points, roofs(found, model), model or "rows"))
    print(f"{args.out}: {len(points)} points")


if __name__ == "__main__":
    main()
