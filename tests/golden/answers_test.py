#!/usr/bin/env python3
"""Whole jobs on the test models: answers against the reference, and the same bits whatever the ranks, threads, batches, chunks and pages."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np

LONG = os.environ.get("TPINFER_LONG_TESTS") == "1"
NAMES = jobs.names()
TRAINED = {n for n in NAMES if n.startswith("tiny-")}
MIXTURES = {n for n in NAMES if "mixtral" in n or "moe" in n}



def usable(kernel_set):
    with jobs.Workplace() as w:
        record = [{"id": "0", "token_ids": [1], "params": {"max_new_tokens": 1}}]
        return jobs.start(0, "run", w.job("rand-llama-tied", record), "--progress", "none", env={"TPINFER_ISA": kernel_set}).returncode == 0


class Reference(unittest.TestCase):
    def check_model(self, name, ranks):
        cases = jobs.golden(name)["cases"]
        with jobs.Workplace() as w:
            got = w.run(ranks, name, jobs.records_of(cases, max_new_tokens=32, logprobs=5), model={"dtype": "float32"})
        self.assertEqual(len(got["ids"]), len(cases))
        for i, case in enumerate(cases):
            self.assertEqual(got["ids"][i].tolist(), case["greedy_ids"], f"{name} case {i} on {ranks} ranks")
            self.assertLess(np.abs(got["logprobs"][i] - case["logprobs"]).max(), 1e-3)
            for step, best in enumerate(case["top5"]):
                self.assertEqual(got["top_ids"][i][step].tolist(), [t for t, _ in best], f"{name} case {i} step {step}")
                self.assertLess(np.abs(got["top_logprobs"][i][step] - [l for _, l in best]).max(), 1e-3)
            self.assertEqual(got["text"][i], case["greedy_text"].replace("\0", "\u2400"))
        return got

    def test_greedy_ids_and_logprobs_on_1_to_4_ranks(self):
        for i, name in enumerate(NAMES):  # logits_test.cpp has all models on all of them
            one = self.check_model(name, 1)
            for ranks in (2, 3, 4) if LONG or name in TRAINED else (2 + i % 3,):
                if ranks > jobs.most_ranks(name):
                    continue
                self.assertTrue(jobs.same_bits(one, self.check_model(name, ranks)), f"{name} on {ranks} ranks")

    def test_prompt_logprobs_are_the_reference(self):
        for name in TRAINED:
            cases = jobs.golden(name)["cases"]
            with jobs.Workplace() as w:
                got = w.run(2, name, jobs.records_of(cases, max_new_tokens=1, prompt_logprobs=2), model={"dtype": "float32"})
            for i, case in enumerate(cases):
                self.assertTrue(np.isnan(got["prompt_logprobs"][i][0]))
                self.assertLess(np.abs(got["prompt_logprobs"][i][1:] - case["prompt_logprobs"][1:]).max(initial=0), 1e-3)  # one case has one token

    def test_texts_are_encoded_as_the_reference(self):
        for name in sorted(TRAINED) + ["rand-gpt2-small"]:  # random models have one tokenizer
            cases = [c for c in jobs.golden(name)["cases"] if c.get("add_special_tokens", True)]
            with jobs.Workplace() as w:
                got = w.run(1, name, [{"id": str(i), "prompt": c["prompt"], "params": {"max_new_tokens": 32}} for i, c in enumerate(cases)],
                            model={"dtype": "float32"})
            for i, case in enumerate(cases):
                self.assertEqual(got["ids"][i].tolist(), case["greedy_ids"], f"{name} case {i}")


class HalfPrecision(unittest.TestCase):
    def score(self, name, dtype):
        """Teacher-forced: the reference's own ids as prompt -> (differences of log probabilities, share of ids among the best two)."""
        cases = jobs.golden(name)["cases"]
        room = jobs.positions(name) - 1
        records = [{"id": str(i), "token_ids": (c["input_ids"] + c["greedy_ids"])[:room], "params": {"max_new_tokens": 1, "prompt_logprobs": 2}}
                   for i, c in enumerate(cases)]
        with jobs.Workplace() as w:
            got = w.run(2, name, records, model={"dtype": dtype})
        differences, among = [], []
        for i, case in enumerate(cases):
            at = slice(len(case["input_ids"]), None)
            found = got["prompt_logprobs"][i][at]
            differences += np.abs(found - case["logprobs"][:len(found)]).tolist()
            among += [t in best for t, best in zip(case["greedy_ids"], got["prompt_top_ids"][i][at].tolist())]
        return np.array(differences), np.mean(among)

    def test_bfloat16_and_float16_stay_near_the_reference(self):
        for name in NAMES:
            for dtype in ("bfloat16", "float16") if LONG or name in TRAINED else ("bfloat16",):
                differences, among = self.score(name, dtype)
                trained = name in TRAINED
                print(f"{name} {dtype}: mean difference {differences.mean():.4f}, among the best two {among:.3f}")
                mixture = name in MIXTURES  # a near tie of the router may flip an expert
                self.assertLessEqual(differences.mean(), (0.02 if trained else 0.05) + (0.01 if mixture else 0), f"{name} {dtype}")
                self.assertGreaterEqual(among, 0.97 if mixture else 0.99 if trained else 0.98, f"{name} {dtype}")
                self.assertGreater(differences.max(), 0, "half precision that equals float32 was not computed in half precision")


