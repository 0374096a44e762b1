#!/usr/bin/env python3
"""A job of mixed lengths run whole, against the same engine run in static batches.

    static_batches.py --tpinfer build/bin/tpinfer MODEL_DIR [MODEL_DIR ...]

64 prompts of 16 to 256 ids with 16 to 128 new tokens each, fixed seed. A static batch takes the next prompts in order of
the file and is over when its longest answer is:
  padded   as programs that hold one tensor for the batch: every prompt has the length of the longest one, every row is
           computed until the longest answer is done
  drained  rows leave when they are done, but none joins until the batch is over
Time is from the first prompt queued to the last one finished, without loading; of batches, the sum. Runs take turns;
prints medians and the median of the ratios of neighbours. Throughput counts the tokens that the job asks for. Needs h5py.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import tempfile

import h5py

from bench_job import run_job

PROMPTS, SEED = 64, "job-7"


def mixed_job(vocab):
    """-> [(ids, new tokens)]"""
    rng = random.Random(SEED)
    lengths = [(rng.randint(16, 256), rng.randint(16, 128)) for _ in range(PROMPTS)]
    return [([rng.randrange(3, vocab) for _ in range(n)], new) for n, new in lengths]


def padded(batch, vocab):
    """All as long as the longest; what is filled in is random, so that nobody shares it."""
    rng = random.Random(len(batch))
    longest, most = max(len(ids) for ids, _ in batch), max(new for _, new in batch)
    return [([rng.randrange(3, vocab) for _ in range(longest - len(ids))] + ids, most) for ids, _ in batch]


def seconds(args, model, prompts, at_once, folder):
    with h5py.File(run_job(args, model, prompts, {"max_num_seqs": at_once}, folder)) as h:
        return float(h["results/t_finished"][:].max() - h["results/t_queued"][:].min())


def time_of(args, model, way, batch, vocab, folder):
    """Seconds of the whole job, run one way."""
    prompts = mixed_job(vocab)
    if way == "whole":
        return seconds(args, model, prompts, 256, folder)
    batches = [prompts[i:i + batch] for i in range(0, len(prompts), batch)]
    return sum(seconds(args, model, padded(b, vocab) if way == "padded" else b, batch, folder) for b in batches)


def measure(args, model):
    vocab = json.loads((model / "config.json").read_text())["vocab_size"]
    tokens = sum(new for _, new in mixed_job(vocab))
    ways = [(way, int(b)) for b in args.batches.split(",") for way in args.ways.split(",")]
    times = {way: [] for way in [("whole", 0), *ways]}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.repeats):
            for way in times:
                times[way].append(time_of(args, model, *way, vocab, pathlib.Path(folder)))
    for (way, batch), found in times.items():
        ratios = [other / whole for whole, other in zip(times["whole", 0], found)]
        name = "whole job" if way == "whole" else f"batches of {batch}, {way}"
        print(f"| {model.name} | {name} | {statistics.median(found):.1f} | {tokens / statistics.median(found):.1f} | "
              f"{statistics.median(ratios):.2f} | {min(ratios):.2f} .. {max(ratios):.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL_DIR")
    parser.add_argument("--tpinfer", default=os.environ.get("TPINFER", "tpinfer"))
    parser.add_argument("--batches", default="8,16", help="prompts of a static batch")
    parser.add_argument("--ways", default="padded,drained")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of all ranks together")
    args = parser.parse_args()
    print("| model | run | s | tokens/s | time / whole | range |\n|---|---|---|---|---|---|")
    for model in args.models:
        measure(args, model.resolve())


if __name__ == "__main__":
    main()
