#!/usr/bin/env python3
"""Every exit code that can occur, on one rank and on several: one message, from one rank, and all ranks gone in time."""
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

MOST_SECONDS = 15
MODEL = "tiny-llama"
RECORD = [{"id": "a", "prompt": "He is", "params": {"max_new_tokens": 4}}]


class ExitCodes(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)

    def folder(self):
        """A copy of the model that may be spoilt."""
        to = self.place.path / "model"
        shutil.copytree(jobs.MODELS / MODEL, to)
        return to

    def expect(self, code, words, folder=MODEL, records=RECORD, ranks=(1, 3), sets=(), env=None, **more):
        job = self.place.job(str(folder) if "/" in str(folder) else folder, records, **more)
        for n in ranks:
            args = ["run", job, "--progress", "none"]
            for s in sets:
                args += ["--set", s]
            t0 = time.monotonic()
            r = jobs.start(n, *args, env=env)
            self.assertLess(time.monotonic() - t0, MOST_SECONDS)
            self.assertEqual(r.returncode, code, f"{n} ranks: {r.stderr}")
            complaints = [l for l in r.stderr.splitlines() if "error:" in l and not l.startswith("[")]
            self.assertEqual(len(complaints), 1, r.stderr)
            for word in words:
                self.assertIn(word, complaints[0])

    def test_0_all_answered(self):
        self.place.run(3, MODEL, RECORD)

    def test_2_job_file(self):
        self.expect(2, ["sampling.tempreture", "temperature", "job.json:1:"], sampling={"tempreture": 1})

    def test_2_a_set_that_is_no_key(self):
        self.expect(2, ["--set", "top_kk"], sets=["sampling.top_kk=3"])

    def test_2_job_file_that_is_not_there(self):
        for n in (1, 3):
            r = jobs.start(n, "run", str(self.place.path / "none.yaml"))
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertEqual(r.stderr.count("none.yaml"), 1, r.stderr)

    def test_2_unknown_instruction_set(self):
        self.expect(2, ["TPINFER_ISA", "avx9"], env={"TPINFER_ISA": "avx9"})

    def test_2_gpu_that_this_build_cannot_use(self):
        self.expect(2, ["cuda"], parallel={"device": "cuda"})

    def test_2_another_number_of_ranks(self):
        self.expect(2, ["tensor_parallel_size", "2"], parallel={"tensor_parallel_size": 2})

    def test_3_no_model_folder(self):
        self.expect(3, ["/nowhere/model"], folder="/nowhere/model")

    def test_3_no_prompt_file(self):
        job = pathlib.Path(self.place.job(MODEL, RECORD))
        (self.place.path / "p.jsonl").unlink()
        r = jobs.start(2, "run", str(job))
        self.assertEqual((r.returncode, r.stderr.count("p.jsonl")), (3, 1), r.stderr)

    def test_3_prompt_file_without_prompts_or_with_an_id_twice(self):
        self.expect(3, ["p.jsonl", "no prompts"], records=[])
        self.expect(3, ["p.jsonl:2", '"a"'], records=RECORD + RECORD)

    def test_3_shard_cut_short(self):
        folder = self.folder()
        shard = folder / "model-00002-of-00002.safetensors"
        os.truncate(shard, shard.stat().st_size - 1)
        self.expect(3, [shard.name], folder=folder)

    def test_3_tensor_of_another_shape(self):
        folder = self.folder()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(dict(config, intermediate_size=520)))
        self.expect(3, ["mlp.", "[256, 512]", "[256, 520]"], folder=folder)

    def test_3_tensor_that_nobody_knows_and_one_that_is_missing(self):
        folder = self.folder()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(dict(config, num_hidden_layers=2)))
        self.expect(3, ["model.layers.2."], folder=folder)
        (folder / "config.json").write_text(json.dumps(dict(config, num_hidden_layers=4)))
        self.expect(3, ["model.layers.3.", "missing"], folder=folder)

    def test_3_unknown_architecture_and_quantised_checkpoint(self):
        folder = self.folder()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(dict(config, architectures=["LamaForCausalLM"])))
        self.expect(3, ["LamaForCausalLM", "LlamaForCausalLM"], folder=folder)
        (folder / "config.json").write_text(json.dumps(dict(config, quantization_config={"quant_method": "gptq"})))
        self.expect(3, ["gptq"], folder=folder)

    def test_4_more_ranks_than_query_heads(self):
        self.expect(4, ["query heads", "8"], ranks=(9,))

    def test_4_memory_limit(self):
        self.expect(4, ["rank 0", "1.00 MiB"], memory={"cpu_memory_limit": "1MiB"})

    def test_5_some_prompts_failed(self):
        records = RECORD + [{"id": "b", "prompt": "x " * 2000}, {"id": "c", "messages": []}, {"id": "d", "prompt": "a", "params": {"top_q": 1}},
                            {"id": "e", "token_ids": [99999]}, {"id": "f", "token_ids": []}]
        for n in (1, 3):
            got = self.place.run(n, MODEL, records, want=5)
            self.assertEqual(got["status"], [0, 1, 1, 1, 1, 1])
            self.assertEqual(got["index"], [0])
            for error, words in zip(got["error"][1:], (["p.jsonl:2", "1024"], ["messages"], ["top_q", "top_k"], ["99999"], ["empty"])):
                for word in words:
                    self.assertIn(word, error)

    def test_5_logits_that_are_not_finite(self):
        folder = self.folder()
        self.spoil_norm(folder, float("nan"))
        got = self.place.run(2, str(folder), RECORD, want=5)
        self.assertIn("non-finite", got["error"][0])

    def spoil_norm(self, folder, value):
        for file in folder.glob("*.safetensors"):
            blob = bytearray(file.read_bytes())
            size, = struct.unpack("<Q", blob[:8])
            entry = json.loads(blob[8:8 + size]).get("model.norm.weight")
            if entry and file.name != "golden.safetensors":
                at = 8 + size + entry["data_offsets"][0]
                blob[at:at + 2] = struct.pack("<e", value)
                file.write_bytes(blob)

    def test_7_output_that_is_there_or_cannot_be(self):
        self.place.run(1, MODEL, RECORD)
        self.expect(7, ["a.h5"], output={"if_exists": "error"})
        self.expect(7, ["/nowhere"], output={"file": "/nowhere/a.h5"})
        self.assertTrue((self.place.path / "a.h5").exists())

    def test_dry_run_reads_and_writes_nothing(self):
        job = self.place.job(MODEL, RECORD)
        r = jobs.start(2, "run", job, "--dry-run")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertFalse((self.place.path / "a.h5").exists())