class SameBits(unittest.TestCase):
    VARIANTS = [
        dict(ranks=2), dict(ranks=3), dict(ranks=4),
        dict(ranks=1, parallel={"threads": 2}), dict(ranks=2, parallel={"threads": 2, "communication": "mpi"}),
        dict(ranks=1, engine={"max_num_seqs": 1}), dict(ranks=2, engine={"max_num_seqs": 3, "max_num_batched_tokens": 7}),
        dict(ranks=1, engine={"max_num_seqs": 64, "max_num_batched_tokens": 1}),
        dict(ranks=3, engine={"max_num_batched_tokens": 16, "kv_block_size": 64}),
        dict(ranks=1, engine={"kv_block_size": 256}),
        dict(ranks=2, memory={"kv_cache": "512 tokens"}),
    ]

    def variants_agree(self, name, dtype, kernel_set, variants, order=True):
        cases = jobs.golden(name)["cases"]
        records = jobs.records_of(cases, max_new_tokens=24, prompt_logprobs=2)
        records += [{"id": f"drawn {i}", "token_ids": c["input_ids"], "params": {"max_new_tokens": 24, "temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 5}}
                    for i, c in enumerate(cases)]
        env = {"TPINFER_ISA": kernel_set}
        with jobs.Workplace() as w:
            want = w.run(1, name, records, env=env, model={"dtype": dtype}, parallel={"threads": 1})
            self.assertEqual(want["attrs"]["kernel_set"], kernel_set)
            for variant in variants:
                keys = {k: v for k, v in variant.items() if k != "ranks"}
                got = w.run(variant["ranks"], name, records, env=env, model={"dtype": dtype}, **keys)
                self.assertTrue(jobs.same_bits(want, got), f"{name} {dtype} {kernel_set} {variant}")
            if not order:
                return
            # the order of the prompts, and what else is in the job
            last = w.run(2, name, list(reversed(records[len(cases):])), env=env, model={"dtype": dtype})
            by_id = dict(zip(last["id"], last["ids"]))
            for i in range(len(cases)):
                self.assertEqual(by_id[f"drawn {i}"].tolist(), want["ids"][len(cases) + i].tolist())

    def test_every_variant_on_the_trained_model(self):
        for dtype in ("float32", "bfloat16", "float16"):
            self.variants_agree("tiny-llama", dtype, BEST, self.VARIANTS)

    def test_every_kernel_set(self):
        for kernel_set in AVAILABLE[:-1]:
            for dtype in ("float32", "bfloat16"):
                self.variants_agree("tiny-llama", dtype, kernel_set, [self.VARIANTS[2], self.VARIANTS[4], self.VARIANTS[6]])

    def test_every_model(self):
        for name in NAMES if LONG else NAMES[::3]:  # logits_test.cpp has every model in chunks and on threads
            variants = [self.VARIANTS[1], self.VARIANTS[2], self.VARIANTS[6]] if LONG else [self.VARIANTS[2 if jobs.most_ranks(name) > 3 else 1]]
            self.variants_agree(name, "bfloat16", BEST, variants, order=LONG)

    def test_ranks_outside_the_list_run_and_say_so(self):
        cases = jobs.golden("rand-llama-uneven")["cases"]
        with jobs.Workplace() as w:
            got = w.run(5, "rand-llama-uneven", jobs.records_of(cases, max_new_tokens=32), model={"dtype": "float32"})
            self.assertEqual(got["attrs"]["reproducible"], "batch")
            for i, case in enumerate(cases):
                self.assertEqual(got["ids"][i].tolist(), case["greedy_ids"])
            seven = w.run(7, "tiny-llama", jobs.records_of(jobs.golden("tiny-llama")["cases"], max_new_tokens=32), model={"dtype": "float32"})
            self.assertEqual(seven["attrs"]["reproducible"], "batch")
            for i, case in enumerate(jobs.golden("tiny-llama")["cases"]):
                self.assertEqual(seven["ids"][i].tolist(), case["greedy_ids"])
            six = w.run(6, "rand-llama-uneven", jobs.records_of(cases, max_new_tokens=32), model={"dtype": "float32"})
            one = w.run(1, "rand-llama-uneven", jobs.records_of(cases, max_new_tokens=32), model={"dtype": "float32"})
            self.assertEqual(six["attrs"]["reproducible"], "full")
            self.assertTrue(jobs.same_bits(one, six))
            eight = w.run(8, "tiny-llama", jobs.records_of(jobs.golden("tiny-llama")["cases"], max_new_tokens=8), model={"dtype": "float32"})
            one = w.run(1, "tiny-llama", jobs.records_of(jobs.golden("tiny-llama")["cases"], max_new_tokens=8), model={"dtype": "float32"})
            self.assertTrue(jobs.same_bits(one, eight))


AVAILABLE = [s for s in ["scalar", "avx2", "avx512", "avx512-bf16"] if usable(s)]
BEST = AVAILABLE[-1]

if __name__ == "__main__":
    print("kernel sets here:", AVAILABLE)
    unittest.main(verbosity=2)
