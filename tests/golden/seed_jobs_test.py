#!/usr/bin/env python3
"""The jobs of jobs/ for the four cases that began the project: run as they are on the small models with 4 ranks, planned at real size."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np

SPARSE = jobs.SHARED / "tools" / "checkpoints" / "make_sparse.py"
PADDING = 4096  # bytes that a small matrix of odd shape may need beyond 2 %; at real size this is nothing


class Seed:
    def __init__(self, small, real, sparse_args, bytes_each, dtype, prompts, new_tokens=None, length=None, top_k=None):
        self.small, self.real, self.sparse_args, self.bytes_each, self.dtype = small, real, sparse_args, bytes_each, dtype
        self.prompts, self.new_tokens, self.length, self.top_k = prompts, new_tokens, length, top_k


QUICKSTART = (jobs.ROOT / "jobs" / "quickstart.txt").read_text().splitlines()
SEEDS = {
    "mixtral-8x7b": Seed("tiny-mixtral", "mixtral-8x7b-v0.1", ["--dtype", "F16"], 23_353_368_576, "float16", ["Hello, my dog is cute"], length=128),
    "llama-2-13b-fp32": Seed("tiny-llama", "llama-2-13b-hf", [], 13_017_108_480, "float32", QUICKSTART, length=100),
    "starcoder": Seed("tiny-gpt-bigcode", "starcoder", ["--dtype", "BF16"], 7_930_843_136, "bfloat16", ["DeepSpeed is"], new_tokens=200),
    "qwen1.5-moe": Seed("tiny-qwen2-moe", "qwen1.5-moe-a2.7b", [], 7_162_540_032, "bfloat16", None, new_tokens=128, top_k=5),
}


def job_file(name):
    return str(jobs.ROOT / "jobs" / f"{name}.yaml")


class SeedJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.results = {name: {ranks: cls.run_job(name, ranks) for ranks in (1, 4)} for name in SEEDS}

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    @classmethod
    def run_job(cls, name, ranks):
        """-> path of the result file."""
        out = pathlib.Path(cls.dir.name) / f"{name}.{ranks}.h5"
        r = jobs.start(ranks, job_file(name), "--set", f"output.file={out}", "--progress", "none",
                       env={"MODEL_DIR": str(jobs.MODELS / SEEDS[name].small)})
        if r.returncode != 0:
            raise AssertionError(f"{name} on {ranks} ranks: exit {r.returncode}: {r.stderr}")
        return out

    def test_every_prompt_has_its_answer_within_the_limits(self):
        for name, seed in SEEDS.items():
            with self.subTest(job=name):
                result = jobs.read(self.results[name][4])
                with jobs.h5py.File(self.results[name][4]) as h:
                    texts = h["prompts/text"].asstr()[:].tolist()
                    prompt_tokens = h["prompts/n_tokens"][:]
                self.assertEqual(result["attrs"]["dtype_compute"], seed.dtype)
                self.assertEqual(result["attrs"]["world_size"], 4)
                self.assertEqual(result["attrs"]["reproducible"], "full")
                if seed.prompts:
                    self.assertEqual(texts, seed.prompts)
                self.assertEqual(sorted(result["index"]), list(range(len(texts))))
                self.assertEqual(set(result["error"]), {""})
                for prompt, ids, logprobs, text, reason in zip(*(result[k] for k in ("index", "ids", "logprobs", "text", "reason"))):
                    most = seed.new_tokens or seed.length - prompt_tokens[prompt]
                    stopped = reason == 0
                    self.assertTrue(len(ids) == most or (stopped and 0 < len(ids) < most), (name, prompt, reason, len(ids)))
                    self.assertEqual(len(logprobs), len(ids))
                    self.assertTrue(np.isfinite(logprobs).all() and (logprobs <= 0).all())
                    self.assertTrue(text or stopped, (name, prompt))
                if seed.top_k:
                    self.assertTrue(all(top.shape == (len(ids), seed.top_k) for top, ids in zip(result["top_ids"], result["ids"])))

    def test_1_and_4_ranks_answer_alike_bit_by_bit(self):
        for name in SEEDS:
            one, four = (jobs.read(self.results[name][ranks]) for ranks in (1, 4))
            self.assertTrue(jobs.same_bits(one, four), name)

    def test_each_rank_owns_what_was_planned(self):
        for name, seed in SEEDS.items():
            whole = None
            for ranks in (1, 4):
                with jobs.h5py.File(self.results[name][ranks]) as h:
                    planned, owned = h["ranks/weights/bytes_planned"][:], h["ranks/weights/bytes_owned"][:]
                words = ["plan", job_file(name), "--ranks", str(ranks), "--tensors", "--json"]
                plan = json.loads(jobs.start(0, *words, env={"MODEL_DIR": str(jobs.MODELS / seed.small)}).stdout)
                self.assertEqual(planned.tolist(), [r["weights_bytes"] for r in plan["ranks"]], name)
                self.assertTrue((owned >= planned).all(), name)
                self.assertTrue((owned <= planned * 1.02 + PADDING * len(plan["tensors"])).all(), (name, planned, owned))
                whole = whole or int(planned[0])
                if ranks == 4:
                    self.assertLess(planned.max(), whole * 0.4, name)

    def test_real_models_fit_on_4_ranks(self):
        if not SPARSE.exists():
            self.skipTest(f"{SPARSE} is not there")
        for name, seed in SEEDS.items():
            folder = pathlib.Path(self.dir.name) / "real" / name
            subprocess.run([sys.executable, str(SPARSE), seed.real, str(folder), *seed.sparse_args], check=True, stdout=subprocess.DEVNULL)
            r = jobs.start(0, "plan", job_file(name), "--ranks", "4", "--memory", "80GiB", "--json", env={"MODEL_DIR": str(folder)})
            self.assertEqual(r.returncode, 0, r.stderr)
            plan = json.loads(r.stdout)
            self.assertTrue(plan["fits"])
            self.assertEqual(plan["model"]["dtype_compute"], seed.dtype)
            self.assertEqual([rank["weights_bytes"] for rank in plan["ranks"]], [seed.bytes_each] * 4, name)
            if plan["prompts"]:
                self.assertEqual(plan["prompts"]["cannot_run"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
