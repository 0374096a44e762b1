#!/usr/bin/env python3
"""`tpinfer plan` of real models at real size, from sparse files: equal to the golden plans and to an independent planner's, and cheap."""
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

TOOLS = jobs.SHARED / "tools" / "checkpoints"
PLANS = jobs.SHARED / "golden" / "plans"
COUNTS = (1, 2, 3, 4, 6, 8)
MODELS = ("mixtral-8x7b", "llama-2-13b", "llama-2-13b-fp32", "qwen1.5-moe-a2.7b", "qwen2-57b-a14b", "starcoder", "wizardcoder-15b",
          "starcoderbase-1b", "mixtral-8x22b", "llama-2-70b", "llama-3-70b")
# What else the independent planner knows, a model of each family; TPINFER_LONG_TESTS=1: all of them, on more ranks.
OTHERS = ("bloom-176b", "falcon-7b", "falcon-40b", "falcon-180b-chat", "gemma-2b-it", "gemma-2-9b", "gpt-neox-20b", "gpt2", "phi-3-mini-4k-instruct",
          "qwen2-7b-instruct", "qwen3-0.6b", "qwen3-30b-a3b", "starcoder2-7b")
LONG = os.environ.get("TPINFER_LONG_TESTS") == "1"
MIB = 1 << 20
PROGRAM_READS = MIB // 4  # what loading the program and asking for the machine's memory read


def golden(model, ranks):
    return json.loads((PLANS / f"{model}.tp{ranks}.json").read_text())


def metered(*words):
    """Runs tpinfer; -> its output, CPU seconds, peak memory in bytes, and bytes that it read by read()."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen([jobs.TPINFER, *words], stdout=out, env=jobs.ENV)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its counters stay until it is reaped
        read = int(pathlib.Path(f"/proc/{process.pid}/io").read_text().split()[1])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        if process.returncode != 0:
            raise AssertionError(f"tpinfer {' '.join(words)}: exit {process.returncode}")
        return out.read(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, read


def json_and_headers(folder):
    """Bytes of the JSON files that describe the weights, and of the safetensors headers."""
    total = sum((folder / name).stat().st_size for name in ("config.json", "model.safetensors.index.json") if (folder / name).exists())
    for file in folder.glob("*.safetensors"):
        with open(file, "rb") as f:
            total += 8 + struct.unpack("<Q", f.read(8))[0]
    return total


def slice_text(boxes, shape):
    """As the goldens write a rank's slices: * all, - nothing, AXIS:START+COUNT,..."""
    if not boxes:
        return "-"
    cut = [axis for axis in range(len(shape)) if any(box["count"][axis] != shape[axis] for box in boxes)]
    if not cut:
        return "*"
    axis, = cut
    return f"{axis}:" + ",".join(f"{box['start'][axis]}+{box['count'][axis]}" for box in boxes)


def make_sparse(*words):
    return subprocess.run([sys.executable, str(TOOLS / "make_sparse.py"), *map(str, words)], capture_output=True, text=True)


def differences(folder, ranks, plan):
    """The independent planner's word on tpinfer's."""
    compare = subprocess.run([sys.executable, str(TOOLS / "plan_oracle.py"), "compare", str(folder), str(ranks), str(plan)], capture_output=True, text=True)
    return compare.returncode, compare.stdout, compare.stderr


class RealModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (TOOLS / "make_sparse.py").exists():
            print(f"skipped: {TOOLS}/make_sparse.py is not there")
            sys.exit(77)
        cls.dir = tempfile.TemporaryDirectory()
        cls.folders = {}
        for model in MODELS:
            about = golden(model, 1)
            folder = pathlib.Path(cls.dir.name) / model
            made = make_sparse(about["source"], folder, *about["sparse_args"])
            assert made.returncode == 0, made.stderr
            cls.folders[model] = folder

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def expect_golden(self, plan, want, stored=True):
        """`stored`: the golden is of the type that the checkpoint is stored as."""
        self.assertEqual(plan["world_size"], want["ranks"])
        self.assertEqual(plan["model"]["parameters"], want["whole"]["elements"])
        self.assertEqual(len(plan["tensors"]), want["whole"]["tensors"])
        texts = []  # [tensors][ranks]
        for tensor in plan["tensors"]:
            boxes = [[] for _ in range(want["ranks"])]
            for box in tensor["slices"]:
                boxes[box["rank"]].append(box)
            texts.append([slice_text(b, tensor["shape"]) for b in boxes])
        for rank, expected in enumerate(want["per_rank"]):
            mine = plan["ranks"][rank]
            self.assertEqual(mine["weights_bytes"], expected["bytes"])
            self.assertEqual(mine["weights_by_role"], expected["bytes_by_role"])
            if stored:
                self.assertEqual(mine["file_bytes"], expected["bytes"])
                self.assertEqual(sum(box["bytes"] for t in plan["tensors"] for box in t["slices"] if box["rank"] == rank), expected["bytes"])
            lines = "".join(f"{t['name']}\t{text[rank]}\n" for t, text in zip(plan["tensors"], texts))
            self.assertEqual(hashlib.sha256(lines.encode()).hexdigest(), expected["digest"])
        listed = 0
        for tensor, text in zip(plan["tensors"], texts):
            if expected := want["tensors"].get(tensor["name"]):
                listed += 1
                keys = ["role", "split", "shape"] + ["dtype"] * stored
                self.assertEqual([tensor[k] for k in keys], [expected[k] for k in keys], tensor["name"])
                self.assertEqual(text, expected["ranks"], tensor["name"])
        self.assertEqual(listed, len(want["tensors"]))
        self.assertEqual(sum(r["weights_bytes"] for r in plan["ranks"]), want["sum_check"]["sum_over_ranks"])

    def test_plans_are_the_golden_ones(self):
        for model, folder in self.folders.items():
            for ranks in COUNTS:
                with self.subTest(model=model, ranks=ranks):
                    words = ("plan", str(folder), "--ranks", str(ranks), "--memory", "900GiB", "--tensors", "--json")
                    out, *_ = metered(*words)
                    self.expect_golden(json.loads(out), golden(model, ranks))
                    file = pathlib.Path(self.dir.name) / "plan.json"
                    file.write_text(out)
                    self.assertEqual(differences(folder, ranks, file), (0, "0 differences\n", ""))

    def test_other_families_are_cut_as_the_independent_planner_cuts_them(self):
        models = make_sparse("--list").stdout.split() if LONG else OTHERS
        compared = 0
        for model in models:
            folder = pathlib.Path(self.dir.name) / "other"
            shutil.rmtree(folder, ignore_errors=True)
            if (made := make_sparse(model, folder)).returncode != 0:
                print(f"skipped: {made.stderr.strip().splitlines()[-1]}")
                continue
            if model.startswith("falcon"):  # what the configs leave to Hugging Face's default, and the other planner does not
                config = folder / "config.json"
                config.write_text(json.dumps({**json.loads(config.read_text()), "tie_word_embeddings": True}))
            for ranks in COUNTS if LONG else (3,):
                with self.subTest(model=model, ranks=ranks):
                    file = pathlib.Path(self.dir.name) / "plan.json"
                    file.write_text(metered("plan", str(folder), "--ranks", str(ranks), "--memory", "9000GiB", "--tensors", "--json")[0])
                    code, out, error = differences(folder, ranks, file)
                    if "no rules here" in error:
                        print(f"skipped: {model}: {error.strip()}")
                        continue
                    self.assertEqual((code, out), (0, "0 differences\n"), error)
                    compared += 1
        self.assertGreaterEqual(compared, len(OTHERS))

    def test_float32_by_the_job(self):
        """The checkpoint stores float16: half is read, 13.02 GB instead of 52 GB are held by each of 4 ranks."""
        for ranks in COUNTS:
            words = ("plan", str(self.folders["llama-2-13b"]), "--ranks", str(ranks), "--set", "model.dtype=float32", "--memory", "900GiB",
                     "--tensors", "--json")
            plan = json.loads(metered(*words)[0])
            self.expect_golden(plan, golden("llama-2-13b-fp32", ranks), stored=False)
            self.assertEqual([r["file_bytes"] * 2 for r in plan["ranks"]], [r["weights_bytes"] for r in plan["ranks"]])
            if ranks == 4:
                self.assertEqual({r["weights_bytes"] for r in plan["ranks"]}, {13_017_108_480})

    def test_a_plan_is_cheap(self):
        if b"__asan_init" in pathlib.Path(jobs.TPINFER).read_bytes():
            self.skipTest("the address sanitizer needs memory and time of its own")
        for model, folder in self.folders.items():
            for ranks in (1, 8):
                for tensors in ((), ("--tensors",)):
                    start = time.monotonic()
                    _, cpu, memory, read = metered("plan", str(folder), "--ranks", str(ranks), "--memory", "900GiB", "--json", *tensors)
                    elapsed = time.monotonic() - start
                    print(f"{model} at {ranks} ranks{' with tensors' if tensors else ''}: {cpu:.2f} s of CPU, {elapsed:.2f} s, "
                          f"{memory // MIB} MiB, {read} bytes read")
                    self.assertLess(cpu, 1)
                    self.assertLess(memory, 150 * MIB)
                    self.assertLess(read, json_and_headers(folder) + PROGRAM_READS)

    def test_the_faults_that_began_the_project(self):
        """Bytes on each of 4 ranks where the whole model was held, and the parts that were cut although they must stay whole."""
        for model, bytes_each in (("mixtral-8x7b", 23_353_368_576), ("starcoder", 7_930_843_136)):
            plan = json.loads(metered("plan", str(self.folders[model]), "--ranks", "4", "--memory", "80GiB", "--json")[0])
            self.assertTrue(plan["fits"])
            self.assertEqual([r["weights_bytes"] for r in plan["ranks"]], [bytes_each] * 4)
        plan = json.loads(metered("plan", str(self.folders["qwen1.5-moe-a2.7b"]), "--ranks", "4", "--memory", "80GiB", "--tensors", "--json")[0])
        gates = [t for t in plan["tensors"] if t["name"].endswith(("mlp.gate.weight", "shared_expert_gate.weight"))]
        self.assertEqual(len(gates), 48)
        for gate in gates:
            self.assertEqual([box["count"] for box in gate["slices"]], [gate["shape"]] * 4, gate["name"])
        plan = json.loads(metered("plan", str(self.folders["starcoder"]), "--ranks", "4", "--memory", "80GiB", "--tensors", "--json")[0])
        fused = [t for t in plan["tensors"] if t["name"].endswith("c_attn.weight")]
        self.assertEqual(len(fused), 40)
        for tensor in fused:
            rows = [[(b["start"][0], b["count"][0]) for b in tensor["slices"] if b["rank"] == rank] for rank in range(4)]
            self.assertEqual(rows, [[(0, 1536), (6144, 256)], [(1536, 1536), (6144, 256)], [(3072, 1536), (6144, 256)], [(4608, 1792)]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
