#!/usr/bin/env python3
"""Figures of the program on one GPU beside those of a probe in the same run: on_device.py FOLDER_OF_PROGRAMS TABLE. Needs Python alone."""
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

DENSE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
         "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
MIXTURE = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 2048, "intermediate_size": 7168, "num_hidden_layers": 16,
           "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
           "rope_theta": 1e6, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16", "num_local_experts": 8, "num_experts_per_tok": 2}


SMALLER = {**DENSE, "num_hidden_layers": 6, "vocab_size": 32000}  # for files: 3 GB


def elements(c, experts):
    """Elements of all layers with `experts` experts (None: a dense MLP), and of the head."""
    head_dim = c["hidden_size"] // c["num_attention_heads"]
    attention = c["hidden_size"] * head_dim * (2 * c["num_attention_heads"] + 2 * c["num_key_value_heads"])
    mlp = 3 * c["hidden_size"] * c["intermediate_size"] * (experts or 1)
    return c["num_hidden_layers"] * (attention + mlp), c["hidden_size"] * c["vocab_size"]


def floor_seconds(probe, config, sequences, prompt, new, experts=None):
    """Time that the probe's figures allow: the prompt pass, then a reading of the needed weights for each further token."""
    layers, head = elements(config, experts)
    active, _ = elements(config, min(experts, config["num_experts_per_tok"]) if experts else None)
    reading = 2 * (layers + head) / probe["read_bytes_per_s"]
    prompt_pass = max(2 * active * prompt * sequences / probe["bf16_flop_per_s"], reading)
    return prompt_pass + (new - 1) * max(reading, 2 * (active + head) * sequences / probe["bf16_flop_per_s"])


