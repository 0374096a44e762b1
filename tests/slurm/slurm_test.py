#!/usr/bin/env python3
"""Jobs under a real Slurm of two nodes that are hosts of their own: the scripts of jobs/slurm from submission to answers."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = jobs.ROOT / "jobs" / "slurm"
MODEL = "tiny-llama"
RECORDS = [{"id": str(i), "token_ids": [5 + i, 17, 200, 33 + i], "params": {"max_new_tokens": 8 + 3 * i}} for i in range(8)]
NEEDED = ["slurmctld", "slurmd", "sbatch", "munged", "ip", "nsenter"]

if os.geteuid() != 0 or not all(shutil.which(p) for p in NEEDED):
    print(f"skipped: needs root and {', '.join(NEEDED)}")
    sys.exit(77)


class Cluster:
    def __init__(self, nodes):
        self.dir = tempfile.mkdtemp(prefix="tpinfer-slurm-", dir="/var/tmp")
        started = subprocess.run([HERE / "cluster.sh", "start", self.dir, str(nodes)], capture_output=True, text=True, timeout=120)
        if started.returncode:
            self.stop()
            raise RuntimeError(started.stdout + started.stderr)
        self.env = dict(jobs.ENV, TPINFER=jobs.TPINFER, SLURM_CONF=f"{self.dir}/slurm.conf", OMPI_MCA_hwloc_base_binding_policy="none",
                        OMPI_MCA_btl_vader_single_copy_mechanism="none")

    def stop(self):
        subprocess.run([HERE / "cluster.sh", "stop", self.dir], capture_output=True, timeout=60)
        shutil.rmtree(self.dir, ignore_errors=True)

    def lose(self, node):
        subprocess.run([HERE / "cluster.sh", "lose", self.dir, str(node)], check=True, timeout=60)

    def tell(self, *words):
        return subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60)

    def submit(self, options, script, *words, wait=True):
        """-> (exit status of the job, what it printed), or the job's number without waiting."""
        out = pathlib.Path(self.dir) / f"out-{time.monotonic_ns()}.txt"
        command = ["sbatch", "--parsable", *(["--wait"] if wait else []), "-o", str(out), *options, str(script), *map(str, words)]
        r = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=300)
        if not wait:
            if r.returncode:
                raise RuntimeError(r.stderr)
            return r.stdout.strip(), out
        return r.returncode, (out.read_text() if out.exists() else "") + r.stderr


def setUpModule():
    global cluster
    cluster = Cluster(2)


def tearDownModule():
    cluster.stop()


class Case(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)
        os.chmod(self.place.path, 0o755)

    def job(self, output="a.h5", **more):
        more.setdefault("parallel", {}).setdefault("threads", 1)
        job = pathlib.Path(self.place.job(MODEL, RECORDS, **more))
        text = json.loads(job.read_text())
        text["output"]["file"] = output
        job.write_text(json.dumps(text))
        return job

    def undisturbed(self):
        """The file of one plain run on one rank, without Slurm."""
        r = jobs.start(0, "run", str(self.job("plain.h5")), "--progress", "none")
        self.assertEqual(r.returncode, 0, r.stderr)
        return self.place.path / "plain.h5"

    def submitted(self, options, script, *words):
        code, text = cluster.submit(options, SCRIPTS / script, *words)
        self.assertEqual(code, 0, text)
        return text

    def same(self, a, b):
        r = jobs.start(0, "diff", str(a), str(b))
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def ranks(self, file="a.h5"):
        with jobs.h5py.File(self.place.path / file) as h:
            return {name: h["ranks"][name].asstr()[:].tolist() if name in ("host", "cpu_list") else h["ranks"][name][:].tolist()
                    for name in ("host", "cpu_list", "local_rank", "replica", "tp_rank")}, dict(h.attrs)


