#!/usr/bin/env python3
"""memory.on_no_fit: shrink: a job that does not fit gets a smaller engine, says so, and gives the answers of the large one."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

MODEL = "tiny-llama"
RECORDS = [{"id": str(i), "token_ids": list(range(5, 5 + n)), "params": {"max_new_tokens": 8}} for i, n in enumerate([3, 30, 7, 300, 11, 90])]


class Shrink(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)
        self.shrink = ["memory.on_no_fit=shrink"]

    def needed(self, *sets, records=RECORDS, more_blocks=0):
        """Bytes of the largest rank of two, where there is no room at all; with a cache of so many blocks more."""
        words = [w for s in sets for w in ("--set", s)]
        r = jobs.start(0, "plan", self.place.job(MODEL, records), "--ranks", "2", "--memory", "1kB", "--json", *words)
        self.assertEqual(r.returncode, 4, r.stderr)
        return max(rank["total_bytes"] + more_blocks * rank["kv_cache_bytes"] for rank in json.loads(r.stdout)["ranks"])

    def run_it(self, memory, *sets, want=0, records=RECORDS):
        got = self.place.run(2, MODEL, records, sets=[f"memory.cpu_memory_limit={memory}", *sets], want=want)
        if want in (0, 5):
            with jobs.h5py.File(self.place.path / "a.h5") as h:
                got["messages"] = [m for m in h["events/message"].asstr()[:] if "on_no_fit" in m]
                got["job"] = h["job/resolved"].asstr()[()]
                bytes_planned = h["plan/memory/bytes"][:].sum(axis=1)
            self.assertLessEqual(bytes_planned.max(), memory)
        return got

    def test_fewer_rows_or_sequences(self):
        """Too little for all rows at once, enough for some of them."""
        whole, few = self.needed(), self.needed("engine.max_num_batched_tokens=128")
        self.assertGreater(whole, few)
        self.assertIn("(set engine.max_num_batched_tokens: ", self.run_it(few, want=4).stderr)
        got = self.run_it(few, *self.shrink)
        self.assertEqual(len(got["messages"]), 1)
        self.assertRegex(got["messages"][0], r"is shrunk: engine.max_num_(batched_tokens|seqs) is \d+ instead of \d+ \(memory.on_no_fit\)")
        key, value = got["messages"][0].split("engine.")[1].split(" instead")[0].split(" is ")
        self.assertIn(f"  {key}: {value}\n", got["job"])
        self.assertIn("on_no_fit: shrink", got["job"])
        self.assertTrue(jobs.same_bits(self.place.run(2, MODEL, RECORDS), got), "a smaller engine answers the same")

    def test_what_fits_is_left_alone(self):
        got = self.run_it(self.needed(), *self.shrink)
        self.assertEqual(got["messages"], [])
        self.assertIn("max_num_batched_tokens: 2048", got["job"])

    def test_shorter_sequences_and_the_rows_that_cannot_be(self):
        least = ["engine.max_num_batched_tokens=64", "engine.max_num_seqs=1"]
        small = self.needed(*least, "engine.max_model_len=256")
        self.assertGreater(self.needed(*least), small)
        got = self.run_it(small, *self.shrink, want=5)
        self.assertIn("engine.max_model_len is ", got["messages"][0])
        self.assertEqual(got["status"], [0, 0, 0, 1, 0, 0])
        self.assertIn("the prompt has 300 tokens, but memory is enough for ", got["error"][3])
        r = jobs.start(0, "check", str(self.place.path / "job.json"), "--ranks", "2", "--set", f"memory.cpu_memory_limit={small}", "--set", self.shrink[0])
        self.assertEqual(r.returncode, 5, r.stderr)
        self.assertIn("is shrunk: ", r.stderr)
        r = jobs.start(0, "plan", str(self.place.path / "job.json"), "--ranks", "2", "--set", f"memory.cpu_memory_limit={small}", "--set", self.shrink[0])
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("on 2 ranks the job is shrunk to fit: ", r.stderr)

    def test_a_smaller_cache_than_was_asked_for(self):
        small = self.needed("memory.kv_cache=16 tokens", records=RECORDS[:3], more_blocks=3)
        got = self.run_it(small, *self.shrink, "memory.kv_cache=4096 tokens", records=RECORDS[:3])
        with jobs.h5py.File(self.place.path / "a.h5") as h:
            told = [m for m in h["events/message"].asstr()[:] if "kv_cache" in m]
        self.assertRegex(told[0], r"memory.kv_cache asks for \d+ tokens that can be of use, but there is memory for 64$")
        self.assertIn("  kv_cache: 64\n", got["job"])
        self.assertTrue(jobs.same_bits(self.place.run(2, MODEL, RECORDS[:3]), got))

    def test_weights_cannot_shrink(self):
        self.assertIn("the job does not fit: rank 0 needs ", self.run_it(100_000, *self.shrink, want=4).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
