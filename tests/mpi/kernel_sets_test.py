#!/usr/bin/env python3
"""Ranks whose processors have different kernels compute with the best set that every one of them has."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

SETS = ["scalar", "avx2", "avx512", "avx512-bf16"]
RECORDS = [{"id": str(i), "token_ids": ids, "params": {"max_new_tokens": 8, "logprobs": 2, **params}}
           for i, (ids, params) in enumerate([([5, 17, 200, 33, 9], {}), ([8, 90], {"prompt_logprobs": 1}),
                                              (list(range(3, 60)), {"temperature": 0.9, "seed": 4})])]
NO_FORCE = {k: v for k, v in jobs.ENV.items() if k != "TPINFER_ISA"}


def usable(kernel_set):
    with jobs.Workplace() as w:
        job = w.job("rand-llama-tied", [{"id": "0", "token_ids": [1], "params": {"max_new_tokens": 1}}])
        return jobs.start(0, "run", job, "--progress", "none", env={"TPINFER_ISA": kernel_set}).returncode == 0


HERE = [s for s in SETS if usable(s)]


class KernelSets(unittest.TestCase):
    def launch(self, place, sets, dtype="float32"):
        """Runs with one rank for each entry of `sets`, which it is forced to ("": not forced)."""
        job = place.job("tiny-llama", RECORDS, model={"dtype": dtype})
        words = ["mpirun", "--oversubscribe", "--bind-to", "none"]
        for i, kernel_set in enumerate(sets):
            words += [":"] if i else []
            words += ["-np", "1", *(["-x", f"TPINFER_ISA={kernel_set}"] if kernel_set else []), jobs.TPINFER, "run", job, "--progress", "none"]
        return subprocess.run(words, env=NO_FORCE, capture_output=True, text=True, timeout=120)

    def run_forced(self, place, sets, dtype="float32"):
        r = self.launch(place, sets, dtype)
        self.assertEqual(r.returncode, 0, r.stderr)
        with jobs.h5py.File(place.path / "a.h5") as h:
            return h.attrs["kernel_set"], int(h.attrs["numeric_version"])

    def diff(self, a, b):
        r = jobs.start(0, "diff", str(a.path / "a.h5"), str(b.path / "a.h5"), "--json")
        self.assertIn(r.returncode, (0, 1), r.stderr)
        return json.loads(r.stdout)

    def test_the_least_of_all_ranks_is_taken(self):
        if len(HERE) < 2:
            self.skipTest("this processor has one kernel set only")
        least, middle, best = HERE[0], HERE[1], HERE[-1]
        for dtype in ("float32", "bfloat16"):
            for sets in ([middle, best], [best, middle], [least, best], [best, least, middle], [best, ""]):
                with self.subTest(dtype=dtype, sets=sets), jobs.Workplace() as mixed, jobs.Workplace() as plain:
                    stored, _ = self.run_forced(mixed, sets, dtype)
                    if "" not in sets:
                        self.assertEqual(stored, min(sets, key=SETS.index))
                    self.assertEqual(self.run_forced(plain, [stored], dtype)[0], stored)
                    found = self.diff(mixed, plain)
                    self.assertTrue(found["same"], json.dumps(found, indent=1))
                    self.assertEqual(found["notes"], [])

    def test_sets_do_differ(self):
        """Without agreement the ranks would compute different numbers: each set has an order of its own."""
        if len(HERE) < 2:
            self.skipTest("this processor has one kernel set only")
        with jobs.Workplace() as a, jobs.Workplace() as b:
            self.assertEqual(self.run_forced(a, [HERE[0]])[1], self.run_forced(b, [HERE[1]])[1], "one numeric version")
            found = self.diff(a, b)
            self.assertFalse(found["same"])
            self.assertEqual(found["notes"], [f"the kernel set differs: {HERE[0]} | {HERE[1]}"])

    def test_a_rank_that_is_forced_to_what_there_is_not(self):
        wrong = ["avx1024"] + [s for s in SETS if s not in HERE][:1]
        for kernel_set in wrong:
            for sets in ([HERE[0], kernel_set], [kernel_set, HERE[0], HERE[0]]):
                with self.subTest(sets=sets), jobs.Workplace() as place:
                    r = self.launch(place, sets)
                    self.assertEqual(r.returncode, 2, r.stderr)
                    complaints = [l for l in r.stderr.splitlines() if "tpinfer: error:" in l]
                    self.assertEqual(len(complaints), 1, r.stderr)
                    self.assertIn(kernel_set, complaints[0])
                    self.assertIn("TPINFER_ISA", complaints[0])
                    self.assertFalse(os.path.exists(place.path / "a.h5"))


if __name__ == "__main__":
    unittest.main()
