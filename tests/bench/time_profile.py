#!/usr/bin/env python3
"""Where the time of a job goes, from the counters of its result file.

    time_profile.py answers.h5 [more.h5 ...]
    time_profile.py --tpinfer build/bin/tpinfer --model MODEL_DIR [--ranks 2] [--perf]

The first form prints what is in result files. The second runs a prefill of 512 tokens, decoding of one and of 64
sequences and a mixed job, and prints the same of each; --perf adds the functions that `perf` finds most time in, to check
the counters against. The counters are of a whole job, so a job of one kind stands for one kind of step. Compute is what
is left: the rank's total less communication, waiting and sampling; scheduling and output are in rank 0's. Needs h5py.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import types

PARTS = ("compute", "communication", "wait", "sampling")
RUNS = {"prefill, 512": [(512, 1)], "decode, 1 sequence": [(32, 64)], "decode, 64 sequences": [(8, 24)] * 64}


def table(head, rows):
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def parts_of(file):
    """[(rank, seconds of PARTS, loading, collectives, bytes of them)], step kinds, seconds from first queued to last finished"""
    import h5py
    try:
        h = h5py.File(file)
    except OSError as e:
        raise SystemExit(f"{file} is no result file that can be read: {e}")
    with h:
        if "ranks/time" not in h or "steps" not in h:
            raise SystemExit(f"{file} has no counters of ranks; did its job finish?")
        time, load = h["ranks/time"], h["ranks/weights/load_seconds"][:]
        ranks = [(i, [float(time[p][i]) for p in PARTS], float(load[i]), int(time["collectives"][i]), int(time["collective_bytes"][i]))
                 for i in range(len(load))]
        t, sequences, tokens = (h[f"steps/{name}"][:] for name in ("t", "sequences", "tokens"))
        queued, finished = h["results/t_queued"][:], h["results/t_finished"][:]
    begins = [float(queued.min()), *t[:-1]] if len(t) else []
    kinds = {"with prompts": [], "decode only": []}
    for begin, end, live, count in zip(begins, t, sequences, tokens):
        kinds["decode only" if live == count else "with prompts"].append((float(end - begin), int(count)))
    return ranks, kinds, float(finished.max() - queued.min()) if len(queued) else 0.0


def show(file, name):
    ranks, kinds, seconds = parts_of(file)
    print(f"## {name}: {seconds:.3f} s from the first prompt to the last answer\n")
    rows = [[kind, str(len(steps)), f"{sum(s for s, _ in steps):.3f}", f"{1e3 * sum(s for s, _ in steps) / len(steps):.2f}",
             f"{sum(n for _, n in steps) / len(steps):.1f}"] for kind, steps in kinds.items() if steps]
    print(table(["steps", "number", "s", "ms each", "tokens each"], rows))
    rows = []
    for rank, parts, load, collectives, sent in ranks:
        total = sum(parts) or 1
        steps = sum(len(steps) for steps in kinds.values()) or 1
        rows.append([str(rank), *(f"{s:.3f} ({100 * s / total:.1f} %)" for s in parts), f"{load:.2f}", f"{collectives / steps:.1f}",
                     f"{sent / steps / 1024:.1f}"])
    print(table(["rank", *(f"{p}, s" for p in PARTS), "loading, s", "collectives a step", "KB a step"], rows), flush=True)


def lengths_of(name):
    """[(prompt, new tokens)]"""
    if name in RUNS:
        return RUNS[name]
    rng = random.Random(7)
    return [(rng.randint(16, 256), rng.randint(16, 64)) for _ in range(32)]


def perf_table(data):
    done = subprocess.run(["perf", "report", "-i", str(data), "--stdio", "--percent-limit", "1", "--no-children", "-F", "overhead,dso,symbol", "-g", "none"],
                          capture_output=True, text=True)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip() and not line.startswith("#")]
    return "\n".join(f"    {line[:150]}" for line in lines[:15]) or f"    perf report gave nothing: {done.stderr.strip()[:200]}"


def measure(args):
    from bench_job import run_job
    vocab = json.loads((args.model / "config.json").read_text())["vocab_size"]
    for name in [*RUNS, "mixed job"]:
        rng = random.Random(name)
        prompts = [([rng.randrange(3, vocab) for _ in range(n)], m) for n, m in lengths_of(name)]
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            job = types.SimpleNamespace(tpinfer=args.tpinfer, ranks=args.ranks, threads=args.threads)
            show(run_job(job, args.model, prompts, {}, place), f"{name}, {args.ranks} ranks")
            if args.perf:
                data = place / "perf.data"
                words = ["perf", "record", "-q", "-F", "499", "-g", "-o", str(data), "--"] if args.ranks == 1 else []
                if not words or subprocess.run([*words, args.tpinfer, "run", str(place / "job.json"), "--progress", "none"], capture_output=True).returncode:
                    print("perf: only of one rank, and where the system allows it (kernel.perf_event_paranoid)\n")
                else:
                    print(f"perf, the whole program with loading:\n\n{perf_table(data)}\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=pathlib.Path, metavar="RESULT.h5")
    parser.add_argument("--tpinfer", default=os.environ.get("TPINFER", "tpinfer"))
    parser.add_argument("--model", type=pathlib.Path, metavar="MODEL_DIR")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of all ranks together")
    parser.add_argument("--perf", action="store_true", help="with --model: also what perf sees")
    args = parser.parse_args()
    if not args.results and not args.model:
        parser.error("name result files, or --model with a model folder to run")
    if args.perf and shutil.which("perf") is None:
        raise SystemExit("--perf: perf is not installed (Debian: linux-perf)")
    for file in args.results:
        show(file, file.name)
    if args.model:
        if not (args.model / "config.json").exists():
            raise SystemExit(f"--model: {args.model} has no config.json")
        args.model = args.model.resolve()
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
        measure(args)


if __name__ == "__main__":
    main()
