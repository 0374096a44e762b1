#!/usr/bin/env python3
"""All commands and code blocks of README.md and .github/CONTRIBUTING.md run, in the order in which they stand, in a folder that looks like a
clone with a program that is built. What cannot run here is listed below by its exact words, with the test that covers it or the reason."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import job_yaml
import jobs
import numpy as np
from model_maker import Model

FILES = ("README.md", ".github/CONTRIBUTING.md")
ELSEWHERE = {  # words of a command: where it runs instead
    "bash jobs/quickstart.sh": "installs packages and builds; its job: tests/golden/seed_jobs_test.py",
    "bash tests/run.sh": "runs this test: .ci/run",
    "bash tests/run.sh --all": "runs this test: tests/run.sh",
    "cmake --preset release && cmake --build build/release": "jobs/container/build.sh, in tests/golden/container_test.py",
    "cmake --preset release && cmake --build build/release && ctest --preset release -L unit": "builds what runs this test: tests/run.sh",
    "ctest --test-dir build/release -R golden.verify --output-on-failure": "ctest runs this test: tests/run.sh",
    "cmake --install build/release": "tests/golden/install_test.py",
    "cpack --config build/release/CPackConfig.cmake": "tests/golden/install_test.py",
    "sbatch -N 2 --ntasks-per-node 4 jobs/slurm/srun.sbatch job.yaml": "tests/slurm/slurm_test.py",
    "sbatch --array 0-7 -n 1 jobs/slurm/array.sbatch job.yaml answers": "tests/slurm/slurm_test.py",
    "tpinfer merge answers.*.h5 -o answers.h5": "tests/slurm/slurm_test.py",
    "MODEL_DIR=/models/X mpirun -np 4 tpinfer jobs/NAME.yaml": "tests/golden/jobs_test.py",
}
SHORTENED = {  # a command that stands in a sentence: the same with all that it needs
    "tpinfer plan MODEL_DIR": "tpinfer plan tests/data/models/tiny-llama",
    "tpinfer plan MODEL_DIR --tensors": "tpinfer plan tests/data/models/tiny-llama --tensors",
    "tpinfer plan MODEL_DIR --ranks 4 --tensors": "tpinfer plan tests/data/models/tiny-llama --ranks 4 --tensors",
    "tpinfer plan --ranks 1..8": "tpinfer plan job.yaml --ranks 1..8",
    "tpinfer diff a.h5 b.h5": "tpinfer diff answers.h5 one.h5",
    "tpinfer show --json": "tpinfer show answers.h5 --json",
    "tpinfer export --format jsonl": "tpinfer export answers.h5 --format jsonl",
}
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*(?:tpinfer|mpirun|bash|cmake|cpack|ctest|sbatch|python3|h5ls|h5dump) \S")


class Block:
    def __init__(self, file, line, language, text):
        self.place, self.language, self.text = f"{file}:{line}", language, text


def blocks():
    for name in FILES:
        text = (jobs.ROOT / name).read_text()
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.M | re.S):
            yield Block(name, text.count("\n", 0, found.start()) + 1, found[1], found[2])


def without_comment(line):
    return re.split(r"\s+# ", line)[0].strip()


def lines_of(language):
    """(place, words) of each command of the shell blocks."""
    return [(b.place, without_comment(line)) for b in blocks() if b.language == language for line in b.text.splitlines() if without_comment(line)]


def sentences():
    """The commands that stand in sentences and tables."""
    found = []
    for name in FILES:
        text = re.sub(r"^```.*?^```$", "", (jobs.ROOT / name).read_text(), flags=re.M | re.S)
        found += [(name, span) for span in re.findall(r"`([^`\n]+)`", text) if COMMAND.match(span)]
    return found


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.clone = pathlib.Path(holder.name) / "clone"
        (cls.clone / "build/release/bin").mkdir(parents=True)
        (cls.clone / "build/release/bin/tpinfer").symlink_to(jobs.TPINFER)
        for name in ("jobs", "configs", "tests"):
            (cls.clone / name).symlink_to(jobs.ROOT / name)
        for block in blocks():  # what is to be a file says so in its first line
            if named := re.match(r"# (\w+\.ya?ml)\b", block.text):
                (cls.clone / named[1]).write_text(block.text)
        cls.state = cls.clone / ".state"
        cls.state.write_text("")
        cls.ran = set()
        cls.failed = []
        for place, words in lines_of("sh") + [(n, s) for n, s in sentences() if len(s.split()) > 2]:
            if words not in ELSEWHERE:
                cls.run_line(place, SHORTENED.get(words, words))

    @classmethod
    def run_line(cls, place, words):
        """In one shell after the other, which hand their variables on."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_")}
        script = f'. "{cls.state}"\n{words}\nresult=$?\nexport -p > "{cls.state}"\nexit $result'
        r = subprocess.run(["bash", "-c", script], cwd=cls.clone, env=env, capture_output=True, text=True, timeout=120)
        cls.ran.add(words)
        if r.returncode != 0:
            cls.failed.append(f"{place}: {words}: exit {r.returncode}: {r.stdout[-500:]}{r.stderr[-1000:]}")

    def test_every_command_ran(self):
        self.assertEqual(self.failed, [])
        self.assertGreater(len(self.ran), 20)

    def test_sentences(self):
        for name, span in sentences():
            alone = re.fullmatch(r"tpinfer \w+", span)  # a command's name
            ran = span in self.ran or (alone and any(words.startswith(span + " ") for words in self.ran))
            self.assertTrue(span in ELSEWHERE or span in SHORTENED or ran, f"{name}: {span} is run nowhere")

    def test_the_lists_are_current(self):
        known = {words for _, words in lines_of("sh") + sentences()}
        self.assertEqual((set(ELSEWHERE) | set(SHORTENED)) - known, set())
        for reason in ELSEWHERE.values():
            self.assertTrue((jobs.ROOT / re.findall(r"[.\w]+/[./\w]+", reason)[-1]).exists(), reason)

    def test_no_block_of_another_language(self):
        self.assertEqual({b.language for b in blocks()}, {"sh", "yaml", "python"})
        for block in blocks():
            if block.language == "yaml":
                self.assertRegex(block.text, r"^# \w+\.yaml\b", block.place)

    def test_options_are_those_of_the_command(self):
        """Also those that the comment behind a command names."""
        lines = [line.strip() for b in blocks() if b.language == "sh" for line in b.text.splitlines()] + [s for _, s in sentences()]
        seen = 0
        for line in lines:
            words = re.sub(r"`[^`]*`", "", line).split("tpinfer ", 1)
            if not COMMAND.match(line) or len(words) < 2:
                continue
            command = words[1].split()[0]
            known = jobs.start(0, *([command] if re.fullmatch(r"[a-z]+", command) else ["run"]), "--help").stdout
            for option in re.findall(r"(?<!\S)(--[a-z-]+)", words[1]):
                self.assertRegex(known, rf"(?m)[ ,]{option}\b", line)
                seen += 1
        self.assertGreater(seen, 15)

    def test_python_and_the_other_ways_to_the_answers(self):
        (block,) = (b for b in blocks() if b.language == "python")
        probe = "\nimport json\nprint(json.dumps([texts.tolist(), first_answer.tolist(), owned.tolist(), predicted.tolist()]))\n"
        r = subprocess.run([sys.executable, "-c", block.text + probe], cwd=self.clone, capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        texts, first, owned, predicted = json.loads(r.stdout)
        rows = [json.loads(line) for line in (self.clone / "answers.jsonl").read_text().splitlines()]
        self.assertEqual(texts, [row["text"] for row in rows])
        self.assertEqual(first, rows[0]["token_ids"])
        self.assertEqual((len(texts), len(owned), len(predicted)), (2, 2, 2))
        self.assertTrue(all(0 < mine < sum(all_parts) for mine, all_parts in zip(owned, predicted)))

    def test_what_was_made(self):
        self.assertIn("<svg", (self.clone / "page.html").read_text())
        self.assertIn("properties", json.loads((self.clone / "job.schema.json").read_text()))
        self.assertIn("complete", (self.clone / "tpinfer.bash").read_text())
        with jobs.h5py.File(self.clone / "all.h5") as merged, jobs.h5py.File(self.clone / "answers.h5") as whole:
            self.assertEqual(sorted(merged["results/text"].asstr()[:]), sorted(whole["results/text"].asstr()[:]))
            self.assertEqual(len(set(whole["ranks/rank"][:])), 2)

    def test_defaults_in_the_table_of_keys(self):
        schema, seen = json.loads((self.clone / "job.schema.json").read_text()), 0
        table = (jobs.ROOT / "README.md").read_text().split("| key | default | meaning |")[1].split("\n\n")[0]
        for keys, default in re.findall(r"^\| (`.+?) \| (.*?) ?\| ", table, flags=re.M):
            names = re.findall(r"`([\w.]+)`", re.sub(r"\(.*?\)", "", keys))
            values = default.split(", ") if len(names) > 1 else [default]
            values *= len(names) if len(values) == 1 else 1  # one for all
            self.assertEqual(len(values), len(names), keys)
            section = names[0].rpartition(".")[0]
            for name, value in zip(names, values):
                place = schema
                for key in (name if "." in name else f"{section}.{name}").split("."):
                    place = next(c for c in [place, *place.get("anyOf", [])] if "properties" in c)["properties"][key]
                if not (want := re.sub("`.*`", "", value)) or "default" not in place:
                    continue
                self.assertEqual(job_yaml.load(want), place["default"], name)
                seen += 1
        self.assertGreater(seen, 50)

    def test_the_roles_of_an_own_model(self):
        """own.yaml on a model whose q, k and v are one tensor with a bias (of zeros): the answers of the model that it was made of."""
        own, model = self.clone / "own", Model(jobs.MODELS / "tiny-llama")
        model.config["architectures"] = ["OwnForCausalLM"]
        for layer in range(model.config["num_hidden_layers"]):
            name = f"model.layers.{layer}.self_attn."
            fused = np.concatenate([model.tensors.pop(f"{name}{part}_proj.weight") for part in "qkv"])
            model.tensors |= {f"{name}qkv.weight": fused, f"{name}qkv.bias": np.zeros_like(fused[:, 0])}
        model.write(own)
        self.assertEqual(jobs.start(0, "plan", str(own)).returncode, 3)  # not without it
        job = str(self.clone / "job.yaml")
        r = jobs.start(2, job, "--set", f"model.path={own}", "--set", f"model.architecture_plan={self.clone}/own.yaml",
                       "--set", f"output.file={self.clone}/own.h5", "--progress", "none")
        self.assertEqual(r.returncode, 0, r.stderr)
        r = jobs.start(0, "export", str(self.clone / "own.h5"), "--format", "jsonl")
        self.assertEqual(r.stdout, (self.clone / "answers.jsonl").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
