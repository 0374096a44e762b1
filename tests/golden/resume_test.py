#!/usr/bin/env python3
"""Nothing is lost: jobs that are killed, stopped or cannot write end, after the same command again, with the answers of
an undisturbed run, and compute no answer again that was finished."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

MODEL = "tiny-llama"
LONG = bool(os.environ.get("TPINFER_LONG_TESTS"))
KILLS = int(os.environ.get("TPINFER_KILLS", 200 if LONG else 6))
SEED = int(os.environ.get("TPINFER_SEED", "1"))


def records(count, tokens):
    out = []
    for i in range(count):
        params = {"max_new_tokens": tokens + i % 7, "n": 3 if i % 5 == 0 else 1}
        if i % 4 == 0:
            params["prompt_logprobs"] = 2
        if i % 3 == 0:
            params.update(temperature=0.9, seed=i)
        out.append({"id": f"p{i}", "prompt": f"He is number {i} and", "params": params, "meta": {"i": i}})
    return out


BAD = {"id": "bad", "prompt": "x", "params": {"top_q": 1}}


class Place(jobs.Workplace):
    """A job whose result is resumed."""

    def __init__(self, count=16, tokens=24, extra=(), **more):
        super().__init__()
        self.records = records(count, tokens) + list(extra)
        more.setdefault("parallel", {"threads": 1})  # tests may share few cores with others
        more.setdefault("engine", {"max_num_seqs": 4})
        more["output"] = {"if_exists": "resume", "flush_every": {"prompts": 1, "seconds": 0.1}, **more.get("output", {})}
        self.file = self.job(MODEL, self.records, **more)
        self.result = self.path / "a.h5"
        self.journal = self.path / "a.h5.journal"

    def again(self, ranks=1, *words, want=0, env=None):
        r = jobs.start(ranks, "run", self.file, "--progress", "none", *words, env=env)
        if r.returncode != want:
            raise AssertionError(f"exit {r.returncode}, wanted {want}: {r.stderr}")
        return r.stderr

    def start(self, ranks, *words):
        return subprocess.Popen(jobs.command(ranks, "run", self.file, "--progress", "lines", *words), env=jobs.ENV, stderr=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, text=True, start_new_session=True)

    def start_and_wait(self, ranks, *words):
        process = self.start(ranks, *words)
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "prompts |" in line:
                return process
        raise AssertionError("".join(lines))

    def finished(self):
        """(id, sample) of all answers that are durable now."""
        if not self.result.exists() and not self.journal.exists():
            return set()
        r = jobs.start(0, "show", str(self.result), "--json")
        if r.returncode:  # a journal without a head
            return set()
        return {(p["id"], a["sample_index"]) for p in json.loads(r.stdout)["prompts"] for a in p["answers"]}

    def last_attempt(self):
        """(id, sample) of all that the last attempt computed, and number of rows."""
        with jobs.h5py.File(self.result) as h:
            ids = h["prompts/id"].asstr()[:]
            r = h["results"]
            rows = [(ids[p], int(s), int(a)) for p, s, a in zip(r["prompt_index"][:], r["sample_index"][:], r["attempt"][:])]
            last = int(h.attrs["attempts"]) - 1
        return {(i, s) for i, s, a in rows if a == last}, len(rows)


def ranks_of(process):
    out = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    return [int(p) for p in out.split()]


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_end(pids):
    until = time.monotonic() + 20
    while any(map(lives, pids)):
        if time.monotonic() > until:
            for p in pids:
                try:
                    os.kill(p, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        time.sleep(0.02)


def end_of_launcher(process):
    """Open MPI 4's mpirun may lock itself up for good when a process that it is just starting is killed: it must not have left a rank behind."""
    try:
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        left = [p for p in ranks_of(process) if lives(p)]
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        if left:
            raise AssertionError(f"ranks {left} outlived the one that was killed") from None


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reference = Place()
        start = time.monotonic()
        cls.reference.again(1)
        cls.seconds = time.monotonic() - start

    @classmethod
    def tearDownClass(cls):
        cls.reference.dir.cleanup()

    def same_as_reference(self, place, reference=None):
        r = jobs.start(0, "diff", str((reference or self.reference).result), str(place.result))
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertFalse(place.journal.exists())
        left = [p.name for p in place.path.iterdir() if p.name not in ("a.h5", "p.jsonl", "job.json")]
        self.assertEqual(left, [])

    def kill_once(self, place, ranks, which, moment):
        process = place.start(ranks)
        time.sleep(moment)
        pids = ranks_of(process)
        try:
            if which == "group":
                os.killpg(process.pid, signal.SIGKILL)
            elif which == "term":
                os.kill(process.pid, signal.SIGTERM)  # mpirun hands it on and kills 2 s later
            elif which == "mpirun" or not pids:
                os.kill(process.pid, signal.SIGKILL)
            else:
                os.kill(pids[which % len(pids)], signal.SIGKILL)
        except ProcessLookupError:
            pass
        end_of_launcher(process)
        wait_for_end(pids)

    def test_killed_at_any_moment(self):
        rng = random.Random(SEED)
        for i in range(KILLS):
            ranks, which = rng.choice((1, 2, 3)), rng.choice((0, 1, 2, "mpirun", "group", "term"))
            moment = rng.uniform(0.1, 1.3) * self.seconds
            with self.subTest(i=i, ranks=ranks, which=which, moment=moment), Place() as place:
                self.kill_once(place, ranks, which, moment)
                before = place.finished()
                complete = place.result.exists() and not place.journal.exists()
                place.again(rng.choice((1, 2, 3)))
                self.same_as_reference(place)
                computed, rows = place.last_attempt()
                if not complete and len(before) < rows:
                    self.assertEqual(len(computed) + len(before), rows)
                    self.assertEqual(computed & before, set())

    def stop(self, ranks, send, *words):
        with Place(count=24, tokens=150) as place:
            process = place.start_and_wait(ranks, *words)
            time.sleep(0.2)
            send(process)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75, err)
            self.assertIn("stopped early", err)
            with jobs.h5py.File(place.result) as h:
                self.assertEqual(h.attrs["state"], "partial")
                self.assertEqual(h["attempts/reason"].asstr()[:].tolist(), ["stopped"])
                # cells that nobody has written yet are empty, not absent
                self.assertEqual(set(h["prompts/status"][:].tolist()) - {0, 3}, set())
                self.assertIn(3, h["prompts/status"][:].tolist())
                self.assertEqual(set(h["prompts/error"].asstr()[:].tolist()), {""})
            if shutil.which("h5dump"):
                dump = subprocess.run(["h5dump", "-d", "/prompts/text", "-d", "/prompts/error", str(place.result)], capture_output=True, text=True)
                self.assertEqual((dump.returncode, dump.stdout.count("NULL,"), dump.stdout.count("He is number")), (0, 0, 24), dump.stderr)
            self.assertEqual(len(json.loads(jobs.start(0, "show", str(place.result), "--json").stdout)["prompts"]), 24)
            before = place.finished()
            self.assertEqual(place.journal.exists(), bool(before))
            with jobs.h5py.File(place.result) as h:
                self.assertEqual(len(h["results/attempt"]), len(before))
            place.again(1)
            computed, rows = place.last_attempt()
            self.assertEqual(len(computed) + len(before), rows)
            self.assertEqual(computed & before, set())
            self.assertFalse(place.journal.exists())
            return before

    def test_usr1_to_mpirun(self):
        self.assertGreater(len(self.stop(2, lambda p: p.send_signal(signal.SIGUSR1))), 3)  # running ones end

    def test_usr1_to_one_rank(self):
        self.stop(3, lambda p: os.kill(ranks_of(p)[2], signal.SIGUSR1))

    def test_term_stops_at_once(self):
        start = time.monotonic()
        self.stop(0, lambda p: p.send_signal(signal.SIGTERM))
        self.stop(2, lambda p: os.kill(ranks_of(p)[1], signal.SIGINT))
        self.assertLess(time.monotonic() - start, 60)

    def test_replicas_stop_too(self):
        self.stop(2, lambda p: p.send_signal(signal.SIGUSR1), "--set", "parallel.data_parallel_size=2")
        self.stop(2, lambda p: os.kill(ranks_of(p)[1], signal.SIGTERM), "--set", "parallel.data_parallel_size=2")

    def test_time_limit(self):
        with Place(count=40, tokens=600) as place:
            limit = max(3.0, 2.5 * self.seconds)
            err = place.again(2, "--set", f"run.time_limit={limit:.1f}s", "--set", "run.stop_margin=1s", want=75)
            self.assertIn("stopped early", err)
            place.again(1, "--set", "run.time_limit=null", "--limit", "2", want=0)

    def test_a_second_job_is_refused(self):
        with Place(count=40, tokens=600) as place:
            process = place.start_and_wait(2)
            self.assertIn("another job", place.again(1, want=7))
            process.send_signal(signal.SIGUSR1)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75)

    def stopped_place(self):
        """With some of the answers of the reference."""
        place = Place()
        self.addCleanup(place.dir.cleanup)
        place.again(1, "--limit", "6", want=0)
        return place

    def test_what_does_not_belong_is_refused(self):
        place = self.stopped_place()
        self.assertIn("dtype", place.again(1, "--set", "model.dtype=bfloat16", want=2))
        self.assertIn("kernel set", place.again(1, want=2, env={"TPINFER_ISA": "scalar"}))
        folder = place.path / "model"
        shutil.copytree(jobs.MODELS / MODEL, folder)
        weights = folder / "model-00002-of-00002.safetensors"
        blob = bytearray(weights.read_bytes())
        blob[-5] ^= 1
        weights.write_bytes(blob)
        self.assertIn("model-00002-of-00002.safetensors: other content", place.again(1, "--set", f"model.path={folder}", want=2))
        shutil.rmtree(folder)
        changed = [dict(r) for r in place.records]
        changed[1]["prompt"] += "!"
        changed[3]["params"] = dict(changed[3]["params"], max_new_tokens=3)
        (place.path / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in changed))
        err = place.again(1, want=2)
        self.assertIn("p1, p3", err)
        r = jobs.start(0, "check", place.file)
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("p1, p3", r.stderr)
        (place.path / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in place.records))
        self.assertIn("is there already", place.again(1, "--set", "output.if_exists=error", want=7))
        # nothing of this has spoilt anything
        before = place.finished()
        place.again(2)
        computed, rows = place.last_attempt()
        self.assertEqual(len(computed) + len(before), rows)
        self.same_as_reference(place)

    def test_a_prompt_that_cannot_run_is_told_again_and_tried_again(self):
        with Place(count=3, tokens=2, extra=[BAD]) as place:
            self.assertIn("top_q", place.again(1, want=5))
            blob = place.result.read_bytes()
            self.assertIn("nothing to do", place.again(1, want=5))
            self.assertEqual(place.result.read_bytes(), blob)
            (place.path / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in [*place.records[:3], {"id": "bad", "prompt": "x", "params": {"max_new_tokens": 2}}]))
            place.again(1)
            self.assertEqual(place.last_attempt()[0], {("bad", 0)})

    def test_nothing_to_do(self):
        place = self.stopped_place()
        blob = place.result.read_bytes()
        self.assertIn("nothing to do", place.again(2, "--limit", "6", want=0))
        self.assertEqual(place.result.read_bytes(), blob)
        place.again(1, "--limit", "6", "--overwrite", want=0)
        self.assertNotEqual(place.result.read_bytes(), blob)
        self.assertFalse(place.journal.exists())

    def test_answers_of_prompts_that_are_gone_stay(self):
        place = self.stopped_place()
        rows = place.records[4:9]
        (place.path / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        place.again(1, want=0)
        got = jobs.read(place.result)
        self.assertEqual(got["id"], [f"p{i}" for i in (4, 5, 6, 7, 8, 0, 1, 2, 3)])
        self.assertEqual(set(got["status"]), {0})

    def test_writes_that_fail(self):
        shim = os.environ.get("TPINFER_FAIL_WRITES")
        if not shim:
            self.skipTest("TPINFER_FAIL_WRITES does not name the library")
        for rule in ("write:.journal:9000", "short:.journal:12000", "sync:.journal:5", "write:.part:5000", "sync:.part:0"):
            with self.subTest(rule=rule), Place() as place:
                err = place.again(1, want=7, env={"LD_PRELOAD": shim, "TPINFER_FAIL": rule})
                self.assertIn("a.h5", err)
                self.assertTrue(place.journal.exists())
                self.assertFalse(place.result.exists())
                before = place.finished()
                place.again(2)
                self.same_as_reference(place)
                computed, rows = place.last_attempt()
                self.assertEqual(len(computed) + len(before), rows)

    def test_file_systems_without_locks(self):
        shim = os.environ.get("TPINFER_FAIL_WRITES")
        if not shim:
            self.skipTest("TPINFER_FAIL_WRITES does not name the library")
        for number in (37, 95, 524):  # no locks available, not supported, and what the kernel itself says
            with self.subTest(number), Place(count=2, tokens=2) as place:
                err = place.again(1, env={"LD_PRELOAD": shim, "TPINFER_FAIL": f"lock:.journal:{number}"})
                self.assertIn("a.h5.journal: this file system has no locks", err)
                self.assertEqual(place.last_attempt()[1], 4)
        with Place(count=2, tokens=2) as place:
            err = place.again(1, want=7, env={"LD_PRELOAD": shim, "TPINFER_FAIL": "lock:.journal:5"})
            self.assertIn("a.h5.journal: Input/output error", err)
            self.assertNotIn("loading", err)

    def test_texts_that_are_equal_are_prompts_of_their_own(self):
        with Place(count=6, tokens=2) as place:
            for record in place.records[:3]:
                record["prompt"] = "the same"
            (place.path / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in place.records))
            place.again(1, "--limit", "2")
            place.again(1)
            got = jobs.read(place.result)
            self.assertEqual(got["id"], [f"p{i}" for i in range(6)])
            self.assertEqual(sorted(set(got["index"])), list(range(6)))

    def test_damage_in_the_middle_costs_one_answer(self):
        with Place() as place:
            shim = os.environ.get("TPINFER_FAIL_WRITES")
            if not shim:
                self.skipTest("TPINFER_FAIL_WRITES does not name the library")
            place.again(1, want=7, env={"LD_PRELOAD": shim, "TPINFER_FAIL": "write:.journal:16000"})
            blob = bytearray(place.journal.read_bytes())
            blob[len(blob) // 2] ^= 1
            place.journal.write_bytes(blob)
            err = place.again(1)
            self.assertIn("damaged", err)
            self.same_as_reference(place)


if __name__ == "__main__":
    unittest.main(verbosity=2)
