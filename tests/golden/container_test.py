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
import jobs

FOLDER = jobs.ROOT / "jobs" / "container"
MIRROR = os.environ.get("TPINFER_DEBIAN", "http://deb.debian.org/debian")
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


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

    def root(self, name):
        root, bare = self.place / name, self.place / "bare"
        if not bare.exists():
            made = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(bare), MIRROR], capture_output=True, text=True)
            if made.returncode != 0:
                self.skipTest(f"debootstrap has no mirror to take packages from: {made.stdout[-300:]}")
        subprocess.run(["cp", "-a", bare, root], check=True)
        for kind, folder in (("proc", "proc"), ("tmpfs", "dev/shm")):
            (root / folder).mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", kind, kind, root / folder], check=True)
            self.addCleanup(subprocess.run, ["umount", root / folder], check=True)
        return root

    def inside(self, root, command, env=None):
        r = subprocess.run(["chroot", root, "bash", "-c", command], env={"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive", **(env or {})},
                           capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, (command, r.stdout[-1500:], r.stderr[-1500:]))
        return r.stdout

    def test_the_steps_in_bare_roots(self):
        if not os.environ.get("TPINFER_LONG_TESTS"):
            self.skipTest("only with TPINFER_LONG_TESTS=1")
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            self.skipTest("needs root and debootstrap")
        holder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(holder.cleanup)
        self.place = pathlib.Path(holder.name)
        (build, _), (final, env) = dockerfile()
        first, second = self.root("build"), self.root("final")
        for name in subprocess.run(["git", "ls-files"], cwd=jobs.ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
            if not name.startswith("tests/"):
                (first / "src" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(jobs.ROOT / name, first / "src" / name)
        for command in build:
            self.inside(first, command)
        shutil.copytree(first / "package", second / "package")
        for command in final:
            self.inside(second, command)
        shutil.copytree(jobs.MODELS / "tiny-qwen2-moe", second / "models")
        env = {**env, "MODEL_DIR": "/models"}
        self.assertIn("[OK]", self.inside(second, "tpinfer info", env))
        self.inside(second, "mpirun --oversubscribe -np 2 tpinfer /usr/share/tpinfer/jobs/chat.yaml --set output.file=/chat.h5", env)
        self.assertIn("sound", self.inside(second, "tpinfer verify /chat.h5", env))


if __name__ == "__main__":
    unittest.main(verbosity=2)
