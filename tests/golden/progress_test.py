#!/usr/bin/env python3
"""What a run says while it runs and at its end: a bar on a real terminal, lines in a file, `show --follow` from beside."""
import fcntl
import os
import pathlib
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

MODEL = "tiny-llama"
LINE = re.compile(r"\[ *(\d+)%\] (\d+)/(\d+) prompts \| \d+ tok/s \| \d\d:\d\d:\d\d elapsed \| ETA \d\d:\d\d:\d\d \| (kv \d+% \| )?failed \d+")


class Terminal:
    """A pseudo-terminal for a program's stderr; what the program writes there, in pieces with the width at that time."""

    def __init__(self, columns):
        self.ours, self.theirs = pty.openpty()
        self.resize(columns)
        self.pieces = []
        self.thread = threading.Thread(target=self.read)

    def resize(self, columns):
        self.columns = columns
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def start(self, words, **env):
        self.process = subprocess.Popen(words, env={**jobs.ENV, "TERM": "xterm", **env}, stderr=self.theirs, stdout=subprocess.PIPE, text=True)
        self.thread.start()
        return self

    def read(self):
        while True:
            try:
                data = os.read(self.ours, 65536)
            except OSError:
                return
            if not data:
                return
            self.pieces.append((self.columns, data.decode()))

    def end(self):
        out = self.process.communicate(timeout=120)[0]
        os.close(self.theirs)
        self.thread.join()
        os.close(self.ours)
        return out

    def text(self):
        return "".join(text for _, text in self.pieces)

    def bars(self):
        """(columns, bar) of each that was drawn."""
        return [(columns, bar) for columns, text in self.pieces for bar in re.findall(r"\r([^\r\n\x1b]+)\x1b\[K", text)]


def job_of(place, count=48, tokens=150, **more):
    records = [{"id": f"p{i}", "prompt": f"He is number {i} and", "params": {"max_new_tokens": tokens}} for i in range(count)]
    more.setdefault("engine", {"max_num_seqs": 2})
    more.setdefault("parallel", {"threads": 1})
    more["output"] = {"flush_every": {"prompts": 1, "seconds": 0.1}, **more.get("output", {})}
    return place.job(MODEL, records, **more)


class Bar(unittest.TestCase):
    def test_a_bar_follows_the_width_of_the_terminal(self):
        with jobs.Workplace() as place:
            terminal = Terminal(100).start(jobs.command(0, "run", job_of(place)))
            end = time.monotonic() + 60
            while sum("prompts" in bar for _, bar in terminal.bars()) < 3 and time.monotonic() < end:
                time.sleep(0.05)
            terminal.resize(30)
            terminal.end()
            self.assertEqual(terminal.process.returncode, 0, terminal.text())
            bars = [b for b in terminal.bars() if "48" in b[1]]
            wide, narrow = [b for c, b in bars if c == 100], [b for c, b in bars if c == 30]
            self.assertTrue(any(re.match(r"\[=* *\] +\d+% \d+/48 prompts", b) for b in wide), bars[:5])
            self.assertGreater(len(narrow), 3)
            self.assertTrue(all(len(b) < 100 for b in wide))
            # one may have been on its way when the window changed
            self.assertTrue(all(len(b) < 30 for b in narrow[2:]), narrow)
            # at the end the line is left, and what follows stands in lines of its own
            self.assertRegex(terminal.text(), r"100%[^\r\n]*\x1b\[K\r\ntpinfer: 48 of 48 prompts answered")

    def test_a_terminal_without_cursor_movement_gets_lines(self):
        with jobs.Workplace() as place:
            terminal = Terminal(100).start(jobs.command(0, "run", job_of(place, count=2, tokens=5)), TERM="dumb")
            terminal.end()
            self.assertNotIn("\x1b", terminal.text())
            self.assertIn("[100%] 2/2 prompts", terminal.text())


