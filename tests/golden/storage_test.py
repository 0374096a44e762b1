#!/usr/bin/env python3
"""Loading where storage or memory is scarce: a shard larger than the address space, a memory cgroup with no room for a second copy, a slow disk.
The last two take a model of 0.7 GB, root, and TPINFER_LONG_TESTS=1."""
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
from model_maker import NAMES, Model
from variants import LLAMA, MIXTRAL

MIB = 1 << 20
LONG = os.environ.get("TPINFER_LONG_TESTS") == "1"
SANITIZED = b"__asan_init" in pathlib.Path(jobs.TPINFER).read_bytes()
MAKER = jobs.SHARED / "peers" / "make_model.py"
SHAPE = os.environ.get("TPINFER_MEMORY_SHAPE", "llama-350m")
RECORDS = [{"id": "0", "token_ids": [5, 17, 200, 33], "params": {"max_new_tokens": 4}}]


class HugeShard(unittest.TestCase):
    """40 GB of a buffer that nobody loads lie in front of the weights; the file is sparse."""

    HOLE = 40 * 10**9

    def write(self, name, to):
        model = Model(jobs.MODELS / name)
        folder = pathlib.Path(model.write(to))
        header = {"model.layers.0.self_attn.rotary_emb.inv_freq": {"dtype": "F32", "shape": [self.HOLE // 4], "data_offsets": [0, self.HOLE]}}
        at = self.HOLE
        for tensor, array in model.tensors.items():
            header[tensor] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
        text = json.dumps(header).encode()
        with open(folder / "model.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.seek(self.HOLE, os.SEEK_CUR)
            for array in model.tensors.values():
                f.write(array.tobytes())
        return str(folder)

    @unittest.skipIf(SANITIZED, "the address sanitizer needs an unlimited address space")
    def test_a_shard_larger_than_the_address_space_is_loaded(self):
        for name in (LLAMA, MIXTRAL):
            with jobs.Workplace() as place:
                want = place.run(1, name, RECORDS)
                try:
                    folder = self.write(name, place.path / "model")
                except OSError as e:
                    self.skipTest(f"no sparse file of {self.HOLE} bytes here: {e}")
                for ranks, mode in ((1, "mmap"), (4, "mmap"), (2, "read")):
                    job = place.job(folder, RECORDS, model={"load_strategy": mode})
                    r = subprocess.run(jobs.command(ranks, "run", job, "--progress", "none"), env=jobs.ENV, capture_output=True, text=True, timeout=120,
                                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30)))
                    self.assertEqual(r.returncode, 0, r.stderr)
                    self.assertTrue(jobs.same_bits(want, jobs.read(place.path / "a.h5")), f"{name}, {ranks} ranks, {mode}")


class Group:
    """A cgroup (version 1) below this process's own, gone at the end; what is set holds for processes that enter()."""

    def __init__(self, controller, **settings):
        own = next(l.split(":", 2)[2] for l in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if controller in l.split(":")[1].split(","))
        self.path = pathlib.Path(f"/sys/fs/cgroup/{controller}{own}") / f"tpinfer_test_{os.getpid()}"
        self.path.mkdir()
        for name, value in settings.items():
            (self.path / f"{controller}.{name}").write_text(str(value))
        self.controller = controller

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def read(self, name):
        return int((self.path / f"{self.controller}.{name}").read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(100):  # until the last process is gone
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)


def group(test, controller, **settings):
    try:
        return Group(controller, **settings)
    except (OSError, StopIteration) as e:
        test.skipTest(f"no cgroup of its own with the {controller} controller here: {e}")


@unittest.skipUnless(LONG, "a long test: TPINFER_LONG_TESTS=1")
@unittest.skipUnless(MAKER.exists(), f"{MAKER} is not there")
class RealSize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp"))  # on a disk
        cls.model = pathlib.Path(cls.dir.name) / SHAPE
        subprocess.run(["/usr/bin/python3", str(MAKER), SHAPE, str(cls.model)], check=True, stdout=subprocess.DEVNULL)
        cls.bytes = sum(f.stat().st_size for f in cls.model.glob("*.safetensors"))

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def cold(self):
        for file in self.model.glob("*.safetensors"):
            with open(file, "rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def start(self, place, ranks, mode, where, **more):
        self.cold()
        job = place.job(str(self.model), RECORDS, model={"tokenizer": str(jobs.MODELS / LLAMA), "load_strategy": mode}, engine={"max_num_batched_tokens": 64}, **more)
        return subprocess.Popen(jobs.command(ranks, "run", job, "--progress", "none"), env=jobs.ENV, stderr=subprocess.PIPE, text=True, preexec_fn=where.enter)

    def test_a_memory_group_needs_no_room_for_a_second_copy(self):
        r = jobs.start(0, "plan", str(self.model), "--ranks", "4", "--json", "--set", "memory.kv_cache=64MiB")
        plan = json.loads(r.stdout)
        weights = sum(rank["weights_bytes"] for rank in plan["ranks"])
        limit = weights + 4 * 130 * MIB  # cache, workspace, the programs themselves, what they share
        self.assertLess(limit, weights + self.bytes)
        for mode in ("mmap", "read"):
            with group(self, "memory", limit_in_bytes=limit) as memory, jobs.Workplace() as place:
                process = self.start(place, 4, mode, memory, memory={"kv_cache": "64MiB"})
                mappings = set()
                while process.poll() is None:
                    for pid in (memory.path / "cgroup.procs").read_text().split():
                        try:
                            maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
                        except OSError:
                            continue
                        mappings |= {l.split()[1] for l in maps if l.endswith(".safetensors")}
                    time.sleep(0.005)
                _, out = process.communicate()
                self.assertEqual(process.returncode, 0, out)
                print(f"{mode}: limit {limit // MIB} MiB, weights {weights // MIB} MiB, file {self.bytes // MIB} MiB, most used {memory.read('max_usage_in_bytes') // MIB} MiB, "
                      f"limit met {memory.read('failcnt')} times, mappings {mappings}")
                self.assertEqual(mappings, {"r--p"} if mode == "mmap" else set())
                with jobs.h5py.File(place.path / "a.h5") as h:
                    self.assertEqual(h.attrs["state"], "complete")

    def test_on_a_slow_disk_the_automatic_way_is_as_good_as_the_better_one(self):
        device = os.stat(self.model).st_dev
        slow = f"{os.major(device)}:{os.minor(device)}"
        seconds, sums, answers = {}, {}, {}
        settings = {"throttle.read_bps_device": f"{slow} {150 * 10**6}", "throttle.read_iops_device": f"{slow} 800"}
        for mode in ("mmap", "read", "auto") * 3:
            if len(seconds) == 3 and seconds["auto"] <= 1.5 * min(seconds.values()):
                break  # else once more: the machine may have been busy with something else
            with group(self, "blkio", **settings) as disk, jobs.Workplace() as place:
                process = self.start(place, 2, mode, disk)
                _, out = process.communicate(timeout=300)
                self.assertEqual(process.returncode, 0, out)
                with jobs.h5py.File(place.path / "a.h5") as h:
                    w = h["ranks/weights"]
                    now, sums[mode] = w["load_seconds"][:].max(), w["checksum"][:].tolist()
                    rates = w["bytes_read"][:] / w["load_seconds"][:] / 1e6
                seconds[mode] = min(seconds.get(mode, now), now)
                answers[mode] = jobs.read(place.path / "a.h5")
                print(f"{mode}: {now:.1f} s, {', '.join(f'{r:.0f}' for r in rates)} MB/s by rank")
        self.assertGreater(min(seconds.values()), self.bytes / 160e6, "the disk was not slow: this tells nothing")
        self.assertEqual(sums["mmap"], sums["read"])
        self.assertTrue(all(sums["mmap"]))
        self.assertTrue(jobs.same_bits(answers["mmap"], answers["read"]))
        self.assertLessEqual(seconds["auto"], 1.5 * min(seconds.values()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
