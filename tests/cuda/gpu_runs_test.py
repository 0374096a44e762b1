#!/usr/bin/env python3
"""Whole jobs on emulated GPUs: the reference's answers at 1, 2 and 4 ranks, the same bits, memory as planned, and how failures end."""
import json
import os
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import h5py
import numpy as np

LONG = bool(os.environ.get("TPINFER_LONG_TESTS"))
NAMES = jobs.names()
EACH_FAMILY = ["rand-llama-uneven", "rand-mixtral-uneven", "rand-qwen2-moe-mixed", "rand-gpt-bigcode-mqa-odd"]
UNEQUAL = {"TPINFER_EMULATION_GPUS": "96MiB,numa=0;64MiB,used=8MiB;128MiB;80MiB,name=Another GPU"}
SMALL = "rand-llama-tied"


def records(name, cases=2, tokens=8, **params):
    return jobs.records_of(jobs.golden(name)["cases"][:cases], max_new_tokens=tokens, **params)


class OnEmulatedGpus(unittest.TestCase):
    def run_job(self, ranks, name, records, env=None, want=0, **more):
        more.setdefault("model", {}).setdefault("dtype", "float32")
        with jobs.Workplace() as w:
            got = w.run(ranks, name, records, env={**UNEQUAL, **(env or {})}, want=want, **more)
            if want == 0:
                with h5py.File(w.path / "a.h5") as h:
                    got["ranks"] = {k: v.asstr()[:].tolist() if v.dtype == object else v[:] for k, v in h["ranks"].items() if isinstance(v, h5py.Dataset)}
                    got["memory"] = {k: v[:] for k, v in h["ranks/memory"].items() if k != "phase_names"}
                    got["planned"] = h["plan/memory/bytes"][:].sum(axis=1)
                    got["collectives"] = h["ranks/time/collectives"][:]
            return got


class Answers(OnEmulatedGpus):
    def check(self, name, ranks, order="late"):
        tokens = 32 if LONG else 8
        got = self.run_job(ranks, name, records(name, 3 if LONG else 2, tokens, logprobs=3), env={"TPINFER_EMULATION_ORDER": order})
        self.assertEqual(got["ranks"]["device_kind"], ["cuda"] * ranks)
        for i, ids in enumerate(got["ids"]):
            case = jobs.golden(name)["cases"][i]
            self.assertEqual(ids.tolist(), case["greedy_ids"][:tokens], f"{name} case {i} on {ranks} GPUs")
            self.assertLess(np.abs(got["logprobs"][i] - case["logprobs"][:tokens]).max(), 1e-3)
        return got

    def test_greedy_ids_are_the_reference_on_1_2_and_4_gpus(self):
        for i, name in enumerate(NAMES):
            for ranks in (1, 2, 4) if LONG or name in EACH_FAMILY else ((1, 2, 4)[i % 3],):
                ranks = min(ranks, jobs.most_ranks(name))
                self.check(name, ranks, ("late", "random:1", "eager")[(i + ranks) % 3])

    def test_half_precision_stays_near_the_reference(self):
        for name, dtype in (("rand-qwen2", "bfloat16"), ("rand-llama-uneven", "float16")):
            cases = jobs.golden(name)["cases"][:2]
            forced = [{"id": str(i), "token_ids": c["input_ids"] + c["greedy_ids"], "params": {"max_new_tokens": 1, "prompt_logprobs": 2}} for i, c in enumerate(cases)]
            got = self.run_job(2, name, forced, model={"dtype": dtype})
            differences = np.concatenate([np.abs(got["prompt_logprobs"][i][len(c["input_ids"]):] - c["logprobs"]) for i, c in enumerate(cases)])
            print(f"{name} {dtype}: mean difference {differences.mean():.4f}")
            self.assertLessEqual(differences.mean(), 0.05)
            self.assertGreater(differences.max(), 0)

    def test_graphs_on_and_off_agree(self):
        for ranks, name in ((1, "rand-mixtral-uneven"), (2, SMALL)):
            want = self.run_job(ranks, name, records(name, 3))
            self.assertTrue(jobs.same_bits(want, self.run_job(ranks, name, records(name, 3), env={"TPINFER_CUDA_GRAPHS": "0"})), f"{name} on {ranks} GPUs")

    def test_ways_to_communicate_agree(self):
        want = self.run_job(2, SMALL, records(SMALL), engine={"reproducible": "full"})
        self.assertGreater(want["collectives"].min(), 0)
        for way in ("nccl", "shm", "mpi"):
            got = self.run_job(2, SMALL, records(SMALL), engine={"reproducible": "full"}, parallel={"communication": way})
            self.assertTrue(jobs.same_bits(want, got), way)