class Runs:
    def __init__(self, programs):
        self.programs = pathlib.Path(programs)
        self.place = pathlib.Path(tempfile.mkdtemp())
        self.end = time.monotonic() + float(os.environ.get("SECONDS_LEFT", "330"))
        self.rows = []
        self.probe = self.ask_probe()

    def ask_probe(self):
        """-> its figures; none where it does not run, as without the cuBLASLt that it was built with."""
        try:
            r = subprocess.run([self.programs / "gpu_probe"], capture_output=True, text=True, timeout=60)
            if r.returncode == 0:
                return json.loads(r.stdout)
            reason = (r.stderr.strip().splitlines() or [f"exit {r.returncode}"])[-1]
        except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            reason = str(e)
        self.note("probe", "not measured", reason)
        return None

    def beside(self, text, probed):
        """`text`, filled with what probed() makes of the probe's figures."""
        return text.format(probed(self.probe)) if self.probe else "no probe"

    def note(self, *row):
        self.rows.append(row)
        print("|", " | ".join(row), "|", flush=True)

    def job(self, config, sequences, prompt, new, env, engine, load_format="dummy"):
        """-> (tokens, seconds) of the answers, or a reason; the result is in self.place / "a.h5"."""
        if time.monotonic() > self.end:
            return "no time left"
        (self.place / "model").mkdir(exist_ok=True)
        (self.place / "model" / "config.json").write_text(json.dumps(config))
        with open(self.place / "p.jsonl", "w") as f:
            for i in range(sequences):
                f.write(json.dumps({"id": str(i), "token_ids": [(i * 7919 + j * 31) % 30000 + 3 for j in range(prompt)]}) + "\n")
        job = {"model": {"path": str(self.place / "model"), "load_format": load_format, "dtype": "bfloat16"}, "prompts": {"file": str(self.place / "p.jsonl")},
               "sampling": {"max_new_tokens": new, "temperature": 0, "ignore_eos": True, "allow_unknown_ids": True}, "parallel": {"device": "cuda"},
               "output": {"file": str(self.place / "a.h5"), "if_exists": "overwrite"}, "engine": {"prefix_sharing": False, **engine}}
        (self.place / "job.json").write_text(json.dumps(job))
        try:
            r = subprocess.run([self.programs / "tpinfer", "run", self.place / "job.json", "--progress", "none"], capture_output=True, text=True,
                               timeout=max(10, self.end - time.monotonic()), env={**os.environ, **env})
        except subprocess.TimeoutExpired:
            return "no time left"
        found = re.search(r"(\d+) tokens in ([\d.]+) s", r.stderr)
        if r.returncode or not found:
            return (r.stderr.strip().splitlines() or ["no output"])[-1]
        return int(found[1]), float(found[2])

    def measure(self, name, config, sequences, prompt, new, experts=None, env=(), **engine):
        got = self.job(config, sequences, prompt, new, dict(env), engine)
        if isinstance(got, str):
            self.note(name, "not measured", got)
            return None
        tokens, seconds = got
        self.note(name, f"{tokens / seconds:.0f} tok/s", self.beside("{:.2f} of the floor", lambda p: floor_seconds(p, config, sequences, prompt, new, experts) / seconds))
        return tokens / seconds

    def tpinfer(self, *words):
        r = subprocess.run([self.programs / "tpinfer", *words], capture_output=True, text=True, check=True, timeout=60)
        return json.loads(r.stdout)

    def load(self):
        """From a file in the page cache, random values of both signs near 0.01."""
        model = self.place / "model"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text(json.dumps(SMALLER))
        plan = self.tpinfer("plan", str(model), "--ranks", "1", "--json", "--tensors", "--memory", "1TiB", "--set", "model.load_format=dummy")
        header, sizes = {}, []
        for tensor in plan["tensors"]:
            sizes.append(2 * math.prod(tensor["shape"]))
            header[tensor["name"]] = {"dtype": "BF16", "shape": tensor["shape"], "data_offsets": [sum(sizes[:-1]), sum(sizes)]}
        text = json.dumps(header).encode()
        high = bytes(0x3c | (b & 1) << 7 for b in range(256))
        with open(model / "model.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for size in sizes:
                for at in range(0, size, 64 << 20):
                    piece = bytearray(min(64 << 20, size - at))
                    piece[0::2] = os.urandom(len(piece) // 2)
                    piece[1::2] = os.urandom(len(piece) // 2).translate(high)
                    f.write(piece)
        got = self.job(SMALLER, 1, 4, 1, {}, {}, "safetensors")
        if isinstance(got, str):
            return self.note("load, file in memory", "not measured", got)
        seconds = self.tpinfer("show", str(self.place / "a.h5"), "--json", "--stats")["stats"]["ranks"][0]["load_seconds"]
        self.note("load, file in memory", f"{sum(sizes) / seconds / 1e9:.1f} GB/s", self.beside("{:.2f} of the upload rate", lambda p: sum(sizes) / seconds / p["upload_bytes_per_s"]))

    def write(self, file):
        with open(file, "w") as f:
            f.write("| what | figure | beside the probe |\n|---|---|---|\n")
            for row in self.rows:
                f.write("| " + " | ".join(row) + " |\n")


def main():
    runs = Runs(sys.argv[1])
    if probe := runs.probe:
        runs.note("GPU", probe["gpu"], "")
        runs.note("copy, bytes read and written", f"{probe['copy_bytes_per_s'] / 1e9:.0f} GB/s", "")
        runs.note("read", f"{probe['read_bytes_per_s'] / 1e9:.0f} GB/s", "")
        runs.note("host to device, pinned", f"{probe['upload_bytes_per_s'] / 1e9:.1f} GB/s", "")
        runs.note("bf16 products 8192^3, random data", f"{probe['bf16_flop_per_s'] / 1e12:.0f} TFLOP/s", "")
    try:
        decode = {n: runs.measure(f"8 B, decode, {n} sequences", DENSE, n, 16, 128) for n in (1, 16, 64, 256)}
        runs.measure("8 B, job of 256 x 128/128", DENSE, 256, 128, 128)
        for sequences, variable, what in ((1, "TPINFER_CUDA_GRAPHS", "graphs"), (64, "TPINFER_CUDA_AHEAD", "preparing ahead")):
            without = runs.measure(f"8 B, decode, {sequences} sequences, without {what}", DENSE, sequences, 16, 128, env={variable: "0"})
            if decode[sequences] and without:
                runs.note(f"{what} against none", f"{decode[sequences] / without:.2f}", "")
        for mode in ("batch", "full", "off"):
            runs.measure(f"8 B, decode, 16 sequences, reproducible: {mode}", DENSE, 16, 16, 128, reproducible=mode)
        runs.measure("mixture, 2 of 8 experts, decode, 1 sequence", MIXTURE, 1, 16, 128, experts=2)
        runs.measure("mixture, 2 of 8 experts, decode, 64 sequences", MIXTURE, 64, 16, 128, experts=8)
        runs.load()
    finally:
        runs.write(sys.argv[2])


if __name__ == "__main__":
    main()
