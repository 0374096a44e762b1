#!/usr/bin/env python3
"""Prompts that are read while weights are loaded and others answered: the same answers as when all are known before,
and nothing lost when they cannot be read or the job is stopped meanwhile."""
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np

FIRST = 6
MANY = 10**9
REPLICAS = ("--set", "parallel.data_parallel_size=2")
FORMS = ((0, ()), (2, ()), (2, REPLICAS))
LONG = bool(os.environ.get("TPINFER_LONG_TESTS"))


def records(count):
    """The later ones are longer, ask for more and for other things than the first: nothing of that is known at the start."""
    out = []
    for i in range(count):
        late = i >= FIRST
        params = {"max_new_tokens": 3 + (i % 5) * (3 if late else 1), "n": 2 if i % 9 == 8 else 1}
        if i % 4 == 1:
            params.update(temperature=0.9, seed=i)
        if late and i % 6 == 2:
            params["prompt_logprobs"] = 1
        if late and i % 7 == 3:
            params["stop"] = ["e", "a"]
        text = f"He is number {i} and" + " on and on" * (12 if late and i % 5 == 0 else 0)
        out.append({"id": f"p{i}", "prompt": text, "params": params, "meta": {"i": i}})
    return out


def lines(rows):
    return "".join(json.dumps(r) + "\n" for r in rows)


ROWS = [*records(40), {"id": "bad", "prompt": "x", "params": {"top_q": 1}}, {"id": "long", "prompt": "word " * 3000}, *[dict(r, id="again" + r["id"]) for r in records(10)]]