class PreparedAhead(OnEmulatedGpus):
    """Steps whose inputs were made while the one before ran."""

    STEPS = 18

    def job(self, ranks, env):
        """-> result, steps that were not prepared."""
        cases = (2 * jobs.golden(SMALL)["cases"])[:4]
        prompts = jobs.records_of(cases)
        for i, prompt in enumerate(prompts):
            prompt["params"] = {"max_new_tokens": self.STEPS - 2 * i, "logprobs": 2}
        prompts[1]["params"].update(temperature=0.9, seed=3, repetition_penalty=1.2)
        prompts[2]["params"]["stop_token_ids"] = [cases[2]["greedy_ids"][5]]  # nobody knows that it ends there
        got = self.run_job(ranks, SMALL, prompts, env=env, run={"log_level": "debug"})
        prepared, steps = map(int, re.search(r"(\d+) of (\d+) steps were prepared while the one before ran", got["stderr"]).groups())
        self.assertEqual(steps, self.STEPS)
        self.assertEqual(min(map(len, got["ids"])), 6)
        return got, steps - prepared

    def test_no_bit_changes_and_most_steps_are_prepared(self):
        ways = [{"TPINFER_CUDA_GRAPHS": graphs, "TPINFER_EMULATION_ORDER": order} for graphs in "10" for order in ("late", "random:1")]
        for ranks, some in ((1, (0, 3)), (2, (1, 2)), (4, (0,))):
            want, missed = self.job(ranks, {"TPINFER_CUDA_AHEAD": "0"})
            self.assertEqual(missed, self.STEPS)
            for env in ways if LONG else [ways[i] for i in some]:
                got, missed = self.job(ranks, env)
                self.assertTrue(jobs.same_bits(want, got), f"{ranks} GPUs, {env}")
                # the prompts' step; a graph runs on with a row left out, else the step after an unforeseen end is made anew
                self.assertEqual(missed, 1 if env["TPINFER_CUDA_GRAPHS"] == "1" else 2, f"{ranks} GPUs, {env}")


class SameBits(OnEmulatedGpus):
    def test_full_is_the_same_on_any_number_of_gpus(self):
        for name in ("rand-llama-uneven", "rand-mixtral-uneven") if not LONG else NAMES:
            want = self.run_job(1, name, records(name), engine={"reproducible": "full"})
            self.assertEqual(want["attrs"]["reproducible"], "full")
            for ranks in (2, min(4, jobs.most_ranks(name))):
                self.assertTrue(jobs.same_bits(want, self.run_job(ranks, name, records(name), engine={"reproducible": "full"})), f"{name} on {ranks} GPUs")

    def test_batch_is_the_same_for_every_batch(self):
        for ranks, name in ((3, "rand-llama-tied"), (1, "rand-qwen2-moe-wide")):
            want = self.run_job(ranks, name, records(name, 3), model={"dtype": "bfloat16"})
            self.assertEqual(want["attrs"]["reproducible"], "batch")
            for engine in ({"max_num_seqs": 1}, {"max_num_batched_tokens": 7}, {"kv_block_size": 64}):
                got = self.run_job(ranks, name, records(name, 3), model={"dtype": "bfloat16"}, engine=engine)
                self.assertTrue(jobs.same_bits(want, got), f"{name} on {ranks} GPUs with {engine}")


