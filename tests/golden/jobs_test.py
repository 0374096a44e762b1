#!/usr/bin/env python3
"""All jobs of jobs/ with all presets of configs/: `tpinfer check` finds nothing once there is a model, and the small ones run as they are."""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np

# jobs for large models that others stand in for
SMALL = {"mixtral-8x7b": "tiny-mixtral", "llama-2-13b-fp32": "tiny-llama", "starcoder": "tiny-gpt-bigcode", "qwen1.5-moe": "tiny-qwen2-moe"}
RUN = ("chat", "params", "sampling", "logprobs", "resume")


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.dir.name)
        for folder in ("jobs", "configs"):
            shutil.copytree(jobs.ROOT / folder, cls.root / folder, ignore=shutil.ignore_patterns("*.h5*"))
        (cls.root / "tests" / "data").mkdir(parents=True)
        (cls.root / "tests" / "data" / "models").symlink_to(jobs.MODELS)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def test_check_finds_nothing(self):
        found = sorted((self.root / "jobs").glob("*.yaml"))
        self.assertGreaterEqual(len(found), len(SMALL) + len(RUN) + 1)
        for job in found:
            env = {"MODEL_DIR": str(jobs.MODELS / SMALL[job.stem])} if job.stem in SMALL else None
            r = jobs.start(0, "check", str(job), "--json", env=env)
            report = json.loads(r.stdout)
            self.assertEqual((r.returncode, [f for f in report["findings"] if f["severity"] == "error"]), (0, []), job.name)

    def test_check_looks_on_behind_faults_of_the_job(self):
        job = self.root / "several.yaml"
        job.write_text(f"model: {jobs.MODELS / 'tiny-llama'}\nprompts: {{file: nowhere.txt}}\nsampling:\n  tempreture: 1\n  top_p: 7\n"
                       "output: {file: nofolder/o.h5}\n")
        r = jobs.start(0, "check", str(job), "--json")
        report = json.loads(r.stdout)
        self.assertEqual((r.returncode, report["exit"]), (2, 2))
        self.assertEqual([f["kind"] for f in report["findings"]], ["job", "job", "prompts", "output"])
        for finding, words in zip(report["findings"], ("several.yaml:4:3: error: sampling.tempreture", "several.yaml:5:10: error: sampling.top_p",
                                                       "nowhere.txt", "nofolder")):
            self.assertIn(words, finding["message"])
        # a job that does not name its parts gives nothing to look at
        job.write_text("sampling: {tempreture: 1}\n")
        r = jobs.start(0, "check", str(job), "--json")
        self.assertEqual((r.returncode, {f["kind"] for f in json.loads(r.stdout)["findings"]}), (2, {"job"}))

    def test_every_preset_can_be_included(self):
        presets = sorted((self.root / "configs").glob("*.yaml"))
        self.assertGreaterEqual(len(presets), 3)
        for preset in presets:
            text = preset.read_text()
            self.assertTrue(text.startswith("# "), preset.name)
            self.assertIn(f"include: [configs/{preset.name}]", text)
            job = self.root / "mine.yaml"
            job.write_text(f"include: [configs/{preset.name}]\nmodel: {jobs.MODELS / 'tiny-llama'}\n"
                           "prompts: {file: jobs/quickstart.txt}\noutput: {file: mine.h5}\n")
            r = jobs.start(0, "check", str(job))
            self.assertEqual(r.returncode, 0, (preset.name, r.stderr))

    def test_presets_are_stored_resolved_and_the_jobs_own_keys_win(self):
        job = self.root / "own.yaml"
        job.write_text(f"include: [configs/sample.yaml, configs/low-memory.yaml]\nmodel: {jobs.MODELS / 'tiny-llama'}\n"
                       "prompts: {file: jobs/quickstart.txt}\nsampling: {temperature: 0.3, max_new_tokens: 2}\noutput: {file: own.h5}\n")
        r = jobs.start(0, str(job), "--progress", "none", "--limit", "1")
        self.assertEqual(r.returncode, 0, r.stderr)
        with jobs.h5py.File(self.root / "own.h5") as h:
            resolved, source = (h[f"job/{name}"].asstr()[()] for name in ("resolved", "source"))
        for line in ("temperature: 0.3", "top_p: 0.95", "max_num_batched_tokens: 256", "kv_cache: 8192", "include: []"):
            self.assertIn(line, resolved)
        self.assertEqual(source, job.read_text())
        # --set beats both, and what is stored is a whole job that needs no preset
        again = self.root / "elsewhere"
        again.mkdir()
        (again / "resolved.yaml").write_text(resolved)
        r = jobs.start(0, str(again / "resolved.yaml"), "--progress", "none", "--set", f"output.file={again}/o.h5", "--set", "sampling.top_p=0.5")
        self.assertEqual(r.returncode, 0, r.stderr)
        with jobs.h5py.File(again / "o.h5") as h:
            self.assertIn("top_p: 0.5", h["job/resolved"].asstr()[()])

    def test_include_faults(self):
        job = self.root / "faulty.yaml"
        rest = "model: m\nprompts: {file: p}\noutput: {file: o}\n"
        (self.root / "loop.yaml").write_text("include: faulty.yaml\n")
        for text, words in (("include: [configs/greddy.yaml]\n", "faulty.yaml:1:11: error: include: "),
                            ("include: loop.yaml\n", "loop.yaml:1:10: error: include: includes go in a circle: ")):
            job.write_text(text + rest)
            for command in ("run", "check", "plan"):
                r = jobs.start(0, command, str(job))
                self.assertEqual((r.returncode, words in r.stderr), (2, True), (command, r.stderr))

    def test_the_small_jobs_run(self):
        results = {}
        for name in RUN:
            r = jobs.start(2, str(self.root / "jobs" / f"{name}.yaml"), "--progress", "none")
            self.assertEqual(r.returncode, 0, (name, r.stderr))
            results[name] = jobs.read(self.root / "jobs" / f"{name}.h5")
            self.assertEqual(set(results[name]["error"]), {""}, name)
        chat, params, drawn, scored = (results[n] for n in ("chat", "params", "sampling", "logprobs"))
        with jobs.h5py.File(self.root / "jobs" / "chat.h5") as h:
            seen = dict(zip(h["prompts/id"].asstr()[:], h["prompts/text"].asstr()[:]))
        self.assertIn("You answer in one short sentence.", seen["sky"])
        self.assertNotIn("You answer in one short sentence.", seen["terse"])
        self.assertIn("Paris.", seen["capital"])
        by_id = {params["id"][i]: [ids for ids, at in zip(params["ids"], params["index"]) if at == i] for i in range(len(params["id"]))}
        self.assertEqual(len(by_id["short"][0]), 4)
        self.assertEqual(by_id["short"][0].tolist(), by_id["as-the-job-says"][0][:4].tolist())
        self.assertEqual(len(by_id["four-drawn"]), 4)
        self.assertGreater(len({tuple(ids) for ids in by_id["four-drawn"]}), 1)
        self.assertEqual(len(drawn["ids"]), 3 * len(drawn["id"]))
        self.assertTrue(all("war" not in text.split() for text in drawn["text"]))
        self.assertTrue(all(top.shape == (len(ids), 5) for top, ids in zip(scored["top_ids"], scored["ids"])))
        self.assertTrue(all(np.isfinite(p[1:]).all() for p in scored["prompt_logprobs"]))
        self.assertEqual(len(results["resume"]["ids"]), 8)


if __name__ == "__main__":
    unittest.main(verbosity=2)