class Place(jobs.Workplace):
    def __init__(self, rows=ROWS, file="p.jsonl", **more):
        super().__init__()
        more["output"] = {"if_exists": "resume", "flush_every": {"prompts": 1, "seconds": 0.1}}
        self.file = self.job("tiny-llama", rows, parallel={"threads": 1}, engine={"max_num_seqs": 4}, prompts={"file": file, "format": "jsonl"}, **more)
        self.result, self.journal = self.path / "a.h5", self.path / "a.h5.journal"
        if file == "pipe":
            os.mkfifo(self.path / file)

    def start(self, ranks, *words, first=FIRST):
        return subprocess.Popen(jobs.command(ranks, "run", self.file, "--progress", "none", *words), env=dict(jobs.ENV, TPINFER_FIRST_PROMPTS=str(first)),
                                stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def run_to_end(self, ranks, *words, want=5, first=FIRST):
        process = self.start(ranks, *words, first=first)
        return self.end(process, want)

    @staticmethod
    def end(process, want):
        _, err = process.communicate(timeout=100)
        if process.returncode != want:
            raise AssertionError(f"exit {process.returncode}, wanted {want}: {err}")
        return err

    def finished(self):
        """(id, sample) of all answers that are in the journal or the result now."""
        if not self.result.exists() and not self.journal.exists():
            return set()
        r = jobs.start(0, "show", str(self.result), "--json")
        return set() if r.returncode else {(p["id"], a["sample_index"]) for p in json.loads(r.stdout)["prompts"] for a in p["answers"]}

    def wait_for_answers(self, process, count):
        until = time.monotonic() + 40
        while len(self.finished()) < count:
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                raise AssertionError(f"{len(self.finished())} answers: {process.communicate()[1]}")
            time.sleep(0.1)

    def last_attempt(self):
        with jobs.h5py.File(self.result) as h:
            ids, r = h["prompts/id"].asstr()[:], h["results"]
            rows = list(zip(r["prompt_index"][:], r["sample_index"][:], r["attempt"][:]))
            return {(ids[p], int(s)) for p, s, a in rows if a == int(h.attrs["attempts"]) - 1}, len(rows)


class LatePrompts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reference = Place()
        said = cls.reference.run_to_end(0, first=MANY)
        assert "have been read" not in said, said

    @classmethod
    def tearDownClass(cls):
        cls.reference.dir.cleanup()

    def same(self, place):
        """All rows of prompts and answers, bit by bit."""
        with jobs.h5py.File(self.reference.result) as a, jobs.h5py.File(place.result) as b:
            self.assertEqual((a.attrs["state"], b.attrs["state"]), ("complete", "complete"))
            for group in ("prompts", "results"):
                self.assertEqual(set(a[group]), set(b[group]))
                for name in a[group]:
                    if name in ("attempt", "t_queued", "t_first_token", "t_finished"):
                        continue
                    x, y = a[group][name][:], b[group][name][:]
                    if name == "error":  # names the file, which lies elsewhere
                        x, y = ([e.decode().rsplit("/", 1)[-1].replace("pipe:", "p.jsonl:") for e in v] for v in (x, y))
                    bits = isinstance(x, np.ndarray) and x.dtype.kind == "f"  # NaN is equal to itself
                    self.assertTrue(x.tobytes() == y.tobytes() if bits else np.array_equal(x, y), (group, name))
        self.assertFalse(place.journal.exists())

    def test_same_answers_as_when_all_is_read_first(self):
        for ranks, words in FORMS if LONG else FORMS[:1]:
            with self.subTest(ranks=ranks, words=words), Place() as place:
                self.assertIn(f"all {len(ROWS)} prompts have been read", place.run_to_end(ranks, *words))
                self.same(place)

    def test_the_first_part_may_be_all_or_have_nothing_to_run(self):
        with Place() as place:
            self.assertNotIn("have been read", place.run_to_end(0, first=len(ROWS)))
            self.same(place)
        bad = {"prompt": "x", "params": {"top_q": 1}}
        with Place([dict(bad, id="b1"), dict(bad, id="b2"), records(1)[0]]) as place:
            self.assertIn("all 3 prompts", place.run_to_end(0, first=2))
            self.assertEqual(jobs.read(place.result)["status"], [1, 1, 0])
        with Place() as place:
            self.assertIn("TPINFER_FIRST_PROMPTS", place.run_to_end(0, first="1x", want=2))

    def pipe(self, ranks, words, rows, then, want=5):
        """A job whose prompts come through a pipe that stays open until some are answered."""
        with Place(file="pipe") as place:
            process = place.start(ranks, "--set", "run.collective_timeout=3s", *words)
            with open(place.path / "pipe", "w") as pipe:
                pipe.write(lines(rows[:FIRST + 4]))
                pipe.flush()
                place.wait_for_answers(process, FIRST + 4)
                then(process, pipe)
            err = place.end(process, want)
            yield place, err

    def test_answers_before_the_last_prompt_is_known(self):
        def go_on(process, pipe):
            if words == ():
                time.sleep(4)  # longer than ranks wait for each other
            self.assertIsNone(process.poll())
            pipe.write(lines(ROWS[FIRST + 4:]))
        for ranks, words in FORMS if LONG else FORMS[1:]:
            with self.subTest(ranks=ranks, words=words):
                for place, _ in self.pipe(ranks, words, ROWS, go_on):
                    self.same(place)

    def mend_and_resume(self, place, before, ranks=0, rows=ROWS):
        (place.path / "p.jsonl").write_text(lines(rows))
        place.run_to_end(ranks, "--set", "prompts.file=p.jsonl", *(("--set", "run.time_limit=null")))
        computed, count = place.last_attempt()
        self.assertEqual(computed & before, set())
        self.assertEqual(len(computed) + len(before), count)
        self.same(place)

    def test_stopped_while_reading(self):
        sends = ((0, (), lambda p: p.send_signal(signal.SIGTERM)), (2, (), lambda p: p.send_signal(signal.SIGUSR1)),
                 (2, REPLICAS, lambda p: os.kill(ranks_of(p)[1], signal.SIGTERM)))
        for ranks, words, send in sends if LONG else sends[::2]:
            with self.subTest(ranks=ranks, words=words):
                for place, err in self.pipe(ranks, words, ROWS, lambda process, _: (send(process), process.wait(30)), want=75):
                    self.assertIn("that were not read yet are left", err)
                    with jobs.h5py.File(place.result) as h:
                        self.assertEqual(h.attrs["state"], "partial")
                    self.mend_and_resume(place, place.finished())

    @unittest.skipUnless(LONG, "TPINFER_LONG_TESTS is not set")
    def test_time_limit_while_reading(self):
        with Place(file="pipe") as place:
            process = place.start(0, "--set", "run.time_limit=8s", "--set", "run.stop_margin=2s")
            with open(place.path / "pipe", "w") as pipe:
                pipe.write(lines(ROWS[:FIRST + 4]))
                pipe.flush()
                process.wait(30)
            self.assertIn("that were not read yet are left", place.end(process, 75))
            self.assertGreaterEqual(len(place.finished()), FIRST + 4)

    def test_stopped_before_the_first_part_is_known(self):
        with Place(file="pipe") as place:
            process = place.start(0)
            with open(place.path / "pipe", "w") as pipe:
                pipe.write(lines(ROWS[:2]))
                pipe.flush()
                time.sleep(0.5)
                process.send_signal(signal.SIGTERM)
                process.wait(30)
            self.assertIn("while reading prompts", place.end(process, 75))

    def test_an_id_that_comes_again_late(self):
        def again(process, pipe):
            pipe.write(lines(ROWS[FIRST + 4:20] + ROWS[2:3]))
        for ranks, words in FORMS if LONG else FORMS[1:2]:
            with self.subTest(ranks=ranks, words=words):
                for place, err in self.pipe(ranks, words, ROWS, again, want=3):
                    self.assertEqual(err.count("error:"), 1, err)
                    self.assertIn(f'pipe:21: the id "p2" stands at {place.path}/pipe:3 already', err)
                    self.assertNotIn("MPI_ABORT", err)
                    self.assertFalse(place.result.exists())
                    before = place.finished()
                    self.assertGreaterEqual(len(before), FIRST + 4)
                    self.mend_and_resume(place, before)

    def test_a_file_that_is_cut_is_told_of_late(self):
        with Place(file=["p.jsonl", "q.jsonl.gz"]) as place:
            (place.path / "p.jsonl").write_text(lines(ROWS[:20]))
            (place.path / "q.jsonl.gz").write_bytes(gzip.compress(lines(ROWS[20:]).encode())[:-30])
            err = place.run_to_end(2, want=3)
            self.assertIn("q.jsonl.gz: the packed data ends in the middle", err)
            self.assertEqual(err.count("error:"), 1, err)

    def test_a_resumed_job_reads_all_first(self):
        with Place(ROWS[:30]) as place:
            place.run_to_end(0, "--limit", "12", want=0)
            (place.path / "p.jsonl").write_text(lines([dict(r, prompt=r["prompt"] + "!") if r["id"] == "p11" else r for r in ROWS]))
            err = place.run_to_end(0, want=2)
            self.assertIn("p11", err)
            self.assertNotIn("loaded", err)
            (place.path / "p.jsonl").write_text(lines(ROWS))
            self.assertNotIn("have been read", place.run_to_end(0))
            self.same(place)


def ranks_of(process):
    return [int(p) for p in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()]


if __name__ == "__main__":
    unittest.main(verbosity=2)
