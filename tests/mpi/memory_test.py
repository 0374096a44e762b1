#!/usr/bin/env python3
"""Memory and reading of a real-size model (random bfloat16 weights of the 1.1 B Llama shape), watched from outside through /proc at 1, 2 and 4 ranks."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np

MIB = 1 << 20
SHAPE = os.environ.get("TPINFER_MEMORY_SHAPE", "llama-350m")
MAKER = jobs.SHARED / "peers" / "make_model.py"


def counters(pid):
    """RssAnon and read_bytes of a process, or None when it is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        read = pathlib.Path(f"/proc/{pid}/io").read_text()
        anonymous = int(next(l for l in status.splitlines() if l.startswith("RssAnon")).split()[1]) * 1024
        return anonymous, int(next(l for l in read.splitlines() if l.startswith("read_bytes")).split()[1])
    except (OSError, StopIteration):
        return None


class RealSize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not MAKER.exists():
            print(f"skipped: {MAKER} is not there")
            sys.exit(77)
        cls.dir = tempfile.TemporaryDirectory()
        cls.model = pathlib.Path(cls.dir.name) / SHAPE
        subprocess.run(["/usr/bin/python3", str(MAKER), SHAPE, str(cls.model)], check=True, stdout=subprocess.DEVNULL)
        cls.sums = {}

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def watch(self, ranks, place, records):
        """Runs the job cold; -> peak RssAnon and read_bytes of each rank process as seen from outside, and the result file."""
        for file in self.model.glob("*.safetensors"):
            with open(file, "rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        job = place.job(str(self.model), records, model={"tokenizer": str(jobs.MODELS / "tiny-llama")})
        process = subprocess.Popen(jobs.command(ranks, "run", job, "--progress", "none"), env=jobs.ENV, stderr=subprocess.PIPE, text=True)
        seen = {}
        while process.poll() is None:
            children = subprocess.run(["pgrep", "-P", str(process.pid), "tpinfer"], capture_output=True, text=True).stdout.split()
            for pid in children:
                now = counters(pid)
                if now:
                    old = seen.get(pid, (0, 0))
                    seen[pid] = (max(old[0], now[0]), max(old[1], now[1]))
            time.sleep(0.002)
        _, complaints = process.communicate()
        self.assertEqual(process.returncode, 0, complaints)
        return list(seen.values()), place.path / "a.h5"

    def test_limits_at_1_2_and_4_ranks(self):
        records = [{"id": "0", "token_ids": list(range(5, 37)), "params": {"max_new_tokens": 24}}]
        file_bytes = sum(f.stat().st_size for f in self.model.glob("*.safetensors"))
        ids = []
        for ranks in (1, 2, 4):
            with jobs.Workplace() as place:
                seen, result = self.watch(ranks, place, records)
                with jobs.h5py.File(result) as h:
                    w, m = h["ranks/weights"], h["ranks/memory"]
                    planned, owned = w["bytes_planned"][:], w["bytes_owned"][:]
                    predicted = h["plan/memory/bytes"][:].sum(axis=1)
                    anonymous = m["anonymous"][:].max(axis=0)
                    classes = dict(zip(w["class_names"].asstr()[:], w["planned_by_class"][0]))
                    replicated = sum(classes.get(c, 0) for c in ("norm", "router", "shared_expert_gate"))
                    touched = w["bytes_touched"][:]
                    ids.append(h["results/token_ids"][:].tobytes() + h["results/logprobs"][:].tobytes())
            self.assertEqual(len(seen), ranks)
            read = sum(r for _, r in seen)
            print(f"{ranks} ranks: planned {planned.tolist()}, owned {owned.tolist()}, touched {touched.tolist()}, largest RssAnon outside {[a for a, _ in seen]}, "
                  f"own record {anonymous.tolist()}, predicted {predicted.tolist()}, read from storage {read} of {file_bytes}")
            for peak, _ in seen:
                self.assertLessEqual(peak, predicted.max() * 1.10 + 128 * MIB)
            self.assertLessEqual(anonymous.max(), predicted.max() * 1.10 + 128 * MIB)
            self.assertGreaterEqual(anonymous.max(), planned.max())  # the weights are really there
            self.assertTrue((owned <= planned * 1.02).all())
            self.assertLessEqual(read, file_bytes * 1.05)
            self.assertLessEqual(touched.sum(), planned.sum() * 1.01 + ranks * MIB)  # rows narrower than a page are read once per host
            self.sums[ranks] = (int(planned.sum()), int(replicated))
        whole = self.sums[1][0]
        for ranks in (2, 4):  # nothing but what every rank needs is held more than once
            self.assertEqual(self.sums[ranks][0], whole + (ranks - 1) * self.sums[1][1])
        self.assertEqual(len(set(ids)), 1, "answers differ between rank counts")


if __name__ == "__main__":
    unittest.main(verbosity=2)
