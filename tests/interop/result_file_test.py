"""Opens the result files that write_sample writes with h5py and h5dump and compares every object with the format.

Usage: result_file_test.py WRITE_SAMPLE. Exit 77 (skipped) when h5py, numpy or h5dump is missing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if not shutil.which("h5dump"):
    print("skipped: h5dump is not installed")
    sys.exit(77)

WRITE_SAMPLE = sys.argv.pop(1)
NAN = float("nan")
TEXT = "text"  # variable-length UTF-8
STATUS = {"done": 0, "failed": 1, "skipped": 2, "pending": 3}
REASON = {"stop": 0, "stop_string": 1, "length": 2, "context": 3, "error": 4}
FLAG = {"FALSE": 0, "TRUE": 1}
RANKS, PHASES, STEPS = range(3), range(5), range(10000)
PHASE_NAMES = ["start", "after_load", "after_kv", "peak", "end"]

ATTRIBUTES = {
    "/": {
        "format": "tpinfer-results",
        "format_version": ("i4", 1),
        "state": "partial",
        "run_id": "run-1",
        "created": "2026-01-02T03:04:05Z",
        "finished": "2026-01-02T03:05:05Z",
        "tpinfer_version": "0.1.0",
        "numeric_version": ("i4", 3),
        "kernel_set": "avx2",
        "git_commit": "abc",
        "hostname": "node-0",
        "command": "tpinfer job.yaml --set 'name=ü'",
        "mpi_library": "MPI 4.1",
        "hdf5_version": "1.10.8",
        "cuda_driver": "",
        "nccl_version": "",
        "slurm_job_id": "42",
        "attempts": ("i8", 2),
    },
    "/model": {
        "path": "/models/Modell ä",
        "architecture": "AnyForCausalLM",
        "family": "any",
        "parameters": ("u8", 12345678901),
        "dtype_stored": "bfloat16",
        "dtype_compute": "float32",
        "vocab_size": ("i8", 32002),
        "layers": ("i8", 2),
        "heads": ("i8", 6),
        "kv_heads": ("i8", 3),
        "head_dim": ("i8", 16),
    },
    "/plan": {
        "world_size": ("i4", 3),
        "tensor_parallel_size": ("i4", 3),
        "data_parallel_size": ("i4", 1),
        "digest": "00ff",
        "reproducible": "full",
    },
}

# path: (type, values, units)
DATASETS = {
    "/job/source": (TEXT, "model: M\nprompts: P\n", None),
    "/job/resolved": (TEXT, "version: 1\n", None),
    "/model/config.json": (TEXT, '{"hidden_size": 64}', None),
    "/model/files/name": (TEXT, ["config.json", "model.safetensors"], None),
    "/model/files/bytes": ("u8", [612, 4000000000], "B"),
    "/model/files/hash": ("u8", [0xFEDCBA9876543210, 7], None),
    "/plan/tensors/name": (TEXT, ["embed", "norm"], None),
    "/plan/tensors/role": (TEXT, ["token_embedding", "final_norm"], None),
    "/plan/tensors/dtype": (TEXT, ["bfloat16", "bfloat16"], None),
    "/plan/tensors/split": (TEXT, ["vocabulary", "replicated"], None),
    "/plan/tensors/shape": ("i8", [32002, 96, 96], None),
    "/plan/tensors/shape_offsets": ("i8", [0, 2, 3], None),
    "/plan/slices/tensor": ("i8", [0, 0, 1], None),
    "/plan/slices/rank": ("i4", [0, 1, 0], None),
    "/plan/slices/axis": ("i4", [0, 0, -1], None),
    "/plan/slices/start": ("i8", [0, 10668, 0], None),
    "/plan/slices/count": ("i8", [10668, 10667, 96], None),
    "/plan/slices/bytes": ("u8", [2048256, 2048064, 192], "B"),
    "/plan/memory/class_names": (TEXT, ["weights", "kv_cache", "workspace"], None),
    "/plan/memory/bytes": ("u8", [[100, 200, 300], [101, 201, 301], [102, 202, 302]], "B"),
    "/prompts/id": (TEXT, ["q1", "日本", "bad:3", "nul", "later"], None),
    "/prompts/text": (TEXT, ["Grüße 👋", "", "too long", "a␀b", ""], None),
    "/prompts/n_tokens": ("i4", [3, 1, 0, 3, 0], None),
    "/prompts/token_ids": ("i4", [1, 15, 7, 5, 97, 0, 98], None),
    "/prompts/token_offsets": ("i8", [0, 3, 4, 4, 7, 7], None),
    "/prompts/content_hash": ("u8", [0xFFFFFFFFFFFFFFF1, 0, 0, 0, 0], None),
    "/prompts/status": (STATUS, [0, 0, 1, 2, 3], None),
    "/prompts/error": (
        TEXT,
        ["", "", "prompt 'bad:3' has 9000 tokens, the model takes 4096", "skipped as the job asks", ""],
        None,
    ),
    "/prompts/meta": (TEXT, ['{"a": 1}', "", "", "", ""], None),
    "/prompts/prompt_logprobs": ("f4", [NAN, -1.5, -0.25, NAN, NAN, NAN, NAN], None),
    "/prompts/prompt_top_ids": ("i4", [[-1, -1], [15, 3], [7, 9]] + 4 * [[-1, -1]], None),
    "/prompts/prompt_top_logprobs": ("f4", [[NAN, NAN], [-1.5, -2], [-0.25, -3]] + 4 * [[NAN, NAN]], None),
    "/results/prompt_index": ("i8", [0, 0, 1], None),
    "/results/sample_index": ("i4", [0, 1, 0], None),
    "/results/text": (TEXT, ["a␀b😀", "", "über\n\ufffd"], None),
    "/results/text_lossy": (FLAG, [1, 0, 1], None),
    "/results/n_tokens": ("i4", [4, 0, 2], None),
    "/results/token_ids": ("i4", [97, 0, 98, 300, 4, 5], None),
    "/results/token_offsets": ("i8", [0, 4, 4, 6], None),
    "/results/finish_reason": (REASON, [0, 2, 1], None),
    "/results/cumulative_logprob": ("f8", [-1, 0, -1.25], None),
    "/results/t_queued": ("f8", [0.125, 0, 0.25], "s"),
    "/results/t_first_token": ("f8", [0.5, 0, 1.5], "s"),
    "/results/t_finished": ("f8", [1, 0, 2.75], "s"),
    "/results/attempt": ("i4", [0, 0, 1], None),
    "/results/logprobs": ("f4", [-0.1, -0.2, -0.3, -0.4, -0.5, -0.75], None),
    "/results/top_ids": ("i4", [[97, 1], [0, 2], [98, 3], [300, 4], [4, -1], [6, -1]], None),
    "/results/top_logprobs": (
        "f4",
        [[-0.1, -5], [-0.2, -6], [-0.3, -7], [-0.4, -8], [-0.5, NAN], [-0.625, NAN]],
        None,
    ),
    "/ranks/rank": ("i4", [0, 1, 2], None),
    "/ranks/host": (TEXT, ["node-0", "node-0", "node-1"], None),
    "/ranks/local_rank": ("i4", [0, 1, 0], None),
    "/ranks/replica": ("i4", [0, 0, 0], None),
    "/ranks/tp_rank": ("i4", [0, 1, 2], None),
    "/ranks/device_kind": (TEXT, 3 * ["cpu"], None),
    "/ranks/device_name": (TEXT, 3 * ["Prozessor „Ä“"], None),
    "/ranks/device_uuid": (TEXT, ["", "uuid-1", "uuid-2"], None),
    "/ranks/device_pci": (TEXT, ["", "0000:10:00.0", "0000:20:00.0"], None),
    "/ranks/numa_node": ("i4", [0, 1, -1], None),
    "/ranks/cpu_list": (TEXT, 3 * ["0-1"], None),
    "/ranks/weights/bytes_planned": ("u8", [1000, 1001, 1002], "B"),
    "/ranks/weights/bytes_touched": ("u8", [4096, 4097, 4098], "B"),
    "/ranks/weights/bytes_read": ("u8", [2000, 2001, 2002], "B"),
    "/ranks/weights/bytes_owned": ("u8", [1010, 1011, 1012], "B"),
    "/ranks/weights/n_tensors": ("u8", [12, 12, 12], None),
    "/ranks/weights/load_seconds": ("f8", [0.5, 1.5, 2.5], "s"),
    "/ranks/weights/checksum": ("u8", [2**64 - 16, 2**64 - 15, 2**64 - 14], None),
    "/ranks/weights/class_names": (TEXT, ["token_embedding", "final_norm"], None),
    "/ranks/weights/planned_by_class": ("u8", [[600 + r, 400] for r in RANKS], "B"),
    "/ranks/weights/touched_by_class": ("u8", [[4000, 96 + r] for r in RANKS], "B"),
    "/ranks/weights/read_by_class": ("u8", [[1500, 500 + r] for r in RANKS], "B"),
    "/ranks/weights/owned_by_class": ("u8", [[605 + r, 405] for r in RANKS], "B"),
    "/ranks/memory/phase_names": (TEXT, PHASE_NAMES, None),
    "/ranks/time/compute": ("f8", [1.25, 2.25, 3.25], "s"),
    "/ranks/time/communication": ("f8", 3 * [0.5], "s"),
    "/ranks/time/sampling": ("f8", 3 * [0.125], "s"),
    "/ranks/time/wait": ("f8", 3 * [0.0625], "s"),
    "/ranks/time/io": ("f8", 3 * [0.03125], "s"),
    "/ranks/time/collectives": ("u8", [77, 78, 79], None),
    "/ranks/time/collective_bytes": ("u8", [88000, 88001, 88002], "B"),
    "/steps/t": ("f8", [0.5 * i for i in STEPS], "s"),
    "/steps/sequences": ("i4", [i % 7 for i in STEPS], None),
    "/steps/tokens": ("i4", list(STEPS), None),
    "/steps/kv_blocks_used": ("i4", [i % 11 for i in STEPS], None),
    "/steps/waiting": ("i4", [i % 3 for i in STEPS], None),
    "/steps/preemptions": ("i8", [i % 2 for i in STEPS], None),
    "/steps/shared_tokens": ("i8", [i % 5 for i in STEPS], None),
    "/events/time": ("f8", [0.5, 1.5], "s"),
    "/events/rank": ("i4", [0, 2], None),
    "/events/level": (TEXT, ["info", "warning"], None),
    "/events/message": (TEXT, ["loaded", "slow → disk"], None),
    "/attempts/start": (TEXT, ["2026-01-02T03:00:00Z", "2026-01-02T03:04:05Z"], None),
    "/attempts/end": (TEXT, ["2026-01-02T03:01:00Z", "2026-01-02T03:05:05Z"], None),
    "/attempts/reason": (TEXT, ["stopped", "finished"], None),
    "/attempts/prompts_done": ("i8", [1, 2], None),
}
for number, column in enumerate(
    ["device_used", "device_free", "anonymous", "file_backed", "shared", "rss", "rss_peak"]
):
    DATASETS[f"/ranks/memory/{column}"] = (
        "u8",
        [[1000 * (phase + 1) + 10 * number + rank for rank in RANKS] for phase in PHASES],
        "B",
    )
# Without a row these differ from an empty list, or are absent.
ABSENT_WHEN_EMPTY = {
    "/prompts/prompt_top_ids",
    "/prompts/prompt_top_logprobs",
    "/results/top_ids",
    "/results/top_logprobs",
}


def objects(file):
    groups, datasets = {"/"}, set()
    file.visititems(lambda name, item: (groups if isinstance(item, h5py.Group) else datasets).add("/" + name))
    return groups, datasets


def parents(paths):
    return {path[:cut] or "/" for path in paths for cut, letter in enumerate(path) if letter == "/"}


class ResultFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for kind in ("full", "empty"):
            subprocess.run([WRITE_SAMPLE, kind, os.path.join(cls.folder.name, kind + ".h5")], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def open(self, kind):
        file = h5py.File(os.path.join(self.folder.name, kind + ".h5"), "r")
        self.addCleanup(file.close)
        return file

    def check_type(self, path, dataset, kind):
        if kind == TEXT:
            info = h5py.check_string_dtype(dataset.dtype)
            self.assertEqual((info.encoding, info.length), ("utf-8", None), path)
        elif isinstance(kind, dict):
            base = dataset.id.get_type().get_super().dtype
            self.assertEqual(base, np.dtype("i1" if kind is FLAG else "u1"), path)
            names = dataset.id.get_type()
            found = {names.get_member_name(i).decode(): names.get_member_value(i) for i in range(names.get_nmembers())}
            self.assertEqual(found, kind, path)
        else:
            self.assertEqual(dataset.dtype.str, "<" + kind, path)

    def test_there_are_these_objects_and_no_others(self):
        groups, datasets = objects(self.open("full"))
        self.assertEqual(datasets, set(DATASETS))
        self.assertEqual(groups, parents(DATASETS))

    def test_attributes(self):
        file = self.open("full")
        for path, expected in ATTRIBUTES.items():
            attributes = file[path].attrs
            self.assertEqual(set(attributes), set(expected), path)
            for name, value in expected.items():
                if isinstance(value, tuple):
                    self.assertEqual(attributes[name].dtype.str, "<" + value[0], name)
                    value = value[1]
                else:
                    self.assertIsInstance(attributes[name], str, name)
                self.assertEqual(attributes[name], value, name)
        for group in objects(file)[0] - set(ATTRIBUTES):
            self.assertEqual(list(file[group].attrs), [], group)

    def test_types_shapes_values_and_units(self):
        file = self.open("full")
        for path, (kind, values, units) in DATASETS.items():
            dataset = file[path]
            self.check_type(path, dataset, kind)
            self.assertEqual(dataset.shape, np.shape(values), path)
            if kind == TEXT:
                read = dataset.asstr()[()]
                self.assertEqual(read if isinstance(values, str) else list(read), values, path)
            elif isinstance(kind, dict):
                np.testing.assert_array_equal(dataset[()].astype("i8"), values, path)
            else:
                np.testing.assert_array_equal(dataset[()], np.array(values, kind), path)
            self.assertEqual(dict(dataset.attrs), {"units": units} if units else {}, path)

    def test_a_flag_is_a_bool_for_h5py(self):
        self.assertEqual(self.open("full")["/results/text_lossy"][()].tolist(), [True, False, True])

    def test_long_columns_are_compressed(self):
        column = self.open("full")["/steps/t"]
        self.assertEqual((column.compression, column.compression_opts, column.shuffle), ("gzip", 4, True))
        self.assertLess(column.id.get_storage_size(), 40000)

    def test_ragged_columns_cut_to_rows(self):
        results = self.open("full")["/results"]
        begin, end = results["token_offsets"][2:4]
        self.assertEqual(results["token_ids"][begin:end].tolist(), [4, 5])

    def test_without_rows_every_column_is_there(self):
        file = self.open("empty")
        self.assertEqual(objects(file)[1], set(DATASETS) - ABSENT_WHEN_EMPTY)
        self.assertEqual(set(file.attrs), set(ATTRIBUTES["/"]))
        for path in set(DATASETS) - ABSENT_WHEN_EMPTY:
            kind, values, units = DATASETS[path]
            dataset = file[path]
            self.check_type(path, dataset, kind)
            if isinstance(values, str):
                self.assertEqual(dataset.asstr()[()], "", path)
            elif path == "/ranks/memory/phase_names":
                self.assertEqual(list(dataset.asstr()[()]), PHASE_NAMES)
            elif path.endswith("offsets"):
                self.assertEqual(dataset[()].tolist(), [0], path)
            elif path.startswith("/ranks/memory/"):
                self.assertEqual(dataset.shape, (5, 0), path)
            else:
                self.assertEqual(dataset.shape, (0,) * np.ndim(values), path)
            self.assertEqual(dict(dataset.attrs), {"units": units} if units else {}, path)

    def test_h5dump_and_h5py_can_write_on(self):
        for kind in ("full", "empty"):
            for options in ([], ["-H"]):
                path = os.path.join(self.folder.name, kind + ".h5")
                run = subprocess.run(["h5dump", *options, path], capture_output=True, check=False)
                self.assertEqual((run.returncode, run.stderr), (0, b""), (kind, options))
        copy = os.path.join(self.folder.name, "copy.h5")
        shutil.copy(os.path.join(self.folder.name, "full.h5"), copy)
        with h5py.File(copy, "r+") as file:
            file["mine"] = np.arange(1000)
        with h5py.File(copy, "r") as file:
            self.assertEqual(file["mine"][999], 999)
            self.assertEqual(file["/results/token_ids"][3], 300)


if __name__ == "__main__":
    unittest.main()
