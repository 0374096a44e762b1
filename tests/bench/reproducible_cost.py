#!/usr/bin/env python3
"""What engine.reproducible: full costs against off, in decode, prefill and a mixed job.

    reproducible_cost.py --tpinfer build/bin/tpinfer MODEL_DIR [MODEL_DIR ...]

Runs `tpinfer run` jobs of both modes in turn and prints, for each model and case, the medians and the median of the
ratios of neighbours: the machine's speed moves, and neighbours see much the same of it. Needs h5py.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile

import h5py

from bench_job import run_job

CASES = ("decode", "prefill", "mixed")
MODES = ("off", "full")


def prompts_of(case, vocab):
    """[(ids, new tokens)] and the engine's keys."""
    rng = random.Random(7)
    ids = lambda n: [rng.randrange(3, vocab) for _ in range(n)]
    if case == "decode":
        return [(ids(16), 33) for _ in range(3)], {"max_num_seqs": 1}
    if case == "prefill":
        return [(ids(512), 1) for _ in range(4)], {"max_num_seqs": 1, "max_num_batched_tokens": 512}
    return [(ids(rng.randint(16, 256)), rng.randint(8, 48)) for _ in range(24)], {}


def seconds_of(case, file):
    """Of one token, one prompt or the job, from a result file."""
    with h5py.File(file) as h:
        queued, first, end = (h[f"results/{name}"][:] for name in ("t_queued", "t_first_token", "t_finished"))
        tokens = h["results/n_tokens"][:]
        mode = h["plan"].attrs["reproducible"]
    if case == "decode":
        value = statistics.median((end - first) / (tokens - 1))
    elif case == "prefill":  # one after the other; the first one touches the memory
        value = statistics.median(later - earlier for earlier, later in zip(sorted(end), sorted(end)[1:]))
    else:
        value = max(end) - min(queued)
    return float(value), mode.decode() if isinstance(mode, bytes) else str(mode)


def run(args, model, case, mode, folder):
    vocab = json.loads((model / "config.json").read_text())["vocab_size"]
    prompts, engine = prompts_of(case, vocab)
    value, stored = seconds_of(case, run_job(args, model, prompts, {**engine, "reproducible": mode}, folder))
    if stored != mode:
        sys.exit(f"the result of a job with engine.reproducible: {mode} says {stored}")
    return value


def measure(args, model, case):
    times = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(args.repeats + 1):
            for mode in MODES if repeat % 2 else MODES[::-1]:
                value = run(args, model, case, mode, pathlib.Path(folder))
                if repeat:  # the first round warms the page cache
                    times[mode].append(value)
    ratios = [full / off for off, full in zip(times["off"], times["full"])]
    unit = 1e3
    print(f"| {model.name} | {case} | {unit * statistics.median(times['off']):.2f} | "
          f"{unit * statistics.median(times['full']):.2f} | {statistics.median(ratios):.3f} | "
          f"{min(ratios):.3f} .. {max(ratios):.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL_DIR")
    parser.add_argument("--tpinfer", default=os.environ.get("TPINFER", "tpinfer"))
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of jobs for each case")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of all ranks together")
    args = parser.parse_args()
    print("| model | case | off, ms | full, ms | full / off | range |\n|---|---|---|---|---|---|")
    for model in args.models:
        for case in args.cases.split(","):
            measure(args, model.resolve(), case)


if __name__ == "__main__":
    main()
