#!/usr/bin/env python3
"""`tpinfer info`: facts beside the kernel's own, each rank under mpirun, warnings with what to do, and nothing of the environment that is not asked for."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

SECRETS = {"HF_TOKEN": "hf_sesame", "AWS_SECRET_ACCESS_KEY": "sesame2", "OPENAI_API_KEY": "sk-sesame", "SLURM_JWT": "sesame3"}


def info(ranks=0, env=None, words=("--json",)):
    r = jobs.start(ranks, "info", *words, env=env)
    if r.returncode != 0:
        raise AssertionError(f"exit {r.returncode}: {r.stderr}")
    return json.loads(r.stdout) if "--json" in words else r.stdout


def warnings(report):
    return [f for f in report["findings"] if not f["ok"]]


class Info(unittest.TestCase):
    def test_the_machine_as_the_kernel_tells_it(self):
        report = info()
        machine = report["machine"]
        self.assertEqual(machine["host"], socket.gethostname())
        self.assertEqual(machine["cores_online"], os.cpu_count())
        with open("/proc/meminfo") as f:
            self.assertEqual(machine["memory"]["total_bytes"], int(f.readline().split()[1]) * 1024)
        self.assertTrue(0 < machine["memory"]["usable_bytes"] <= machine["memory"]["total_bytes"])
        shm = os.statvfs("/dev/shm")
        self.assertEqual(machine["shm"]["total_bytes"], shm.f_blocks * shm.f_frsize)
        self.assertEqual(len(machine["numa_nodes"]), len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))))
        self.assertEqual(machine["kernel_sets"][0], "scalar")
        self.assertIn(machine["kernel_set"], machine["kernel_sets"])
        self.assertEqual({l["name"] for l in report["libraries"]}, {"MPI", "HDF5", "CUDA", "NCCL"})
        version = jobs.start(0, "--version").stdout
        self.assertIn(f"tpinfer {report['build']['version']} (commit {report['build']['commit']}", version)
        self.assertTrue(all(f["ok"] == (f["hint"] is None) for f in report["findings"]), report["findings"])

    def test_without_a_launcher_mpi_is_not_started(self):
        show = {"OMPI_MCA_mpi_show_mca_params": "enviro"}
        alone = jobs.start(0, "info", env=show)
        self.assertEqual((alone.returncode, alone.stderr), (0, ""))
        self.assertIn("mpi_show_mca_params=enviro", jobs.start(2, "info", env=show).stderr)

    def test_every_rank_under_mpirun(self):
        report = info(2)
        self.assertEqual(report["launcher"], "mpirun")
        self.assertEqual([(r["rank"], r["local_rank"], r["host"]) for r in report["ranks"]],
                         [(0, 0, socket.gethostname()), (1, 1, socket.gethostname())])
        usable = report["machine"]["memory"]["usable_bytes"]
        for rank in report["ranks"]:
            self.assertLessEqual(rank["memory_bytes"], usable / 2)
            self.assertGreater(rank["memory_bytes"], usable / 4)
            self.assertEqual(rank["device"], "cpu" if rank["gpu"] is None else "cuda")
        # what a host is told of is told once
        self.assertEqual(len({f["message"] for f in report["findings"]}), len(report["findings"]))

    def test_a_rank_that_is_bound_shows_its_cores(self):
        if (os.cpu_count() or 1) < 2:
            self.skipTest("one core")
        command = ["taskset", "-c", "1", jobs.TPINFER, "info", "--json"]
        report = json.loads(subprocess.run(command, env=jobs.ENV, capture_output=True, text=True, check=True).stdout)
        self.assertEqual(report["ranks"][0]["cores"], "1")

    def test_more_ranks_than_cores_are_warned_of(self):
        ranks = (os.cpu_count() or 1) + 1
        self.assertTrue(any(f["message"].startswith(f"{ranks} ranks on") for f in warnings(info(ranks))))

    def test_kernels_held_back_by_the_environment(self):
        if len(info()["machine"]["kernel_sets"]) < 2:
            self.skipTest("this processor has the plain kernels alone")
        report = info(env={"TPINFER_ISA": "scalar"})
        self.assertEqual(report["machine"]["kernel_set"], "scalar")
        self.assertTrue(any("TPINFER_ISA" in f["message"] and f["hint"] == "unset TPINFER_ISA" for f in warnings(report)))
        report = info(env={"TPINFER_ISA": "avx1024"})  # no job would run, but this command tells why
        self.assertIsNone(report["machine"]["kernel_set"])
        self.assertTrue(any("avx1024" in f["message"] for f in warnings(report)))

    def test_srun_without_pmix_is_warned_of(self):
        report = info(env={"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"})
        self.assertTrue(any("4 tasks without PMIx" in f["message"] for f in warnings(report)), report["findings"])

    def test_no_secrets(self):
        for words in (("--json",), ()):
            text = jobs.start(0, "info", *words, env={**SECRETS, "TPINFER_CUDA_GRAPHS": "1"}).stdout
            self.assertNotIn("sesame", text)
            self.assertIn("TPINFER_CUDA_GRAPHS", text)

    def test_text_for_people(self):
        text = info(words=())
        report = info()
        for word in ("libraries", "MPI", "HDF5", "NUMA node 0", "/dev/shm", "huge pages", "[OK]", report["machine"]["kernel_set"]):
            self.assertIn(word, text)
        self.assertEqual(text.count("[WARN]"), len(warnings(report)))
        self.assertNotIn("\x1b", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