class LostRanks(unittest.TestCase):
    """A rank that stops or dies in mid-run: the others end in time."""

    def start_long_job(self, place, ranks, replicas):
        record = [{"id": str(i), "token_ids": [1], "params": {"max_new_tokens": 1000}} for i in range(200)]
        job = place.job(MODEL, record, run={"collective_timeout": "2s"}, engine={"max_num_seqs": 4},
                        parallel={"data_parallel_size": replicas, "threads": 1})
        process = subprocess.Popen(jobs.command(ranks, "run", job, "--progress", "lines"), env=jobs.ENV, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   text=True, start_new_session=True)
        for line in process.stderr:
            if "prompts |" in line:
                break
        return process

    def ranks_of(self, process):
        out = subprocess.run(["pgrep", "-g", str(os.getpgid(process.pid))], capture_output=True, text=True).stdout
        pids = [int(p) for p in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()]
        return sorted(pids or [int(p) for p in out.split() if int(p) != process.pid])

    def check(self, ranks, which, sig, replicas=1):
        with jobs.Workplace() as place:
            process = self.start_long_job(place, ranks, replicas)
            pids = self.pids = self.ranks_of(process)
            self.assertEqual(len(pids), ranks)
            os.kill(pids[which], sig)
            t0 = time.monotonic()
            try:
                _, err = process.communicate(timeout=MOST_SECONDS)
            finally:
                os.kill(pids[which], signal.SIGCONT) if pathlib.Path(f"/proc/{pids[which]}").exists() else None
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            self.assertLess(time.monotonic() - t0, MOST_SECONDS)
            return process.returncode, err

    def test_6_a_stopped_rank_is_named(self):
        for which in (0, 2):
            code, err = self.check(3, which, signal.SIGSTOP)
            self.assertEqual(code, 6, err)
            self.assertRegex(err, rf"tpinfer: error: rank \d: .*{which}")

    def test_a_killed_rank_ends_the_run(self):
        code, err = self.check(3, 1, signal.SIGKILL)
        self.assertNotEqual(code, 0)

    def test_6_a_stopped_replica_is_named(self):
        for which in (1, 2, 3):  # of 2 x 2 on one host: replica 0 is ranks 0 and 1, replica 1 is 2 and 3
            code, err = self.check(4, which, signal.SIGSTOP, replicas=2)
            self.assertEqual(code, 6, err)
            self.assertRegex(err, rf"tpinfer: error: rank \d: .*(ranks? .*{which}|replica {which // 2} \(led)")

    def test_a_killed_replica_ends_the_run(self):
        for which in (2, 3):
            code, err = self.check(4, which, signal.SIGKILL, replicas=2)
            self.assertNotEqual(code, 0)
            self.assertRegex(err, r"exited on signal 9|rank \d", "who died is told")
            deadline = time.monotonic() + 3  # the launcher may end before the last of its ranks is gone
            while any(map(self.runs, self.pids)) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual([p for p in self.pids if self.runs(p)], [], "ranks are left behind")

    def runs(self, pid):
        try:
            return b"tpinfer" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main(verbosity=2)