class Lines(unittest.TestCase):
    def test_a_file_gets_lines_without_cursor_codes(self):
        with jobs.Workplace() as place:
            with open(place.path / "log", "w") as log:
                run = subprocess.run(jobs.command(2, "run", job_of(place, count=8, tokens=20)), env=jobs.ENV, stderr=log, timeout=120)
            text = (place.path / "log").read_text()
            self.assertEqual(run.returncode, 0, text)
            self.assertNotRegex(text, r"[\x1b\r]")
            self.assertRegex(text, r"\[100%\] loading \S+ [kM]?B of \S+ [kM]?B on rank 0 \| \S+ [kMG]?B/s \| ETA 00:00:00\n")
            self.assertRegex(text, r"tpinfer: loaded \S+ [kM]?B in \d+\.\d\d s \(\S+ [kMG]?B/s\) by 2 ranks on \S+\n")
            self.assertTrue(LINE.search(text), text)
            self.assertIn("[100%] 8/8 prompts", text)

    def test_the_last_lines_say_what_came_out_and_how_to_see_it(self):
        with jobs.Workplace() as place:
            bad = [{"id": "bad", "prompt": "x", "params": {"top_q": 1}}]
            job = place.job(MODEL, [{"id": "good", "prompt": "He", "params": {"max_new_tokens": 5}}] + bad)
            run = jobs.start(3, "run", job)
            self.assertEqual(run.returncode, 5, run.stderr)
            self.assertRegex(run.stderr, r"prompt bad: .*top_q")
            self.assertRegex(run.stderr, r"1 of 2 prompts answered, 1 failed, 5 tokens in \d+\.\d\d s \(\d+ tok/s\)")
            self.assertRegex(run.stderr, r"peak memory of the ranks: \S+ MB, \S+ MB, \S+ MB\n")
            see = re.search(r"results: (\S+); see them with: (tpinfer show .*)", run.stderr)
            self.assertTrue(pathlib.Path(see[1]).samefile(place.path / "a.h5"))
            shown = subprocess.run([jobs.TPINFER, *shlex.split(see[2])[1:]], capture_output=True, text=True)
            self.assertIn("1 of 2 prompts done, 1 failed", shown.stdout)

    def test_a_warning_is_told_once_by_rank_0(self):
        with jobs.Workplace() as place:
            run = jobs.start(3, "run", job_of(place, count=2, tokens=3, model={"load_format": "dummy"}), "--progress", "none")
            self.assertEqual(run.returncode, 0, run.stderr)
            # more ranks than cores may be a warning too
            warnings = [line for line in run.stderr.splitlines() if "warning: " in line]
            self.assertEqual(len(warnings), len(set(warnings)), run.stderr)
            self.assertEqual(sum("the weights are random" in line for line in warnings), 1, run.stderr)

    def test_debug_names_what_each_rank_does_and_how_long(self):
        with jobs.Workplace() as place:
            job = job_of(place, count=2, tokens=3)
            run = jobs.start(3, "run", job, "--progress", "none", "--set", "run.log_level=debug")
            self.assertEqual(run.returncode, 0, run.stderr)
            for rank in range(3):
                for phase in ("preparing", "sharing the plan", "loading", "making cache and buffers", "answering", "gathering and writing the result"):
                    self.assertRegex(run.stderr, rf"debug: rank {rank} at \d+\.\d+ s: {phase} took \d+\.\d+ s\n")
                self.assertRegex(run.stderr, rf"debug: rank {rank} at \d+\.\d+ s: read \S+ [kM]?B, owns \S+ [kM]?B of weights in \d+ tensors\n")
            quiet = jobs.start(3, "run", job, "--progress", "none")
            self.assertNotIn("debug", quiet.stderr)


