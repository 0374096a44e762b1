#!/usr/bin/env python3
"""The same bits for any ranks, replicas, threads, batch, chunk, block, cache, order and company, by `tpinfer diff` against one
plain run.

Without options a set of runs in which each pair of settings occurs together at least once; with TPINFER_LONG_TESTS=1 each
pair of settings occurs with each model and type; with --all every run that there is (hours).
"""
import itertools
import json
import os
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

MODELS = {"tiny-llama": 8, "tiny-mixtral": 8, "tiny-qwen2-moe": 4, "tiny-gpt-bigcode": 8}  # query heads: as many ranks at most
SETTINGS = {
    "model": list(MODELS),
    "dtype": ["float32", "bfloat16", "float16"],
    "ranks": [1, 2, 3, 4, 6, 8],
    "threads": [1, 2],
    "max_num_seqs": [1, 3, 256],
    "max_num_batched_tokens": [16, 100, 2048],
    "kv_block_size": [16, 32, 128],
    "prompts": ["all", "reversed", "some"],
    "replicas": [1, 2],
    "prefix_sharing": [True, False],
    "samples": ["several", "one"],
    "cache": ["auto", "tight"],  # tight: the longest sequence alone just fits, the others wait or are put back
}
PLAIN = {"ranks": 1, "threads": 1, "max_num_seqs": 256, "max_num_batched_tokens": 2048, "kv_block_size": 16, "prompts": "all",
         "replicas": 1, "prefix_sharing": True, "samples": "several", "cache": "auto"}
LONGEST = 128  # tokens of prompt and answer, in whole blocks of any size
ALL = "--all" in sys.argv
LONG = os.environ.get("TPINFER_LONG_TESTS") == "1"


def possible(run):
    return run["ranks"] % run["replicas"] == 0 and run["ranks"] // run["replicas"] <= MODELS[run["model"]]


def every_run():
    runs = (dict(zip(SETTINGS, values)) for values in itertools.product(*SETTINGS.values()))
    return [r for r in runs if possible(r)]


def groups_of(run, together):
    """What a run covers: each pair of settings, in the company of those in `together`."""
    company = tuple(run[k] for k in together)
    free = [k for k in SETTINGS if k not in together]
    return {(company, a, run[a], b, run[b]) for a, b in itertools.combinations(free, 2)}


def covering_runs(together):
    """Few runs that cover all that every_run() covers; greedy, the same at every call."""
    draw = random.Random(1)
    runs = every_run()
    wanted = {g: None for r in runs for g in sorted(groups_of(r, together), key=str)}  # a dict keeps the order
    chosen = []
    while wanted:
        company, a, x, b, y = next(iter(wanted))
        fixed = {a: x, b: y, **dict(zip(together, company))}
        tries = [{k: fixed.get(k, draw.choice(v)) for k, v in SETTINGS.items()} for _ in range(60)]
        best = max(filter(possible, tries), key=lambda r: sum(g in wanted for g in groups_of(r, together)), default=None)
        if best is None:
            continue
        chosen.append(best)
        for g in groups_of(best, together):
            wanted.pop(g, None)
    return chosen


def prompts_of(model):
    """Prompts of 1 to 90 tokens, some with a beginning in common; greedy and drawn, with all that shapes a distribution."""
    draw = random.Random(7)
    ids = lambda n: [draw.randrange(3, 1900) for _ in range(n)]
    shared = ids(35)
    drawn = {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.1, "presence_penalty": 0.2,
             "frequency_penalty": 0.1, "no_repeat_ngram_size": 3, "logit_bias": {"13": -1.0}, "seed": 3}
    lists = [ids(n) for n in (1, 2, 15, 16, 17, 33, 90)] + [shared, shared + ids(3), shared + ids(20)]
    return [{"id": f"{model} {i}", "token_ids": tokens,
             "params": {"max_new_tokens": 3 + 4 * (i % 4), "n": 3 if i % 4 == 1 else 1, "logprobs": i % 4, **({"prompt_logprobs": 2} if i % 3 == 0 else {}),
                        **(drawn if i % 2 else {"temperature": 0})}}
            for i, tokens in enumerate(lists)]


class SameAnswers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.places = {}

    @classmethod
    def tearDownClass(cls):
        for place in cls.places.values():
            place.dir.cleanup()

    def answers(self, place, run):
        """-> the result file of a run, its answers, samples of these prompts that it was not asked for"""
        records = prompts_of(run["model"])
        if run["prompts"] == "reversed":
            records.reverse()
        if run["prompts"] == "some":
            records = records[1::2]
        samples = sum(r["params"]["n"] for r in records)
        if run["samples"] == "one":
            for record in records:
                record["params"]["n"] = 1
        place.run(run["ranks"], run["model"], records, model={"dtype": run["dtype"]},
                  parallel={"threads": run["threads"], "data_parallel_size": run["replicas"]},
                  engine={k: run[k] for k in ("max_num_seqs", "max_num_batched_tokens", "kv_block_size", "prefix_sharing")},
                  memory={"kv_cache": f"{LONGEST} tokens"} if run["cache"] == "tight" else {})
        answers = sum(r["params"]["n"] for r in records)
        return place.path / "a.h5", answers, samples - answers

    def plain(self, model, dtype):
        """The file to compare with; made once."""
        if (model, dtype) not in self.places:
            place = self.places[model, dtype] = jobs.Workplace()
            self.answers(place, {"model": model, "dtype": dtype, **PLAIN})
        return self.places[model, dtype].path / "a.h5"

    def compare(self, a, b, answers, left_out=0):
        r = jobs.start(0, "diff", str(a), str(b), "--common", "--json")
        self.assertIn(r.returncode, (0, 1), r.stderr)
        found = json.loads(r.stdout)
        self.assertEqual(found["answers"], answers, "answers are missing")
        self.assertEqual(found["counts"].pop("only_in_a", 0), left_out)
        return found

    def test_any_run_gives_the_answers_of_a_plain_one(self):
        runs = every_run() if ALL else covering_runs(("model", "dtype") if LONG else ())
        print(f"{len(runs)} runs", flush=True)
        for run in runs:
            with self.subTest(**run), jobs.Workplace() as place:
                file, answers, left_out = self.answers(place, run)
                found = self.compare(self.plain(run["model"], run["dtype"]), file, answers, left_out)
                self.assertEqual(sum(found["counts"].values()), 0, json.dumps(found, indent=1))
                self.assertEqual(found["notes"], [], "a note means that another thing was compared")

    def test_the_runs_cover_every_pair(self):
        covered = set().union(*(groups_of(r, ()) for r in covering_runs(())))
        self.assertEqual(covered, set().union(*(groups_of(r, ()) for r in every_run())))

    def test_other_arithmetic_is_noticed(self):
        """The comparison can fail: the scalar kernels add in another order."""
        with jobs.Workplace() as place:
            records = prompts_of("tiny-llama")
            place.run(1, "tiny-llama", records, env={"TPINFER_ISA": "scalar"}, model={"dtype": "float32"}, parallel={"threads": 1})
            plain = self.plain("tiny-llama", "float32")
            found = self.compare(plain, place.path / "a.h5", sum(r["params"]["n"] for r in records))
            self.assertFalse(found["same"])
            self.assertGreater(found["counts"]["logprobs"], 0)
            self.assertLess(found["largest_logprob_difference"], 1e-3)


if __name__ == "__main__":
    unittest.main(argv=[a for a in sys.argv if a != "--all"])
