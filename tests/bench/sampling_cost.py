#!/usr/bin/env python3
"""Milliseconds of a decode step and of its sampling, for large vocabularies and many rows.

    sampling_cost.py --tpinfer build/bin/tpinfer [--tpinfer other/bin/tpinfer ...]

A model that does little else (hidden size 64, one layer) answers 64 prompts at once; of each way of sampling the time of a
step and what rank 0 sampled of it, the binaries in turn, medians. Needs h5py and numpy.
"""
import argparse
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402
import model_maker  # noqa: E402

ROWS, NEW = 64, 24
WAYS = {"greedy": {"temperature": 0}, "temperature 1": {"temperature": 1}, "top_k 50": {"temperature": 1, "top_k": 50},
        "top_p 0.95": {"temperature": 1, "top_p": 0.95}, "5 logprobs": {"temperature": 0, "logprobs": 5}}


def measure(binary, place, model, ranks, params):
    """-> milliseconds of a step, of its sampling on rank 0"""
    records = [{"id": str(i), "token_ids": [5 + i, 7, 9], "params": {"max_new_tokens": NEW, "seed": i, **params}} for i in range(ROWS)]
    jobs.TPINFER = binary
    place.run(ranks, model, records, parallel={"threads": 1})
    with jobs.h5py.File(place.path / "a.h5") as h:
        t = h["steps/t"][:]
        rows = h["steps/sequences"][:] == ROWS
        steps = [b - a for a, b, full in zip(t, t[1:], rows[1:]) if full]
        return 1e3 * statistics.median(steps), 1e3 * float(h["ranks/time/sampling"][0]) / len(t)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpinfer", action="append")
    parser.add_argument("--vocabularies", default="32000,152000")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    binaries = args.tpinfer or [os.environ.get("TPINFER", "tpinfer")]
    print("| vocabulary | ranks | sampling | binary | step, ms | of it sampling on rank 0, ms |\n|---|---|---|---|---|---|")
    for vocab in map(int, args.vocabularies.split(",")):
        with jobs.Workplace() as place:
            sizes = dict(vocab_size=vocab, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4)
            model = model_maker.random_llama(jobs.MODELS / "tiny-llama", **sizes)
            model.with_tokenizer = False
            folder = model.write(place.path / "model")
            for ranks in map(int, args.ranks.split(",")):
                for way, params in WAYS.items():
                    found = {b: [] for b in binaries}
                    for _ in range(args.repeats):
                        for b in binaries:
                            found[b].append(measure(b, place, folder, ranks, params))
                    for b in binaries:
                        step, sampling = (statistics.median(column) for column in zip(*found[b]))
                        print(f"| {vocab} | {ranks} | {way} | {pathlib.Path(b).name} | {step:.2f} | {sampling:.2f} |", flush=True)


if __name__ == "__main__":
    main()