class Devices(OnEmulatedGpus):
    def test_each_rank_has_a_gpu_of_its_own_and_says_which(self):
        got = self.run_job(4, SMALL, records(SMALL, 1, 2))
        self.assertEqual(len(set(got["ranks"]["device_uuid"])), 4)
        self.assertEqual(got["ranks"]["device_pci"], ["0000:10:00.0", "0000:20:00.0", "0000:30:00.0", "0000:40:00.0"])
        self.assertEqual(got["ranks"]["device_name"], ["Emulated GPU"] * 3 + ["Another GPU"])
        self.assertEqual(got["ranks"]["numa_node"].tolist()[:2], [0, -1])
        chosen = self.run_job(2, SMALL, records(SMALL, 1, 2), env={"CUDA_VISIBLE_DEVICES": "3,1"})
        self.assertEqual(chosen["ranks"]["device_pci"], ["0000:40:00.0", "0000:20:00.0"])

    def test_device_memory_is_as_planned(self):
        for ranks, name, mode in ((1, "tiny-llama", "batch"), (2, "tiny-llama", "full"), (2, "tiny-mixtral", "batch"), (1, "tiny-mixtral", "full")):
            got = self.run_job(ranks, name, records(name, 2, 2), model={"dtype": "bfloat16"}, engine={"reproducible": mode})
            start, after = got["memory"]["device_used"][0], got["memory"]["device_used"][2]
            for rank in range(ranks):
                used, planned = int(after[rank]) - int(start[rank]), int(got["planned"][rank])
                print(f"{name} {mode}, {ranks} ranks, rank {rank}: {used} bytes used, {planned} planned")
                self.assertLessEqual(abs(used - planned), 0.02 * planned)

    def test_auto_takes_the_cpu_where_there_is_no_gpu(self):
        got = self.run_job(2, SMALL, records(SMALL, 1, 2), env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(got["ranks"]["device_kind"], ["cpu"] * 2)

    def test_sharing_a_gpu_must_be_asked_for(self):
        one = {"CUDA_VISIBLE_DEVICES": "2"}
        r = self.run_job(2, SMALL, records(SMALL, 1, 2), env=one, want=2)
        self.assertRegex(r.stderr, r"ranks 0 and 1 on \S+ would share one GPU, GPU-[0-9a-f-]{36} .*parallel\.share_gpus: true")
        got = self.run_job(2, SMALL, records(SMALL, 1, 2), env=one, parallel={"share_gpus": True})
        self.assertEqual(len(set(got["ranks"]["device_uuid"])), 1)

    def test_what_is_not_there_is_refused(self):
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        r = self.run_job(1, SMALL, records(SMALL, 1, 2), env=hidden, want=2, parallel={"device": "cuda"})
        self.assertRegex(r.stderr, "no GPU")
        r = self.run_job(2, SMALL, records(SMALL, 1, 2), env=hidden, want=2, parallel={"communication": "nccl"})
        self.assertIn("parallel.communication: nccl connects GPUs", r.stderr)


class Failures(OnEmulatedGpus):
    def fails(self, want, pattern, ranks=2, fail="", gpus=None, **more):
        env = {"TPINFER_EMULATION_FAIL": fail, **({"TPINFER_EMULATION_GPUS": gpus} if gpus else {})}
        begin = time.monotonic()
        r = self.run_job(ranks, SMALL, records(SMALL, 2, 6), env=env, want=want, **more)
        errors = [line for line in r.stderr.splitlines() if line.startswith("tpinfer: error: ")]
        self.assertTrue(errors, r.stderr)
        self.assertRegex(errors[0], pattern)
        self.assertNotIn("CUDA emulation:", r.stderr)
        return time.monotonic() - begin

    def test_what_does_not_fit_is_refused_before_loading(self):
        self.fails(4, r"rank 1 needs .*, but may use .*\(.+\)", gpus="96MiB;300KiB")
        self.fails(4, r"rank 0 needs .*, but may use 0", ranks=1, gpus="96MiB,used=95MiB")

    def test_a_gpu_that_fills_up_while_loading(self):
        self.fails(4, r"CUDA device \d has no room for .*end other programs on that GPU", fail="cudaMalloc#9=cudaErrorMemoryAllocation@1")

    def test_lost_devices_end_in_a_sentence(self):
        quick = {"run": {"collective_timeout": 2}}
        self.fails(6, r"CUDA reports \"uncorrectable ECC error encountered\"", ranks=1, fail="kernel#30=cudaErrorECCUncorrectable")
        self.fails(6, r"CUDA reports \"|took more than 2 s|waited 2", fail="kernel#200=cudaErrorIllegalAddress@1", **quick)
        self.fails(6, r"CUDA reports \"unspecified launch failure\"", ranks=1, fail="cudaStreamSynchronize#20=cudaErrorLaunchFailure")

    def test_failures_of_nccl_end_in_a_sentence(self):
        quick = {"run": {"collective_timeout": 2}}
        self.fails(6, r"NCCL reports \"unhandled system error\"|took more than 2 s|waited 2", fail="allReduce#9=ncclSystemError@1", **quick)
        self.assertLess(self.fails(6, r"took more than 2 s|waited 2", fail="allReduce#9=hang@0", **quick), 60)
        self.fails(6, r"making the NCCL id failed", fail="ncclGetUniqueId#1=ncclSystemError")


class Info(unittest.TestCase):
    def info(self, ranks, **env):
        r = jobs.start(ranks, "info", "--json", env={**UNEQUAL, **env})
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def test_each_rank_shows_its_gpu(self):
        report = self.info(2)
        gpus = [rank["gpu"] for rank in report["ranks"]]
        self.assertEqual([rank["device"] for rank in report["ranks"]], ["cuda", "cuda"])
        self.assertEqual(len({gpu["uuid"] for gpu in gpus}), 2)
        self.assertEqual([(gpu["total_bytes"] >> 20, gpu["free_bytes"] >> 20) for gpu in gpus], [(96, 96), (64, 56)])
        self.assertIn("each rank has a GPU of its own", [f["message"] for f in report["findings"]])

    def test_gpus_that_are_shared_or_hidden(self):
        self.assertTrue(any("would share the GPU GPU-" in f["message"] for f in self.info(5)["findings"] if not f["ok"]))
        report = self.info(0, CUDA_VISIBLE_DEVICES="3")
        self.assertEqual(report["ranks"][0]["gpu"]["name"], "Another GPU")
        self.assertEqual(report["environment"]["CUDA_VISIBLE_DEVICES"], "3")


if __name__ == "__main__":
    unittest.main(verbosity=2)
