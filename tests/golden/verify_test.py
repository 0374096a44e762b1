#!/usr/bin/env python3
"""`tpinfer verify`: sound results of 1 and 2 ranks and of a job array pass; damage, gaps and weights that differ from the plan are named (exit code 3)."""
import json
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np

RECORDS = [{"id": f"q{i}", "token_ids": [5 + i, 17, 200], "params": {"max_new_tokens": 4, "n": 1 + i % 2}} for i in range(4)]


def verify(file, want):
    r = jobs.start(0, "verify", str(file), "--json")
    if r.returncode != want:
        raise AssertionError(f"exit {r.returncode}, wanted {want}: {r.stdout}{r.stderr}")
    report = json.loads(r.stdout)
    assert report["sound"] == (want == 0)
    return [c["message"] for c in report["checks"] if c["ok"] != (want != 0)]


class Verify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = jobs.Workplace().__enter__()
        cls.place.run(2, "rand-qwen2-moe-mixed", RECORDS)
        cls.file = cls.place.path / "two.h5"
        shutil.copy(cls.place.path / "a.h5", cls.file)

    @classmethod
    def tearDownClass(cls):
        cls.place.__exit__()

    def edited(self, edit):
        """-> the complaints about the file after `edit`, as another program makes it."""
        copy = self.place.path / "edited.h5"
        shutil.copy(self.file, copy)
        with jobs.h5py.File(copy, "r+") as h:
            edit(h)
        return verify(copy, 3)

    def test_sound(self):
        held = verify(self.file, 0)
        for words in ("match its checksum", "complete: 4 prompts: 4 answered", "6 answers", "loaded = planned on 2 ranks", "one checksum"):
            self.assertTrue(any(words in line for line in held), (words, held))
        text = jobs.start(0, "verify", str(self.file)).stdout
        self.assertEqual((text.count("[OK]"), text.count("[FAIL]")), (len(held), 0))
        self.assertTrue(text.endswith("two.h5: sound\n"))

    def test_other_families_and_forms(self):
        for model in ("tiny-gpt-bigcode", "tiny-llama", "rand-qwen2-moe-wide"):
            with jobs.Workplace() as place:
                place.run(0, model, RECORDS[:2])
                verify(place.path / "a.h5", 0)
        with jobs.Workplace() as place:  # replicas, and random weights
            place.run(2, "tiny-llama", RECORDS[:2], parallel={"data_parallel_size": 2}, model={"load_format": "dummy"})
            verify(place.path / "a.h5", 0)

    def test_merged(self):
        parts = []
        with jobs.Workplace() as place:
            for i in range(2):
                place.run(0, "tiny-llama", RECORDS[2 * i:2 * i + 2])
                parts.append(str(shutil.copy(place.path / "a.h5", place.path / f"part{i}.h5")))
            merged = place.path / "all.h5"
            self.assertEqual(jobs.start(0, "merge", *parts, "-o", str(merged)).returncode, 0)
            self.assertTrue(any("4 prompts: 4 answered" in line for line in verify(merged, 0)))

    def test_failed_prompts_are_told_and_sound(self):
        with jobs.Workplace() as place:
            place.run(0, "tiny-llama", [*RECORDS[:1], {"id": "bad", "prompt": 5}], want=5)
            self.assertTrue(any("1 answered, 1 failed" in line for line in verify(place.path / "a.h5", 0)))

    def test_damaged_cut_and_missing(self):
        data = bytearray(self.file.read_bytes())
        data[len(data) // 2] ^= 1
        broken = self.place.path / "broken.h5"
        broken.write_bytes(data)
        self.assertIn("do not match its checksum", verify(broken, 3)[0])
        broken.write_bytes(self.file.read_bytes()[:5000])
        self.assertIn("broken.h5", verify(broken, 3)[0])
        self.assertIn("No such file", verify(self.place.path / "absent.h5", 3)[0])

    def test_a_job_that_was_killed(self):
        with jobs.Workplace() as place:
            slow = [{**r, "params": {"max_new_tokens": 400, "n": 64}} for r in RECORDS]
            job = place.job("tiny-llama", slow, engine={"max_num_seqs": 2}, output={"flush_every": {"prompts": 1, "seconds": 1}})
            process = subprocess.Popen(jobs.command(0, job, "--progress", "none"), env=jobs.ENV, stderr=subprocess.DEVNULL)
            journal = place.path / "a.h5.journal"
            end = time.monotonic() + 60
            while time.monotonic() < end and not (journal.exists() and journal.stat().st_size > 4000):
                time.sleep(0.05)
            running = verify(place.path / "a.h5", 3)
            process.kill()
            process.wait()
            self.assertEqual(len(running), 1)
            self.assertIn("not complete (state partial)", running[0])
            self.assertIn("not complete (state partial)", verify(journal, 3)[0])

    def test_not_complete(self):
        def make_partial(h):
            h.attrs["state"] = "partial"
        self.assertIn("not complete (state partial)", self.edited(make_partial)[0])

        def forget(h):
            h["prompts/status"][1] = 3
        self.assertIn("1 not reached", self.edited(forget)[0])

    def test_answers_that_are_not_there(self):
        def drop_sample(h):
            h["results/sample_index"][2] = 2
        self.assertIn("prompt q1 lacks its answer number 1", self.edited(drop_sample)[0])

        def blame(h):
            h["prompts/status"][0] = 1
        self.assertIn("prompt q0 is failed and does not say why", self.edited(blame)[0])

    def test_log_probabilities(self):
        def positive(h):
            h["results/logprobs"][3] = 0.5
        self.assertIn("answer 0 of prompt q0 has the log probability 0.5", self.edited(positive)[0])

        def sum_differs(h):
            h["results/cumulative_logprob"][1] -= 1
        self.assertIn("answer 0 of prompt q1: its log probabilities add up to", self.edited(sum_differs)[0])

    def test_plan_with_a_gap(self):
        def cut(h):
            counts = h["plan/slices/count"]
            rows = np.flatnonzero(h["plan/slices/start"][:] > 0)
            counts[rows[0]] -= 1
        self.assertTrue(any(line.startswith("no rank holds") for line in self.edited(cut)))

    def test_loaded_is_not_planned(self):
        def too_much(h):
            h["ranks/weights/bytes_owned"][1] += 1 << 30
        self.assertIn("rank 1: it owns", self.edited(too_much)[0])

        def too_little(h):
            h["ranks/weights/bytes_owned"][0] = 1000
        self.assertIn("rank 0: it owns 1000 B of weights,", self.edited(too_little)[0])

        def of_a_class(h):
            column = h["ranks/weights/owned_by_class"]
            column[0, int(np.argmax(h["ranks/weights/planned_by_class"][0]))] = 0
        self.assertIn("rank 0: it owns 0 B of ", self.edited(of_a_class)[0])

        def one_less(h):
            h["ranks/weights/n_tensors"][1] -= 1
        self.assertIn("rank 1: it loaded", self.edited(one_less)[0])

        def other_bytes(h):
            h["ranks/weights/checksum"][1] = np.uint64(7)
        self.assertIn("rank 1 has another checksum", self.edited(other_bytes)[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
