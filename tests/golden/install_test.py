#!/usr/bin/env python3
"""`cmake --install` and the Debian package: all that belongs to them, running from where they were put; the workflow runs what .ci/run runs.

  install_test.py CMAKE BUILD_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import bare_debian
import jobs

CMAKE, BUILD = (pathlib.Path(word) for word in sys.argv[1:3])
FILES = ["bin/tpinfer", "share/man/man1/tpinfer.1", "share/bash-completion/completions/tpinfer", "share/zsh/vendor-completions/_tpinfer",
         "share/fish/vendor_completions.d/tpinfer.fish", "share/doc/tpinfer/README.md", "share/doc/tpinfer/copyright",
         "share/tpinfer/configs/greedy.yaml", "share/tpinfer/jobs/chat.yaml", "share/tpinfer/jobs/chat.jsonl", "share/tpinfer/jobs/slurm/srun.sbatch"]


def checked(*words, **more):
    r = subprocess.run([str(w) for w in words], capture_output=True, text=True, **more)
    if r.returncode != 0:
        raise AssertionError(f"{words}: exit {r.returncode}: {r.stdout[-2000:]}{r.stderr[-2000:]}")
    return r.stdout


class Install(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.place = pathlib.Path(holder.name)

    def expect_works(self, prefix):
        """The program at `prefix` and its jobs, away from the sources."""
        for name in FILES:
            self.assertTrue((prefix / name).is_file(), name)
        self.assertFalse(list(prefix.rglob("*.h5")))
        program = prefix / "bin" / "tpinfer"
        self.assertIn("tpinfer ", checked(program, "--version"))
        self.assertNotIn(str(BUILD), checked("readelf", "-d", program))
        env = dict(jobs.ENV, MODEL_DIR=str(jobs.MODELS / "tiny-qwen2-moe"))
        out = self.place / "chat.h5"
        checked(program, prefix / "share/tpinfer/jobs/chat.yaml", "--set", f"output.file={out}", "--progress", "none", env=env)
        self.assertIn("sound", checked(program, "verify", out))

    def test_install(self):
        checked(CMAKE, "--install", BUILD, "--prefix", self.place / "usr")
        self.expect_works(self.place / "usr")
        for command in ("bash", "zsh", "fish"):  # what was installed is what the program says
            name = {"bash": FILES[2], "zsh": FILES[3], "fish": FILES[4]}[command]
            self.assertEqual((self.place / "usr" / name).read_text(), checked(jobs.TPINFER, "completion", command))
        self.assertEqual((self.place / "usr" / FILES[1]).read_text(), checked(jobs.TPINFER, "man"))

    def make_package(self):
        if not shutil.which("dpkg-shlibdeps"):
            self.skipTest("dpkg-shlibdeps (dpkg-dev) is not installed")
        checked(CMAKE.parent / "cpack", "--config", BUILD / "CPackConfig.cmake", "-B", self.place / "package")
        (package,) = (self.place / "package").glob("*.deb")
        return package

    def test_package(self):
        package = self.make_package()
        depends = checked("dpkg-deb", "-f", package, "Depends")
        for library in ("openmpi-bin", "libopenmpi3", "libhdf5", "libyaml-cpp", "libfmt", "libc6"):
            self.assertIn(library, depends)
        checked("dpkg-deb", "-x", package, self.place / "root")
        self.expect_works(self.place / "root" / "usr")

    def test_package_on_a_clean_root(self):
        root = self.place / "clean"
        bare_debian.make(root)
        package = self.make_package()
        shutil.copy(package, root / "tmp" / package.name)
        shutil.copytree(jobs.MODELS / "tiny-qwen2-moe", root / "tmp" / "model")
        bare_debian.run(root, f"apt-get install -y --no-install-recommends /tmp/{package.name}")
        env = {"MODEL_DIR": "/tmp/model", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.assertIn("[OK]", bare_debian.run(root, "tpinfer info", env))
        run = "tpinfer /usr/share/tpinfer/jobs/chat.yaml --set output.file=/tmp/chat.h5"
        bare_debian.run(root, run, env)
        bare_debian.run(root, f"mpirun --oversubscribe -np 2 {run}", env)
        self.assertIn("sound", bare_debian.run(root, "tpinfer verify /tmp/chat.h5", env))

    def test_the_workflow(self):
        text = (jobs.ROOT / ".github" / "workflows" / "ci.yml").read_text()
        self.assertIn("run: .ci/run\n", text)
        self.assertTrue(os.access(jobs.ROOT / ".ci" / "run", os.X_OK))
        try:
            import yaml
        except ImportError:
            self.skipTest("no yaml module")
        self.assertEqual(yaml.safe_load(text)["jobs"]["test"]["container"]["image"], "debian:12")
        sample = yaml.safe_load((jobs.ROOT / "jobs" / "gpu-runner.yml").read_text())["jobs"]["answers"]
        known = jobs.start(0, "--help").stdout
        for words in (line.split() for step in sample["steps"] for line in step.get("run", "").splitlines()):
            if "tpinfer" in words and not (command := words[words.index("tpinfer") + 1]).endswith(".yaml"):
                self.assertIn(f"\n  {command} ", known)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
