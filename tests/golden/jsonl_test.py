#!/usr/bin/env python3
"""output.jsonl: the rows of the result file as lines beside it, whole or not there, made again by the same command."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

MODEL = "rand-llama-tied"
RECORDS = [{"id": f"p{i}", "token_ids": [5, 6, 7 + i], "params": {"max_new_tokens": 3, "n": 1 + i % 2, "temperature": 1, "seed": i}, "meta": {"i": i}} for i in range(5)]
BAD = {"id": "bad", "token_ids": [1], "params": {"top_q": 1}}


class JsonLines(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)
        self.lines, self.result = self.place.path / "a.jsonl", self.place.path / "a.h5"

    def run_it(self, ranks=1, want=0, records=RECORDS, env=None, jsonl="a.jsonl", sets=(), **output):
        job = self.place.job(MODEL, records, output={"jsonl": jsonl, "if_exists": "resume", **output})
        r = jobs.start(ranks, "run", job, "--progress", "none", *[w for s in sets for w in ("--set", s)], env=env)
        self.assertEqual(r.returncode, want, r.stderr)
        return r.stderr

    def exported(self):
        r = jobs.start(0, "export", str(self.result), "--format", "jsonl")
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_the_lines_are_those_of_export(self):
        self.run_it(2, want=5, records=[*RECORDS, BAD])
        self.assertEqual(self.lines.read_text(), self.exported())
        rows = [json.loads(line) for line in self.lines.read_text().splitlines()]
        self.assertEqual([(r["id"], r["sample_index"]) for r in rows], [(f"p{i}", s) for i in range(5) for s in range(1 + i % 2)] + [("bad", None)])
        self.assertEqual(rows[0]["meta"], {"i": 0})
        self.assertIn("top_q", rows[-1]["error"])
        self.assertEqual(sorted(p.name for p in self.place.path.iterdir()), ["a.h5", "a.jsonl", "job.json", "p.jsonl"])

    def test_more_prompts_are_more_lines(self):
        self.run_it(records=RECORDS[:2])
        first = self.lines.read_text()
        self.run_it(2)
        self.assertTrue(self.lines.read_text().startswith(first))
        self.assertEqual(self.lines.read_text(), self.exported())

    def test_lost_lines_are_made_again_without_computing(self):
        self.run_it()
        want, blob = self.lines.read_text(), self.result.read_bytes()
        before = os.stat(self.lines).st_mtime_ns
        self.run_it()
        self.assertEqual(os.stat(self.lines).st_mtime_ns, before, "what is there is left alone")
        self.lines.unlink()
        self.assertIn("nothing to do", self.run_it(2))
        self.assertEqual(self.lines.read_text(), want)
        self.lines.write_text("older\n")  # as after a kill between the two
        os.utime(self.lines, (1, 1))
        self.run_it()
        self.assertEqual(self.lines.read_text(), want)
        self.assertEqual(self.result.read_bytes(), blob)

    def test_a_disk_that_fails_costs_no_answer(self):
        shim = os.environ.get("TPINFER_FAIL_WRITES")
        if not shim:
            self.skipTest("TPINFER_FAIL_WRITES does not name the library")
        err = self.run_it(want=7, env={"LD_PRELOAD": shim, "TPINFER_FAIL": "sync:a.jsonl.part:0"})
        self.assertIn("a.jsonl", err)
        self.assertEqual((self.lines.exists(), self.result.exists()), (False, True))
        blob = self.result.read_bytes()
        self.run_it()
        self.assertEqual((self.lines.read_text(), self.result.read_bytes()), (self.exported(), blob))

    def test_places_that_are_refused_before_loading(self):
        for jsonl, code, words in (("a.h5", 2, "is the result file"), ("p.jsonl", 2, "is a file of prompts"), ("job.json", 2, "is the job file"),
                                   ("a.h5.journal", 2, "the journal"), ("/nowhere/a.jsonl", 7, "create the folder /nowhere or name another output.jsonl")):
            err = self.run_it(2, want=code, jsonl=jsonl)
            self.assertIn(words, err)
            self.assertNotIn("loading", err)
        err = self.run_it(want=2, jsonl="b.jsonl", sets=["prompts.file='*.jsonl'"])
        self.assertIn("is matched by prompts.file", err)
        self.lines.write_text("mine\n")
        for if_exists in ("resume", "error"):
            self.assertIn("a.jsonl: is there already", self.run_it(want=7, if_exists=if_exists))
        r = jobs.start(0, "check", str(self.place.path / "job.json"))
        self.assertEqual(r.returncode, 7, r.stderr)
        self.assertEqual(self.lines.read_text(), "mine\n")
        self.run_it(if_exists="overwrite")
        self.assertEqual(self.lines.read_text(), self.exported())


if __name__ == "__main__":
    unittest.main(verbosity=2)
