#!/usr/bin/env python3
"""model.load_format: dummy: random weights of the config's shapes, from config.json alone, the same model on every number of ranks."""
import json
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

np = jobs.np
MODELS = ["tiny-llama", "tiny-mixtral", "tiny-qwen2-moe", "tiny-gpt-bigcode"]
RECORDS = [{"id": str(i), "token_ids": [3 + i, 7, 11, 5 * i + 2], "params": {"max_new_tokens": 16, "prompt_logprobs": 0}} for i in range(3)]
DUMMY = {"load_format": "dummy"}


class DummyWeights(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)

    def config_of(self, model):
        folder = self.place.path / model
        folder.mkdir(exist_ok=True)
        shutil.copy(jobs.MODELS / model / "config.json", folder)
        return str(folder)

    def run_it(self, ranks, folder, **model):
        return self.place.run(ranks, folder, RECORDS, model={**DUMMY, **model}, parallel={"threads": 1})

    def test_config_alone_is_enough_and_every_rank_count_gets_the_same_model(self):
        for model in MODELS:
            folder = self.config_of(model)
            one = self.run_it(1, folder, dtype="bfloat16")
            self.assertTrue(all(np.isfinite(l[1:]).all() for l in one["prompt_logprobs"]))
            self.assertNotEqual(one["ids"][0].tolist(), one["ids"][2].tolist())
            for ranks in (2, 3):
                self.assertTrue(jobs.same_bits(one, self.run_it(ranks, folder, dtype="bfloat16")), f"{model} on {ranks} ranks")

    def test_nothing_is_read_and_the_plan_is_owned(self):
        folder = self.config_of("tiny-mixtral")
        self.run_it(2, folder, dtype="float16")
        with jobs.h5py.File(self.place.path / "a.h5") as h:
            w = h["ranks/weights"]
            self.assertEqual(w["bytes_read"][:].tolist() + w["bytes_touched"][:].tolist(), [0] * 4)
            plan = json.loads(jobs.start(0, "plan", folder, "--ranks", "2", "--json", "--set", "model.load_format=dummy", "--set", "model.dtype=float16").stdout)
            self.assertEqual(w["bytes_planned"][:].tolist(), [r["weights_bytes"] for r in plan["ranks"]])
            self.assertTrue((w["bytes_owned"][:] >= w["bytes_planned"][:]).all())
            self.assertEqual(h["model"].attrs["dtype_stored"], "float16")

    def test_the_plan_is_that_of_the_checkpoint(self):
        for model in MODELS:
            plans = []
            for folder, words in ((str(jobs.MODELS / model), []), (self.config_of(model), ["--set", "model.load_format=dummy"])):
                r = jobs.start(0, "plan", folder, "--ranks", "1..3", "--json", "--set", "model.dtype=float32", *words)
                self.assertEqual(r.returncode, 0, r.stderr)
                plans.append([[rank["weights_by_role"] for rank in count["ranks"]] for count in json.loads(r.stdout)])
            self.assertEqual(plans[0], plans[1], model)

    def test_it_is_said_and_never_assumed(self):
        folder = self.config_of("tiny-llama")
        job = self.place.job(folder, RECORDS, model=DUMMY)
        r = jobs.start(2, "run", job, "--progress", "none")
        self.assertEqual((r.returncode, r.stderr.count("weights are random (model.load_format: dummy)")), (0, 1), r.stderr)
        r = jobs.start(0, "run", job, "--progress", "none", "--set", "model.load_format=safetensors")
        self.assertEqual(r.returncode, 3, r.stderr)
        self.assertIn("has no weights", r.stderr)


if __name__ == "__main__":
    unittest.main()
