"""Markdown of results: targets, cases, ratios, curves."""
from . import results, targets
from .results import Spread

CLIFF = 0.15
ORDER = ("decode1", "prefill512", "batch16", "batch32", "batch64", "job")


def table(head, rows):
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows), ""]


def target_lines(found):
    rows, met, missed = [], 0, 0
    for target in targets.all_targets():
        spread = Spread(target.values(found))
        if spread.median is None:
            rows.append([target.what, target.bound(), "", "", "not measured"])
            continue
        good = target.met(spread.median)
        met, missed = met + good, missed + (not good)
        rows.append([target.what, target.bound(), spread.text(), str(len(spread.values)), "yes" if good else "**no**"])
    return ["## Targets", "", f"{met} met, {missed} missed, {len(rows) - met - missed} not measured. Ratios are of rates, taken within a round.", "",
            *table(["what", "target", "median (range)", "rounds", "met"], rows)]


def case_key(key):
    model, case, program = key
    return model, ORDER.index(case) if case in ORDER else len(ORDER), case, not program.startswith("tpinfer"), program


def case_lines(found):
    rows = []
    for key in sorted(found.cases, key=case_key):
        lines, calm = results.quiet(found.cases[key])

        def of(figure, digits, lines=lines):
            return Spread(results.by_round(lines, figure).values()).text(digits)

        def middle(figure, digits, lines=lines):
            median = Spread(results.by_round(lines, figure).values()).median
            return "" if median is None else f"{median:.{digits}f}"

        rows.append([*key, of("output", 1), of("prefill", 1), of("decode", 1), of("seconds", 2), middle("load", 1), of("share", 2),
                     of("decode_share", 2), f"{middle('read_rate', 0)}, {middle('compute_rate', 0)}", middle("memory", 2),
                     f"{len(lines)}{'' if calm else ' (busy)'}"])
    if not rows:
        return []
    return ["## Cases", "", *table(["model", "case", "program", "output tokens/s", "prefill tokens/s", "decode tokens/s", "seconds", "load, s",
                                    "share of floor", "of it decode", "GB/s, GFLOP/s", "memory, GB", "n"], rows)]


def ratio_lines(found):
    """tpinfer-1 to every other program, within rounds."""
    rows = []
    for model, case, program in sorted(found.cases, key=case_key):
        ours = found.cases.get((model, case, targets.OURS))
        if program == targets.OURS or not ours:
            continue
        theirs = found.cases[model, case, program]
        rows.append([model, case, program, *(Spread(results.ratios(ours, theirs, f)).text() for f in ("output", "prefill", "decode", "with_loading"))])
    if not rows:
        return []
    return [f"## {targets.OURS} / other programs", "",
            *table(["model", "case", "program", "output", "prefill", "decode", "output with loading"], rows)]


def metric_lines(found):
    rows = []
    for (name, model), lines in sorted(found.metrics.items()):
        calm = results.quiet(lines)
        notes = ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                          for key, value in lines[-1].get("detail", {}).items())
        rows.append([name, model, Spread(results.by_round(lines, "value").values()).text(3), lines[-1].get("unit", ""), notes,
                     f"{len(calm[0])}{'' if calm[1] else ' (busy)'}"])
    return ["## Other figures", "", *table(["what", "model", "median (range)", "unit", "the last one in detail", "n"], rows)] if rows else []


def curve_points(lines):
    """[(x, share, tokens/s, seconds, cliff)] of medians: a cliff is a share that is by more than CLIFF below that
    of the point before."""
    points = []
    for x in sorted({line["x"] for line in lines}):
        here = [line for line in lines if line["x"] == x]
        points.append([x, *(Spread(results.by_round(here, f).values()).median for f in ("share", "output", "seconds"))])
    out = []
    for i, point in enumerate(points):
        before = points[i - 1][1] if i else None
        fall = before and point[1] and point[1] < (1 - CLIFF) * before
        out.append((*point, bool(fall)))
    return out


def curve_lines(found):
    out, cliffs = [], 0
    for (curve, program), lines in sorted(found.curves.items()):
        rows = []
        for x, share, rate, seconds, cliff in curve_points(lines):
            cliffs += cliff
            rows.append([f"{x:,}", "" if seconds is None else f"{1e3 * seconds:.2f}", "" if rate is None else f"{rate:.1f}",
                         "" if share is None else f"{share:.2f}", "**cliff**" if cliff else ""])
        out += [f"### {curve}, {program}: {lines[-1].get('note', '')}", "", *table([curve, "ms", "tokens/s", "share of floor", ""], rows)]
    if not out:
        return []
    return ["## Curves", "", f"{cliffs} cliffs: places where the share of the floor falls by more than {100 * CLIFF:.0f} % from the point before.", "", *out]


def notes(found):
    lines = [line for group in (found.cases, found.metrics, found.curves) for some in group.values() for line in some]
    out = [f"failed: {line['id']} on {line['model']}, exit status {line['failed']}" for line in found.failed]
    busy = sum(line.get("other_load", 0) > results.BUSY for line in lines)
    if busy:
        out.append(f"{busy} of {len(lines)} figures were taken while others used more than {results.BUSY} cores: left out where quiet ones exist.")
    probes = [p for line in lines for p in line.get("probes", [])]
    if any((p.get("fp32_gflops_2") or 0) > (p.get("bf16_gflops_2") or 0) > 0 for p in probes):
        out.append("Here float32 products are faster than bfloat16 dot products, so the floor's compute rate is that of float32, which programs may use too.")
    if any("work" in line for line in lines):
        out.append("Floor: of each pass the longer of weight bytes / read rate and operations / compute rate, of the better probe beside it. "
                   "With loading: of tpinfer the whole mpirun by the clock, of others load and answers, without their start and imports.")
    taken = sorted(line["taken"] for line in lines if line.get("taken"))
    if taken:
        machines = sorted({line["machine"] for line in lines if line.get("machine")})
        out.append(f"Taken {taken[0]} to {taken[-1]} on: {'; '.join(machines)}.")
    versions = sorted({f"{line['version']}" for some in found.cases.values() for line in some if line.get("version")})
    return out + (["Versions: " + "; ".join(versions)] if versions else [])


def report(found):
    return "\n".join([*target_lines(found), *case_lines(found), *ratio_lines(found), *metric_lines(found), *curve_lines(found),
                      *(f"{note}\n" for note in notes(found))])