class TwoHosts(Case):
    def test_srun_runs_one_group_across_hosts(self):
        want = self.undisturbed()
        self.submitted(["-N2", "--ntasks-per-node=2", "--overcommit"], "srun.sbatch", self.job())
        self.same(want, self.place.path / "a.h5")
        ranks, attributes = self.ranks()
        self.assertEqual(ranks["host"], ["n1", "n1", "n2", "n2"])
        self.assertEqual(ranks["local_rank"], [0, 1, 0, 1])
        self.assertEqual(ranks["tp_rank"], [0, 1, 2, 3])
        self.assertTrue(attributes["slurm_job_id"])

    def test_info_shows_every_rank(self):
        r = cluster.tell("srun", "-N", "2", "--ntasks-per-node", "1", "--mpi=pmix", jobs.TPINFER, "info", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        report = json.loads(r.stdout)
        self.assertEqual((report["launcher"], [rank["local_rank"] for rank in report["ranks"]]), ("srun", [0, 0]))
        self.assertEqual(len({rank["host"] for rank in report["ranks"]}), 2)
        self.assertIn("SLURM_JOB_ID", report["environment"])
        # without PMIx two tasks do not find each other: told, and no MPI that would end the program
        r = cluster.tell("srun", "-n", "2", "--mpi=none", jobs.TPINFER, "info")
        self.assertEqual((r.returncode, r.stdout.count("2 tasks without PMIx")), (0, 2), r.stderr)

    def test_mpirun_runs_one_group_across_hosts(self):
        want = self.undisturbed()
        self.submitted(["-N2", "--ntasks-per-node=1"], "mpirun.sbatch", self.job())
        self.same(want, self.place.path / "a.h5")
        self.assertEqual(self.ranks()[0]["host"], ["n1", "n2"])

    def test_replicas_lie_on_a_host_each(self):
        want = self.undisturbed()
        self.submitted(["-N2", "--ntasks-per-node=2", "--overcommit"], "srun.sbatch", self.job(parallel={"data_parallel_size": 2}))
        self.same(want, self.place.path / "a.h5")
        ranks = self.ranks()[0]
        self.assertEqual(sorted(zip(ranks["host"], ranks["replica"])), [("n1", 0), ("n1", 0), ("n2", 1), ("n2", 1)])

    def test_bytes_read_are_once_a_host(self):
        self.submitted(["-N2", "--ntasks-per-node=2", "--overcommit"], "srun.sbatch", self.job(parallel={"data_parallel_size": 2}))
        size = sum(f.stat().st_size for f in (jobs.MODELS / MODEL).glob("*.safetensors"))
        with jobs.h5py.File(self.place.path / "a.h5") as h:
            hosts, read = h["ranks/host"].asstr()[:].tolist(), h["ranks/weights/bytes_read"][:].tolist()
        for host in ("n1", "n2"):
            total = sum(b for h, b in zip(hosts, read) if h == host)
            print(f"{host}: {total} bytes of weights read, the file has {size}")
            self.assertLessEqual(total, 1.05 * size)


class Allocation(Case):
    def test_threads_follow_the_cores_of_the_allocation(self):
        for cores in (1, 2):
            job = self.job()
            text = json.loads(job.read_text())
            del text["parallel"]
            job.write_text(json.dumps(text))
            self.submitted(["-N1", "-n1", f"-c{cores}", "--export=ALL,SRUN_CPUS_PER_TASK=" + str(cores)], "srun.sbatch", job)
            listed = self.ranks()[0]["cpu_list"][0]
            count = sum(int(p.split("-")[-1]) - int(p.split("-")[0]) + 1 for p in listed.split(","))
            self.assertEqual(count, cores, listed)

    def test_memory_of_the_allocation_is_the_limit(self):
        code, text = cluster.submit(["-N1", "-n1", "--mem=1M"], SCRIPTS / "srun.sbatch", self.job())
        self.assertEqual(code, 4, text)
        self.assertIn("may use", text)


class Stopping(Case):
    def long_job(self, **more):
        job = pathlib.Path(self.place.job(MODEL, [{"id": str(i), "token_ids": [5 + i % 200, 17, 200]} for i in range(300)],
                                          sampling={"ignore_eos": True, "max_new_tokens": 60}, parallel={"threads": 1},
                                          engine={"max_num_seqs": 4}, output={"if_exists": "resume", "flush_every": {"prompts": 1, "seconds": 1}}, **more))
        return job

    def plain_answers(self, job):
        out = str(self.place.path / "plain.h5")
        r = jobs.start(0, "run", str(job), "--progress", "none", "--set", f"output.file={out}", "--set", "engine.max_num_seqs=64")
        self.assertEqual(r.returncode, 0, r.stderr)
        return out

    def state(self):
        with jobs.h5py.File(self.place.path / "a.h5") as h:
            return h.attrs["state"], len(h["attempts/start"]), (h["prompts/status"][:] == 0).sum()

    def place_in_queue(self, number):
        return cluster.tell("squeue", "-h", "-j", number, "-o", "%T %r %S").stdout

    def test_a_signal_before_the_end_saves_and_requeues_until_all_is_done(self):
        job = self.long_job()
        number, out = cluster.submit(["-N1", "-n1"], SCRIPTS / "srun.sbatch", job, "--progress", "lines", wait=False)
        wait_for(lambda: out.exists() and "prompts |" in out.read_text(), 60, lambda: out.read_text() if out.exists() else "")
        cluster.tell("scancel", "--signal=USR1", number)
        wait_for(lambda: (self.place.path / "a.h5").exists(), 60, out.read_text)
        state, attempts, done = self.state()
        self.assertEqual((state, attempts), ("partial", 1))
        self.assertLess(done, 300)

        wait_for(lambda: "BeginTime" in self.place_in_queue(number), 60, out.read_text)
        time.sleep(5)  # in the very second of the requeueing Slurm takes the job's new credential for the revoked one
        cluster.tell("scontrol", "update", f"JobId={number}", "StartTime=now")  # else it waits two minutes
        wait_for(lambda: self.state()[0] == "complete", 150, lambda: self.place_in_queue(number) + out.read_text())
        self.assertEqual(self.state(), ("complete", 2, 300), out.read_text())
        self.same(self.plain_answers(job), self.place.path / "a.h5")

    def test_the_time_limit_of_the_allocation_is_kept(self):
        job = self.long_job(run={"stop_margin": "55s"})
        code, text = cluster.submit(["-N1", "-n1", "-t1", "--no-requeue"], HERE / "once.sbatch", job, "--set", "sampling.max_new_tokens=240")
        self.assertEqual(code, 75, text)
        self.assertEqual(self.state()[0], "partial", text)

    def test_a_cancelled_job_keeps_its_answers(self):
        job = self.long_job()
        number, out = cluster.submit(["-N1", "-n2", "--overcommit", "--no-requeue"], SCRIPTS / "srun.sbatch", job, "--progress", "lines", wait=False)
        wait_for(lambda: out.exists() and "prompts |" in out.read_text(), 60, lambda: out.read_text() if out.exists() else "")
        cluster.tell("scancel", number)
        wait_for(lambda: cluster.tell("squeue", "-h", "-j", number, "-o", "%T").stdout.strip() == "", 60, out.read_text)
        r = jobs.start(0, "run", str(job), "--progress", "none")
        self.assertEqual(r.returncode, 0, r.stderr)
        state, attempts, done = self.state()
        self.assertEqual((state, attempts, done), ("complete", 2, 300))
        self.same(self.plain_answers(job), self.place.path / "a.h5")

    def test_an_array_and_its_merged_results(self):
        job = self.job()
        code, text = cluster.submit(["--array=0-2", "-N1", "-n1"], SCRIPTS / "array.sbatch", job, self.place.path / "part")
        self.assertEqual(code, 0, text)
        parts = sorted(self.place.path.glob("part.*.h5"))
        self.assertEqual(len(parts), 3, text)
        r = jobs.start(0, "merge", *map(str, parts), "-o", str(self.place.path / "all.h5"))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.same(self.undisturbed(), self.place.path / "all.h5")


class Zlast(Case):
    """Takes a node away, so it comes last."""

    def test_a_node_that_disappears_ends_the_job_in_time(self):
        job = pathlib.Path(self.place.job(MODEL, [{**r, "id": f"{i}-{r['id']}", "params": {}} for i in range(100) for r in RECORDS], sampling={"ignore_eos": True, "max_new_tokens": 200}, parallel={"threads": 1},
                                          run={"collective_timeout": 5}))
        number, out = cluster.submit(["-N2", "--ntasks-per-node=1", "--no-requeue"], SCRIPTS / "srun.sbatch", job, "--progress", "lines", wait=False)
        wait_for(lambda: out.exists() and "prompts |" in out.read_text(), 60, lambda: out.read_text() if out.exists() else "")
        cluster.lose(2)
        began = time.monotonic()
        state = lambda: cluster.tell("squeue", "-h", "-j", number, "-o", "%T").stdout.strip()  # noqa: E731
        wait_for(lambda: state() != "RUNNING", 60, state)  # COMPLETING lasts while the node is away
        print(f"ended {time.monotonic() - began:.0f} s after the node was lost: {out.read_text()}")
        self.assertRegex(out.read_text(), r"tpinfer: error: .*rank 1")
        self.assertIn("task 0: Exited with exit code 6", out.read_text())
        self.assertFalse((self.place.path / "a.h5").exists())


def wait_for(condition, seconds, tell):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain: {tell()}")
        time.sleep(0.2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
