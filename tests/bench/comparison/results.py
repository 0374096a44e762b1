"""Reads the JSON lines of compare.py and gives figures of them, by round."""
import collections
import json
import statistics

from .work import floor_seconds

BUSY = 0.5  # cores that others used just before; figures above it are left out where quiet ones exist


def read(path):
    """The lines of a file, failures too; SystemExit names what is no JSON."""
    lines = []
    with open(path) as f:
        for number, text in enumerate(f, 1):
            if not text.strip():
                continue
            try:
                lines.append(json.loads(text))
            except ValueError as e:
                raise SystemExit(f"{path}, line {number}: no JSON ({e}); was the file cut?")
    return lines


def peak(line):
    """(GB/s, GFLOP/s) of the machine then: the better of the probes beside, and of bfloat16 dot products and float32
    products the faster, since programs are free to take either. None without probes."""
    probes = line.get("probes")
    if not probes:
        return None
    return (max(p["read_gbs_2"] for p in probes),
            max(max(p.get("bf16_gflops_2") or 0, p.get("fp32_gflops_2") or 0) for p in probes))


def share(line):
    """Floor over time of the whole case; None where the work is not known."""
    limit = peak(line)
    if limit is None or not line.get("work") or not line.get("seconds"):
        return None
    return floor_seconds(line["work"], limit) / line["seconds"]


def decode_share(line):
    """Of the decode steps alone, the first token left out."""
    limit, rate = peak(line), line.get("decode_tokens_per_s")
    if limit is None or not rate or not line.get("decode_work"):
        return None
    return floor_seconds([line["decode_work"]], limit) * rate


def tokens(line):
    return line["tokens_per_s"] * line["seconds"]


def with_loading(line):
    """Output tokens a second, loading counted: of tpinfer the clock of the whole mpirun, of others load and answers
    (their interpreter's start and imports are not in it)."""
    if line.get("wall_seconds"):
        return tokens(line) / line["wall_seconds"]
    return tokens(line) / (line["load_seconds"] + line["seconds"]) if line.get("load_seconds") is not None else None


FIGURES = {
    "share": share, "decode_share": decode_share, "with_loading": with_loading,
    "output": lambda line: line.get("tokens_per_s"), "prefill": lambda line: line.get("prefill_tokens_per_s"),
    "decode": lambda line: line.get("decode_tokens_per_s"), "seconds": lambda line: line.get("seconds"),
    "load": lambda line: line.get("load_seconds"), "value": lambda line: line.get("value"),
    "memory": lambda line: sum(line["peak_rss_bytes"]) / 1e9 if line.get("peak_rss_bytes") else None,
    "read_rate": lambda line: peak(line)[0] if peak(line) else None,
    "compute_rate": lambda line: peak(line)[1] if peak(line) else None,
}


class Results:
    """Lines grouped by kind: cases by (model, case, program), metrics by (name, model), points of curves."""

    def __init__(self, lines):
        self.cases, self.metrics, self.curves = (collections.defaultdict(list) for _ in range(3))
        self.failed = []
        for number, line in enumerate(lines):
            line = {"round": number, **line}
            if "failed" in line:
                self.failed.append(line)
            elif "metric" in line:
                self.metrics[line["metric"], line.get("model", "")].append(line)
            elif "curve" in line:
                self.curves[line["curve"], line["id"]].append(line)
            elif "case" in line:
                self.cases[line["model"], line["case"], line.get("id") or f"{line['peer']}-{line['tp']}"].append(line)

    def models(self):
        return sorted({model for model, _, _ in self.cases})


def quiet(lines):
    """Those taken on a quiet machine, or all of them when there is none; and whether they are quiet."""
    good = [line for line in lines if line.get("other_load", 0) <= BUSY]
    return (good, True) if good else (lines, False)


def by_round(lines, figure):
    """{round: median of the figure}"""
    found = collections.defaultdict(list)
    for line in quiet(lines)[0]:
        value = FIGURES[figure](line)
        if value is not None:
            found[line["round"]].append(value)
    return {r: statistics.median(v) for r, v in found.items()}


def ratios(ours, theirs, figure):
    """Of the same round, one a round that both are in."""
    a, b = by_round(ours, figure), by_round(theirs, figure)
    return [a[r] / b[r] for r in sorted(a) if b.get(r)]


class Spread:
    """Median and range of some values."""

    def __init__(self, values):
        self.values = list(values)
        self.median = statistics.median(self.values) if self.values else None
        self.low, self.high = (min(self.values), max(self.values)) if self.values else (None, None)

    def text(self, digits=2):
        if self.median is None:
            return ""
        if len(self.values) == 1:
            return f"{self.median:.{digits}f}"
        return f"{self.median:.{digits}f} ({self.low:.{digits}f} .. {self.high:.{digits}f})"
