"""Base of tests that run models made from those in tests/data/models."""
import json
import unittest

import jobs
import numpy as np
from model_maker import Model

LLAMA, UNEVEN, TIED = "tiny-llama", "rand-llama-uneven", "rand-llama-tied"
MIXTRAL, QWEN_MOE = "tiny-mixtral", "tiny-qwen2-moe"
MULTI_QUERY, MULTI_HEAD = "rand-gpt-bigcode-mqa-odd", "rand-gpt-bigcode-mha"
PROMPTS = [[5, 17, 200, 33, 9, 250, 41, 6, 77, 102, 3], [8, 90, 12], [60]]
REFERENCES = {}


class Variants(unittest.TestCase):
    """Tests that run models made from others."""

    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)

    def model(self, name):
        return Model(jobs.MODELS / name)

    def write(self, model, name="model", **how):
        return model.write(self.place.path / name, **how)

    def run_it(self, ranks, folder, prompts=PROMPTS, want=0, dtype="float32", new=6, **params):
        records = [{"id": str(i), "token_ids": ids, "params": {"max_new_tokens": new, "logprobs": 3, "prompt_logprobs": 2, **params}}
                   for i, ids in enumerate(prompts)]
        return self.place.run(ranks, folder, records, want=want, model={"dtype": dtype})

    def reference(self, name):
        """The answer of an unchanged model on one rank; found once."""
        if name not in REFERENCES:
            REFERENCES[name] = self.run_it(1, name)
        return REFERENCES[name]

    def parity(self, folder, ranks=(1, 2, 4), **how):
        """Runs on each rank count; -> the one answer of all."""
        want = self.run_it(ranks[0], folder, **how)
        for n in ranks[1:]:
            self.assertTrue(jobs.same_bits(want, self.run_it(n, folder, **how)), f"{n} ranks differ from {ranks[0]}")
        return want

    def differ(self, a, b):
        self.assertFalse(jobs.same_bits(a, b), "the change has no effect, so this test could not fail")

    def plan(self, folder, ranks, want=0):
        r = jobs.start(0, "plan", str(folder), "--ranks", str(ranks), "--json", "--tensors")
        self.assertEqual(r.returncode, want, r.stderr)
        return json.loads(r.stdout) if want == 0 else r.stderr

    def slices(self, plan, name):
        """-> split of the tensor, [(start, count) along each axis] of every rank"""
        tensor = next(t for t in plan["tensors"] if t["name"] == name)
        ranks = [[] for _ in plan["ranks"]]
        for s in tensor["slices"]:
            ranks[s["rank"]].append((s["start"], s["count"]))
        return tensor["split"], ranks

    def refused(self, folder, words, code=3, ranks=(1, 3)):
        for n in ranks:
            r = self.run_it(n, folder, want=code)
            complaints = [l for l in r.stderr.splitlines() if "tpinfer: error:" in l]
            self.assertEqual(len(complaints), 1, r.stderr)
            for word in words:
                self.assertIn(word, complaints[0])

    def result(self):
        return jobs.h5py.File(self.place.path / "a.h5")
