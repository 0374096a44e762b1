#!/usr/bin/env python3
"""Colours: on a terminal alone, unless NO_COLOR or TERM=dumb; --color always and never hold for every command."""
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

ESCAPE = "\x1b["
BASE = {k: v for k, v in jobs.ENV.items() if k not in ("NO_COLOR", "TERM")} | {"TERM": "xterm-256color"}


def on_terminal(*words, **env):
    """-> all that the command shows on a real pseudo-terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([jobs.TPINFER, *words], stdin=theirs, stdout=theirs, stderr=theirs, env={**BASE, **env})
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    process.wait(timeout=60)
    return shown.decode()


def piped(*words, **env):
    r = subprocess.run([jobs.TPINFER, *words], env={**BASE, **env}, capture_output=True, text=True, timeout=60)
    return r.stdout + r.stderr


class Colour(unittest.TestCase):
    def test_good_lines(self):
        self.assertIn("\x1b[32m[OK]  \x1b[0m", on_terminal("info"))
        for shown in (on_terminal("info", NO_COLOR="1"), on_terminal("info", TERM="dumb"), on_terminal("info", "--color", "never"), piped("info")):
            self.assertIn("[OK]", shown)
            self.assertNotIn(ESCAPE, shown)
        self.assertIn(ESCAPE, on_terminal("info", NO_COLOR=""))  # an empty value is none
        self.assertIn(ESCAPE, piped("info", "--color", "always", NO_COLOR="1"))
        self.assertIn(ESCAPE, piped("--color=always", "info"))

    def test_errors(self):
        absent = ("absent.yaml", "run absent.yaml".split(), "check absent.yaml".split(), "plan absent.yaml".split(), "show absent.h5".split())
        for words in absent:
            words = [words] if isinstance(words, str) else words
            self.assertNotIn(ESCAPE, piped(*words))
            self.assertNotIn(ESCAPE, on_terminal(*words, NO_COLOR="1"))
        with tempfile.TemporaryDirectory() as folder:
            job = pathlib.Path(folder) / "job.yaml"
            job.write_text("model: none\nprompts: {file: none}\noutput: {file: o.h5}\n")
            for words in (["run", str(job)], ["check", str(job)], ["show", "absent.h5"], ["nonsense", "--what"]):
                self.assertIn("tpinfer: \x1b[1;31merror:\x1b[0m ", on_terminal(*words), words)
                self.assertIn("tpinfer: error: ", piped(*words), words)

    def test_findings_verdicts_and_states(self):
        with jobs.Workplace() as place:
            place.run(0, "tiny-llama", [{"id": "a", "prompt": "hi"}, {"id": "b", "promt": "hi"}], want=5, sampling={"max_new_tokens": 2})
            one, job = str(place.path / "a.h5"), str(place.path / "job.json")
            other, faulty = str(place.path / "b.h5"), place.path / "faulty.yaml"
            jobs.start(0, job, "--set", f"output.file={other}", "--set", "sampling.max_new_tokens=3")
            faulty.write_text("modell: m\nprompts: p\noutput: o\n")
            for words, coloured in ((("show", one), "\n-- \x1b[1;31mfailed\x1b[0m: "), (("show", one), "a.h5: \x1b[32mcomplete\x1b[0m, "),
                                    (("show", one, "--errors"), "[b] \x1b[1;31mfailed\x1b[0m: "),
                                    (("diff", one, one), "\x1b[32msame answers\x1b[0m: "), (("diff", one, other), "\x1b[1;31mdifferent\x1b[0m: "),
                                    (("check", job), "tpinfer: \x1b[1;31merror:\x1b[0m prompt b: "),
                                    (("check", job, "--limit", "1"), ": \x1b[32mready to run\x1b[0m: "),
                                    (("check", str(faulty)), "faulty.yaml:1:1: \x1b[1;31merror:\x1b[0m modell: "),
                                    ((str(faulty),), "faulty.yaml:1:1: \x1b[1;31merror:\x1b[0m modell: ")):
                plain = re.sub("\x1b[^m]*m", "", coloured)
                self.assertIn(coloured, on_terminal(*words).replace("\r", ""), words)
                for shown in (piped(*words), on_terminal(*words, NO_COLOR="1").replace("\r", ""), piped(*words, "--color", "never")):
                    self.assertIn(plain, shown, words)
                    self.assertNotIn(ESCAPE, shown, words)

    def test_every_command_takes_it(self):
        names = piped("--help").split("Subcommands:")[1].split("\n")
        commands = [line.split()[0] for line in names if line.startswith("  ") and line[2] != " "]
        self.assertGreater(len(commands), 12)
        for command in commands:
            self.assertIn("--color", piped(command, "--help"), command)
        self.assertIn("--color", piped("models", "--color", "sometimes"))  # refused by name

    def test_not_through_mpirun(self):
        self.assertNotIn(ESCAPE, jobs.start(2, "info", env={"TERM": "xterm-256color"}).stdout)  # its ranks see a terminal

    def test_the_job_may_follow_the_option(self):
        self.assertIn("absent.yaml", piped("--color", "never", "absent.yaml"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
