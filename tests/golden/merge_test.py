#!/usr/bin/env python3
"""`tpinfer merge`: results of parts of a job become the result of the whole; contradictions and other runs are refused."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

MODEL = "tiny-llama"
RECORDS = [{"id": f"q{i}", "token_ids": [5 + i, 17, 200, 33 + i], "params": {"max_new_tokens": 3 + 2 * i, "n": 1 + i % 2, "logprobs": i % 3}} for i in range(9)]
RECORDS.insert(4, {"id": "bad", "token_ids": [999999]})


class Merge(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)

    def part(self, name, records, want=0, **more):
        job = pathlib.Path(self.place.job(more.pop("folder", MODEL), records, **more))
        text = json.loads(job.read_text())
        text["output"]["file"] = name
        job.write_text(json.dumps(text))
        r = jobs.start(0, "run", str(job), "--progress", "none")
        self.assertEqual(r.returncode, want, r.stderr)
        return str(self.place.path / name)

    def merge(self, *words):
        return jobs.start(0, "merge", *words, "-o", str(self.place.path / "all.h5"))

    def same(self, a, b):
        r = jobs.start(0, "diff", a, b)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_parts_become_the_whole(self):
        whole = self.part("whole.h5", RECORDS, want=5)
        parts = [self.part(f"part{k}.h5", RECORDS, want=5 if k == 1 else 0, prompts={"select": {"offset": 4 * k, "limit": 4}}) for k in range(3)]
        r = self.merge(*parts)
        self.assertEqual(r.returncode, 0, r.stderr)
        merged = str(self.place.path / "all.h5")
        self.same(whole, merged)
        with jobs.h5py.File(merged) as h:
            self.assertEqual(h.attrs["state"], "complete")
            self.assertEqual(sorted(h["prompts/id"].asstr()[:]), sorted(r["id"] for r in RECORDS))
            self.assertEqual(len(h["attempts/start"]), 3)
            index, sample = h["results/prompt_index"][:], h["results/sample_index"][:]
            self.assertEqual(list(zip(index, sample)), sorted(zip(index, sample)))
            self.assertTrue(any("merged from" in m for m in h["events/message"].asstr()[:]))
        again = self.merge(*parts)
        self.assertEqual(again.returncode, 7, again.stderr)
        self.assertEqual(self.merge(*parts, "--overwrite").returncode, 0)

    def test_what_several_parts_have_must_be_equal(self):
        a = self.part("a.h5", RECORDS[:3])
        b = self.part("b.h5", RECORDS[2:4])
        r = self.merge(a, b)
        self.assertEqual(r.returncode, 0, r.stderr)
        with jobs.h5py.File(self.place.path / "all.h5") as h:
            self.assertEqual(h["prompts/id"].asstr()[:].tolist(), ["q0", "q1", "q2", "q3"])
        other = self.part("other.h5", [{**RECORDS[2], "token_ids": [9, 9, 9]}])
        r = self.merge(a, other, "--overwrite")
        self.assertEqual(r.returncode, 3, r.stderr)
        self.assertIn("'q2' differs", r.stderr)
        with jobs.h5py.File(self.place.path / "all.h5") as h:  # untouched
            self.assertEqual(len(h["prompts/id"]), 4)

    def test_other_runs_are_refused(self):
        a = self.part("a.h5", RECORDS[:2])
        for name, more, word in (("dtype.h5", {"model": {"dtype": "bfloat16"}}, "bfloat16"), ("model.h5", {"folder": "tiny-mixtral"}, "model")):
            r = self.merge(a, self.part(name, RECORDS[2:4], **more))
            self.assertEqual(r.returncode, 3, r.stderr)
            self.assertIn(word, r.stderr)
        r = self.merge(a, str(self.place.path / "nowhere.h5"))
        self.assertEqual(r.returncode, 3)
        self.assertIn("nowhere.h5", r.stderr)


if __name__ == "__main__":
    unittest.main()
