"""Runs tpinfer jobs for the tests and reads their result files. Needs h5py and numpy (exit code 77 skips without them)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "data" / "models"
SHARED = ROOT.parent / "shared"
TPINFER = os.environ.get("TPINFER", str(ROOT / "build" / "release" / "bin" / "tpinfer"))
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def model(name):
    """Folder of a test model: of this tree, or one of those that lie beside it."""
    own = MODELS / name
    return own if own.exists() else SHARED / "models" / "random" / name


def names():
    """All test models of this tree; with TPINFER_LONG_TESTS=1 also those that lie beside it."""
    beside = SHARED / "models" / "random"
    folders = [MODELS] + [beside] * (os.environ.get("TPINFER_LONG_TESTS") == "1" and beside.is_dir())
    return sorted({p.name for folder in folders for p in folder.iterdir()})


def most_ranks(name):
    """Query heads: more ranks than these are refused."""
    config = json.loads((model(name) / "config.json").read_text())
    return next(config[key] for key in ("num_attention_heads", "n_head", "n_heads", "num_heads") if key in config)


def positions(name):
    config = json.loads((model(name) / "config.json").read_text())
    return next((config[key] for key in ("max_position_embeddings", "n_positions", "max_seq_len") if key in config), 2048)


def golden(name):
    return json.loads((model(name) / "golden.json").read_text())


def command(ranks, *words):
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] if ranks else []
    return [*launcher, TPINFER, *words]


def start(ranks, *words, env=None, timeout=120):
    """-> CompletedProcess of tpinfer on that many ranks (0: without a launcher)."""
    return subprocess.run(command(ranks, *words), env=dict(ENV, **(env or {})), capture_output=True, text=True, timeout=timeout)


def records_of(cases, **params):
    """JSONL records of golden cases, as token ids."""
    return [{"id": str(i), "token_ids": c["input_ids"], "params": params} for i, c in enumerate(cases)]


class Workplace:
    """A temporary folder with a job; run() gives the parsed result file and what the job wrote to stderr."""

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.dir.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.dir.cleanup()

    def job(self, folder, records, **more):
        with open(self.path / "p.jsonl", "w") as f:
            for r in records:
                f.write(json.dumps(r) + "\n")
        job = {"model": {"path": str(model(folder)) if "/" not in str(folder) else str(folder), "generation_config": "none"},
               "prompts": {"file": "p.jsonl"}, "output": {"file": "a.h5", "if_exists": "overwrite"},
               "sampling": {"temperature": 0, "ignore_eos": True, "allow_unknown_ids": True}}
        for key, value in more.items():
            job.setdefault(key, {}).update(value)
        (self.path / "job.json").write_text(json.dumps(job))
        return str(self.path / "job.json")

    def run(self, ranks, folder, records, env=None, sets=(), want=0, **more):
        words = ["run", self.job(folder, records, **more), "--progress", "none"]
        for s in sets:
            words += ["--set", s]
        r = start(ranks, *words, env=env)
        if r.returncode != want:
            raise AssertionError(f"exit {r.returncode}, wanted {want}: {r.stdout}{r.stderr}")
        return {**read(self.path / "a.h5"), "stderr": r.stderr} if want in (0, 5) else r


def ragged(group, name, offsets="token_offsets"):
    off, flat = group[offsets][:], group[name][:]
    return [flat[a:b] for a, b in zip(off, off[1:])]


def read(file):
    """Answers and prompt scores of a result file, by prompt."""
    with h5py.File(file) as h:
        r, p = h["results"], h["prompts"]
        out = {"index": r["prompt_index"][:].tolist(), "ids": ragged(r, "token_ids"), "logprobs": ragged(r, "logprobs"),
               "text": r["text"].asstr()[:].tolist(), "reason": r["finish_reason"][:].tolist(),
               "status": p["status"][:].tolist(), "error": p["error"].asstr()[:].tolist(), "id": p["id"].asstr()[:].tolist(),
               "prompt_logprobs": ragged(p, "prompt_logprobs"),
               "attrs": {**dict(h.attrs), **dict(h["plan"].attrs), **dict(h["model"].attrs)}}
        for name in ("prompt_top_ids", "prompt_top_logprobs"):
            if name in p:
                out[name] = ragged(p, name)
        for name in ("top_ids", "top_logprobs"):
            if name in r:
                out[name] = ragged(r, name)
        return out


def same_bits(a, b):
    """Token ids and log probabilities of two results, bit by bit."""
    keys = [k for k in ("ids", "logprobs", "prompt_logprobs", "prompt_top_ids", "prompt_top_logprobs") if k in a or k in b]
    return a["index"] == b["index"] and all(
        len(a[k]) == len(b[k]) and all(x.tobytes() == y.tobytes() for x, y in zip(a[k], b[k])) for k in keys)
