#!/usr/bin/env python3
"""The container recipes: both say the same, and (TPINFER_LONG_TESTS=1) their steps, run in two bare Debian roots, end with a program that works."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import bare_debian
import jobs

FOLDER = jobs.ROOT / "jobs" / "container"


def dockerfile():
    """-> [(commands, {variable: value})] of each stage."""
    stages = []
    for line in (FOLDER / "Dockerfile").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append(([], {}))
        elif word == "RUN":
            stages[-1][0].append(rest)
        elif word == "ENV":
            stages[-1][1].update([rest.split("=", 1)])
    return stages


class Container(unittest.TestCase):
    def test_both_recipes_say_the_same(self):
        stages = dockerfile()
        self.assertEqual(len(stages), 2)
        text = (FOLDER / "tpinfer.def").read_text()
        posts = [[line.strip() for line in part.splitlines() if line.strip()] for part in re.findall(r"^%post\n((?:    .*\n)+)", text, flags=re.M)]
        self.assertEqual(posts, [commands for commands, _ in stages])
        for name in re.findall(r"export (\w+)=", text):
            self.assertIn(name, stages[1][1])
        self.assertTrue(os.access(FOLDER / "build.sh", os.X_OK))

    def test_the_steps_in_bare_roots(self):
        holder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(holder.cleanup)
        self.place = pathlib.Path(holder.name)
        (build, _), (final, env) = dockerfile()
        first, second = self.place / "build", self.place / "final"
        bare_debian.make(first)
        subprocess.run(["cp", "-a", first, second], check=True)
        for name in subprocess.run(["git", "ls-files"], cwd=jobs.ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
            if not name.startswith("tests/"):
                (first / "src" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(jobs.ROOT / name, first / "src" / name)
        for command in build:
            bare_debian.run(first, command)
        shutil.copytree(first / "package", second / "package")
        for command in final:
            bare_debian.run(second, command)
        shutil.copytree(jobs.MODELS / "tiny-qwen2-moe", second / "models")
        env = {**env, "MODEL_DIR": "/models"}
        self.assertIn("[OK]", bare_debian.run(second, "tpinfer info", env))
        bare_debian.run(second, "mpirun --oversubscribe -np 2 tpinfer /usr/share/tpinfer/jobs/chat.yaml --set output.file=/chat.h5", env)
        self.assertIn("sound", bare_debian.run(second, "tpinfer verify /chat.h5", env))


if __name__ == "__main__":
    unittest.main(verbosity=2)