class Follow(unittest.TestCase):
    def start(self, place, **more):
        """A job that has begun, or gone on with, its journal."""
        journal = place.path / "a.h5.journal"
        before = journal.stat().st_size if journal.exists() else -1
        job = subprocess.Popen(jobs.command(0, "run", job_of(place, **more), "--progress", "none"), env=jobs.ENV, stderr=subprocess.PIPE)
        end = time.monotonic() + 60
        while (journal.stat().st_size if journal.exists() else -1) == before and time.monotonic() < end:
            time.sleep(0.02)
        return job

    def test_until_the_job_ends(self):
        with jobs.Workplace() as place:
            job = self.start(place)
            r = jobs.start(0, "show", str(place.path / "a.h5"), "--follow")
            self.assertEqual(job.wait(timeout=120), 0, job.stderr.read())
            job.stderr.close()
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertNotRegex(r.stderr, r"[\x1b\r]")
            counts = [int(m[2]) for m in LINE.finditer(r.stderr)]
            self.assertTrue(counts, r.stderr)
            self.assertEqual(counts, sorted(counts))
            self.assertIn("complete, 48 of 48 prompts done", r.stdout)
            self.assertNotIn("[p0]", r.stdout)

    def test_a_killed_job_is_told_and_its_journal_gives_a_report(self):
        with jobs.Workplace() as place:
            job = self.start(place, count=400)
            terminal = Terminal(100).start([jobs.TPINFER, "show", str(place.path / "a.h5"), "--follow"])
            end = time.monotonic() + 60
            while not any(re.search(r" [1-9]\d*/400 ", bar) for _, bar in terminal.bars()) and time.monotonic() < end:
                time.sleep(0.05)
            job.send_signal(signal.SIGKILL)
            job.wait(timeout=60)
            job.stderr.close()
            out = terminal.end()
            self.assertEqual(terminal.process.returncode, 0, terminal.text())
            self.assertRegex(terminal.text(), r"no job is writing \S+a.h5.journal: it was ended from outside; the same command goes on with it")
            self.assertRegex(out, r"partial, \d+ of 400 prompts done")  # though the journal has only those that began
            self.assertRegex(out, r"run +since \S+Z, 1 attempt")
            self.assertNotIn("is writing it", out)
            page = place.path / "page.html"
            r = jobs.start(0, "report", str(place.path / "a.h5"), "-o", str(page))
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("Throughput", page.read_text())
            self.assertIn("is known when the job has ended", page.read_text())

    def test_a_job_that_stops_and_goes_on(self):
        with jobs.Workplace() as place:
            more = {"count": 60, "tokens": 120, "output": {"if_exists": "resume"}, "run": {"stop_margin": "0.2s"}}
            job = self.start(place, **more)
            file = str(place.path / "a.h5")
            end = time.monotonic() + 60
            while not re.search(r" [1-9]\d* of 60 .*a job is writing it", jobs.start(0, "show", file).stdout) and time.monotonic() < end:
                time.sleep(0.1)
            job.send_signal(signal.SIGUSR1)
            self.assertEqual(job.wait(timeout=60), 75, job.stderr.read())
            job.stderr.close()
            r = jobs.start(0, "show", file, "--follow")
            self.assertIn("a.h5.journal: it stopped early; the same command goes on with it", r.stderr)
            done = int(re.search(r"partial, (\d+) of 60 prompts done", r.stdout)[1])
            job = self.start(place, **more)
            r = jobs.start(0, "show", file, "--follow")
            self.assertEqual(job.wait(timeout=120), 0, job.stderr.read())
            job.stderr.close()
            counts = [int(m[2]) for m in LINE.finditer(r.stderr)]
            self.assertTrue(counts and min(counts) >= done, (done, r.stderr))
            self.assertIn("complete, 60 of 60 prompts done", r.stdout)
            # the page has both attempts on one clock, with a mark between them
            page = place.path / "page.html"
            self.assertEqual(jobs.start(0, "report", file, "-o", str(page)).returncode, 0)
            self.assertIn('class="mark"', page.read_text())
            self.assertIn("2 attempts", page.read_text())

    def test_what_has_ended_is_shown_at_once(self):
        with jobs.Workplace() as place:
            self.assertEqual(jobs.start(0, "run", job_of(place, count=1, tokens=2)).returncode, 0)
            r = jobs.start(0, "show", str(place.path / "a.h5"), "--follow", "--stats")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertIn("1 answers of 2 tokens", r.stdout)
            r = jobs.start(0, "show", str(place.path / "none.h5"), "--follow")
            self.assertEqual(r.returncode, 3)


if __name__ == "__main__":
    unittest.main()
