#!/usr/bin/env python3
"""`tpinfer completion` in the shells themselves (zsh and fish where they are installed) and `tpinfer man`: all commands, options and words of --help."""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs


def output(*words):
    r = jobs.start(0, *words)
    if r.returncode != 0:
        raise AssertionError(f"exit {r.returncode}: {r.stderr}")
    return r.stdout


def commands():
    """Commands of --help with their options, as --help has them."""
    listed = output("--help").split("Subcommands:")[1]
    names = re.findall(r"^  (\w+)", listed, flags=re.M)
    return {name: sorted(set(re.findall(r"(?<![\w-])--[a-z-]+", output(name, "--help")))) for name in names}


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.files = {}
        for shell in ("bash", "zsh", "fish"):
            cls.files[shell] = pathlib.Path(cls.dir.name) / f"tpinfer.{shell}"
            cls.files[shell].write_text(output("completion", shell))
        cls.commands = commands()

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def bash(self, *words):
        """What bash offers for the last word."""
        script = (f'source {self.files["bash"]}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tpinfer\n'
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        r = subprocess.run(["bash", "-u", "-c", script, "bash", "tpinfer", *words], capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stderr), (0, ""), words)
        return r.stdout.split()

    def test_there_are_commands(self):
        self.assertTrue({"run", "plan", "show", "info", "schema", "verify", "completion"} <= set(self.commands), self.commands)
        self.assertNotIn("man", self.commands)
        self.assertIn("--set", self.commands["run"])

    def test_bash(self):
        subprocess.run(["bash", "-n", self.files["bash"]], check=True)
        self.assertTrue(set(self.commands) <= set(self.bash("")))
        self.assertEqual(self.bash("ver"), ["verify"])
        for command, options in self.commands.items():
            self.assertEqual(sorted(set(self.bash(command, "--"))), options, command)
        self.assertEqual(self.bash("run", "job.yaml", "--progress", ""), ["auto", "bar", "lines", "none"])
        self.assertEqual(self.bash("job.yaml", "--progress", "l"), ["lines"])  # `run` is understood
        self.assertEqual(self.bash("export", "a.h5", "--format", "j"), ["jsonl"])
        self.assertEqual(self.bash("--color", "never", "export", "--for"), ["--format"])
        self.assertEqual(self.bash("show", "a.h5", "--color", "=", "al"), ["always"])  # as bash splits --color=al
        keys = self.bash("run", "job.yaml", "--set", "sampling.top_")
        self.assertEqual(keys, ["sampling.top_k=", "sampling.top_p="])
        self.assertEqual(self.bash("run", "job.yaml", "--set", "output.flush_every.p"), ["output.flush_every.prompts="])
        for words in (("run", "jo"), ("run", ""), ("show", ""), ("export", "a.h5", "-o", "")):
            self.assertEqual(self.bash(*words), [], words)  # left to bash's own names of files
        self.assertEqual(self.bash("completion", ""), ["bash", "zsh", "fish"])

    def test_bash_completes_files_where_nothing_else_fits(self):
        r = subprocess.run(["bash", "-c", f'source {self.files["bash"]}; complete -p tpinfer'], capture_output=True, text=True)
        self.assertEqual(r.stdout.strip(), "complete -o default -F _tpinfer tpinfer")

    def typed_in_zsh(self, line, wanted):
        """What a zsh on a terminal shows for this line and two presses of the tab key, until `wanted` is in it."""
        process, terminal = pty.fork()
        if process == 0:
            os.environ["TERM"] = "xterm"
            os.execvp("zsh", ["zsh", "-f", "-i"])
        shown = ""

        def wait_for(text):
            nonlocal shown
            end = time.monotonic() + 20
            while text not in shown and time.monotonic() < end:
                if select.select([terminal], [], [], 0.2)[0]:
                    shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(terminal, 65536).decode(errors="replace"))
        os.write(terminal, f"autoload -Uz compinit; compinit -D -u; source {self.files['zsh']}; PS1='rea''dy> '\n".encode())
        wait_for("ready> ")
        shown = ""
        os.write(terminal, line.encode() + b"\t\t")
        wait_for(wanted)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)
        return shown

    def test_zsh(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        subprocess.run(["zsh", "-n", self.files["zsh"]], check=True)
        for line, wanted in (("tpinfer run job.yaml --progress ", "lines"), ("tpinfer j.yaml --set sampling.top_", "sampling.top_p="),
                             ("tpinfer ver", "ify")):
            self.assertIn(wanted, self.typed_in_zsh(line, wanted), line)
        text = self.files["zsh"].read_text()
        for command, options in self.commands.items():
            self.assertIn(f"'{command}:", text)
            for option in options:
                self.assertIn(option, text)

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        def fish(line):
            r = subprocess.run(["fish", "-N", "-c", f'source {self.files["fish"]}; complete -C "{line}"'], capture_output=True, text=True)
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            return [l.split("\t")[0] for l in r.stdout.splitlines()]
        self.assertEqual(fish("tpinfer ver"), ["verify"])
        self.assertTrue(set(self.commands) <= set(fish("tpinfer ")))
        for command, options in self.commands.items():
            self.assertTrue(set(options) <= set(fish(f"tpinfer {command} --")), command)
        self.assertEqual(sorted(fish("tpinfer run job.yaml --progress ")), ["auto", "bar", "lines", "none"])
        self.assertEqual(fish("tpinfer job.yaml --progress l"), ["lines"])
        self.assertIn("sampling.top_k=", fish("tpinfer run job.yaml --set sampling.top_"))

    def test_wrong_shell(self):
        self.assertEqual(jobs.start(0, "completion", "tcsh").returncode, 2)

    def test_man(self):
        page = output("man")
        plain = re.sub(r"\\f[BIR]|\\&", "", page).replace("\\-", "-").replace("\\e", "\\")
        for command, options in self.commands.items():
            part = plain.split(f".SS tpinfer {command}\n")[1].split("\n.S")[0]
            for option in options:
                self.assertRegex(part, rf"(?m)^(-\w, )?{option}\b", (command, option))
        readme = (jobs.ROOT / "README.md").read_text()
        for code in re.findall(r"^\| (\d+) \|", readme.split("## Exit codes")[1].split("##")[0], flags=re.M):
            self.assertIn(f".TP\n.B {code}\n", page)
        if shutil.which("groff"):
            r = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True)
            self.assertEqual(r.stderr, "")
            self.assertIn("EXIT STATUS", re.sub("\x1b\\[[0-9;]*m|.\b", "", r.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)
