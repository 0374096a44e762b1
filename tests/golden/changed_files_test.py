#!/usr/bin/env python3
"""Weight files that change after the plan was made, up to the moment when they are mapped: one sentence, exit 3, all ranks gone."""
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
from model_maker import Model
from variants import LLAMA, MIXTRAL

MOST_SECONDS = 15
PRELOADED = os.environ.get("TPINFER_CUT_WHEN_READ", "")  # tests/support/cut_when_read.c
QUICK = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}  # mpirun waits two seconds else before it ends the other ranks
RECORD = {"id": "0", "token_ids": [5, 17, 200], "params": {"max_new_tokens": 2}}


class Changed(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)

    def write(self, name, to, shards=1):
        folder = pathlib.Path(Model(jobs.MODELS / name).write(self.place.path / to, shards=shards))
        self.files = sorted(folder.glob("*.safetensors"))
        return str(folder)

    def told(self, code, out, words):
        complaints = [l for l in out.splitlines() if "tpinfer: error:" in l]
        self.assertEqual((code, len(complaints)), (3, 1), out)
        for word in words:
            self.assertIn(word, complaints[0])


class AfterThePlan(Changed):
    """The prompts come through a pipe: when it is opened for reading, the model's files have been looked at."""

    def after_headers(self, ranks, folder, change):
        job = self.place.job(folder, [RECORD])
        pipe = self.place.path / "p.jsonl"
        record = pipe.read_bytes()
        pipe.unlink()
        os.mkfifo(pipe)
        start = time.monotonic()
        run = subprocess.Popen(jobs.command(ranks, "run", job, "--progress", "none"), env={**jobs.ENV, **QUICK}, stderr=subprocess.PIPE, text=True)
        try:
            with self.when_read(pipe, run) as p:
                change()
                p.write(record)
            _, out = run.communicate(timeout=60)
        finally:
            run.kill()
        pipe.unlink()
        self.assertLess(time.monotonic() - start, MOST_SECONDS)
        return run.returncode, out

    def when_read(self, pipe, run):
        """The pipe, opened for writing once somebody reads."""
        while run.poll() is None:
            try:
                file = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.005)
                continue
            os.set_blocking(file, True)
            return os.fdopen(file, "wb")
        self.fail(run.communicate()[1])

    def test_an_unchanged_folder_runs(self):
        code, out = self.after_headers(3, self.write(LLAMA, "model", shards=2), lambda: None)
        self.assertEqual(code, 0, out)

    def test_the_change_is_named(self):
        def cut():
            os.truncate(self.files[1], self.files[1].stat().st_size - 2)

        def other_weight():
            time.sleep(0.02)
            with open(self.files[0], "r+b") as f:
                f.seek(-7, os.SEEK_END)
                f.write(b"\x01")

        def other_header():  # K and V change their names; the same size and time
            before = self.files[0].stat()
            text = self.files[0].read_bytes()
            for old, new in ((b".k_proj.", b".x_proj."), (b".v_proj.", b".k_proj."), (b".x_proj.", b".v_proj.")):
                text = text.replace(old, new)
            self.files[0].write_bytes(text)
            os.utime(self.files[0], ns=(before.st_atime_ns, before.st_mtime_ns))

        for change, words in ((cut, ["00002-of-00002", "bytes, but the plan was made for"]), (lambda: self.files[1].unlink(), ["00002-of-00002", "no such file"]),
                              (other_weight, ["00001-of-00002", "was changed after the plan"]), (other_header, ["00001-of-00002", "another header"])):
            for ranks in (1, 3):
                with self.subTest(words=words, ranks=ranks):
                    folder = self.write(LLAMA, f"{words[1]} {ranks}", shards=2)
                    self.told(*self.after_headers(ranks, folder, change), words)


@unittest.skipUnless(PRELOADED, "the preloaded library was not built")
class WhileItIsLoaded(Changed):
    """A preloaded library changes the file inside one rank's call that maps or reads it."""

    def change(self, ranks, folder, to, mode="mmap", rank=0, after=0):
        env = {**QUICK, "CHANGE_FILE": str(self.files[0]), "CHANGE_RANK": str(rank), "CHANGE_CALL": "mmap" if mode == "mmap" else "pread",
               "CHANGE_AFTER": str(after), "CHANGE_TO": str(to), "LD_PRELOAD": PRELOADED,
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_leaks=0") + ":verify_asan_link_order=0"}
        start = time.monotonic()
        job = self.place.job(folder, [RECORD], model={"load_strategy": mode})
        r = jobs.start(ranks, "run", job, "--progress", "none", env=env, timeout=60)
        self.assertLess(time.monotonic() - start, MOST_SECONDS)
        return r.returncode, r.stderr

    def test_a_file_that_is_cut_is_named_with_a_tensor(self):
        folder = self.write(MIXTRAL, "model")
        whole = self.files[0].read_bytes()
        for ranks, rank, after in ((1, 0, 0), (1, 0, 20), (3, 2, 0), (3, 0, 5), (4, 3, 40)):
            for to in (0, len(whole) // 2, len(whole) - 1):
                with self.subTest(ranks=ranks, rank=rank, after=after, to=to):
                    self.files[0].write_bytes(whole)
                    words = ["model.safetensors: ", str(len(whole)), str(to)]
                    if ranks == 1:  # of several ranks one may not have opened the file yet
                        words += [f"was cut from {len(whole)} to {to} bytes", 'while the tensor "']
                    self.told(*self.change(ranks, folder, to, rank=rank, after=after), words)

    def test_a_file_that_is_cut_while_it_is_read_is_named_with_a_tensor(self):
        folder = self.write(MIXTRAL, "model")
        whole = self.files[0].read_bytes()
        for ranks, rank, after in ((1, 0, 10), (3, 2, 20), (4, 3, 40)):
            with self.subTest(ranks=ranks, rank=rank):
                self.files[0].write_bytes(whole)
                self.told(*self.change(ranks, folder, 4096 * 10, mode="read", rank=rank, after=after),
                          ["model.safetensors: ", str(len(whole)), "40960"])

    def test_a_file_that_is_written_to_is_named(self):
        folder = self.write(MIXTRAL, "model")
        for ranks, mode in ((1, "mmap"), (3, "mmap"), (3, "read")):
            with self.subTest(ranks=ranks, mode=mode):
                self.told(*self.change(ranks, folder, "touched", mode=mode, rank=ranks - 1, after=12), ["model.safetensors: was changed while the tensor"])

    def test_the_library_alone_changes_nothing(self):
        code, out = self.change(3, self.write(MIXTRAL, "model"), 0, rank=7)
        self.assertEqual(code, 0, out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
