#!/usr/bin/env python3
"""Writes tests/fuzz/corpus again: the first inputs of those fuzzers whose format is no file that lies in the tree anyway.

    make_corpus.py        TPINFER: the program (for a journal)
"""
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import jobs

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
FORMATS = ("automatic", "text", "jsonl", "openai", "csv")


def put(name, inputs):
    folder = CORPUS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for i, data in enumerate(inputs):
        (folder / f"{i:02}").write_bytes(data)


def headers():
    """Length of the data, then the header."""
    for file in ("rand-llama-tied/model.safetensors", "rand-gpt2-small/model.safetensors"):
        path = jobs.MODELS / file
        with open(path, "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            yield struct.pack("<I", path.stat().st_size - 8 - n) + f.read(n)
    for text, size in (('{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}', 24),
                       ('{"s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"e":{"dtype":"F16","shape":[0,4],"data_offsets":[2,2]}}', 2), ("{}", 0)):
        yield struct.pack("<I", size) + text.encode()


def indices():
    yield b'{"metadata":{"total_size":6},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}'
    yield b'{"weight_map":{"x.y":"sub/part.safetensors"}}'
    yield b'{"weight_map":{"x":"../outside.safetensors","y":"/etc/passwd"}}'


def templates():
    """Of each kind of the reference's, the longest."""
    kinds = {}
    for line in (ROOT / "tests/data/templates/core.jsonl").read_text().splitlines():
        case = json.loads(line)
        kinds.setdefault(case["tag"], []).append(case["template"])
    for kind in sorted(kinds):
        yield from (t.encode() for t in sorted(kinds[kind], key=len)[-2:])


def prompts():
    conversation = [{"role": "system", "content": "brief"}, {"role": "user", "content": [{"type": "text", "text": "\u00e9\U0001f600"}]}]
    records = [{"id": "a", "prompt": "once", "params": {"temperature": 0.5, "stop": ["\n"], "logit_bias": {"3": 1.5}}, "meta": {"k": [1, None]}},
               {"id": 7, "messages": conversation, "tools": [{"type": "function"}]}, {"token_ids": [1, 2, 3], "params": {"n": 2, "seed": 4}}]
    batch = [{"custom_id": "c1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": conversation, "max_tokens": 3}},
             {"custom_id": "c2", "method": "POST", "url": "/v1/completions", "body": {"model": "m", "prompt": "x", "top_p": 0.9, "response_format": {}}}]
    files = {"text": "first line\n\n\ufeffsecond\r\nthird", "jsonl": "\n".join(map(json.dumps, records)), "openai": "\n".join(map(json.dumps, batch)),
             "csv": 'id,prompt,note\r\n1,"a ""quoted"" line\nand more",x\r\n2,plain,\r\n'}
    for name, text in files.items():
        yield bytes([FORMATS.index(name)]) + text.encode()
        yield bytes([0]) + text.encode()
    yield bytes([2]) + b'{"prompt": "\xff\xfe"}\n{"prompt": 3}\n[1]\n{"id": "a", "prompt": "x", "params": {"temperatur": 1}}\n'


def journals():
    """The file of a killed job as it is; and its records, each with a byte for the kind and two for the length."""
    with jobs.Workplace() as place:
        records = [{"id": f"p{i}", "token_ids": [5, 6, i], "params": {"max_new_tokens": 3 + i % 3, "logprobs": i % 3, "prompt_logprobs": i % 2}} for i in range(6)]
        records += [{"id": "bad", "prompt": 3}, {"id": "long", "token_ids": [1], "params": {"max_new_tokens": 100000}}]
        job = place.job("rand-llama-tied", records, output={"file": "a.h5", "if_exists": "resume", "flush_every": {"prompts": 1, "seconds": 0.1}})
        process = subprocess.Popen(jobs.command(1, "run", job, "--progress", "none"), env=jobs.ENV, start_new_session=True)
        file = place.path / "a.h5.journal"
        time.sleep(1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        whole = file.read_bytes()
    yield b"\0" + whole
    at, framed = 16, b""
    while at + 32 <= len(whole):
        kind, = struct.unpack_from("<I", whole, at + 4)
        size, = struct.unpack_from("<Q", whole, at + 8)
        framed += struct.pack("<BH", kind, size) + whole[at + 32:at + 32 + size]
        at += 32 + size
    yield b"\1" + framed


def results():
    rng = random.Random(1)
    yield b"\0"
    yield b"\1"
    for size in (5, 5, 10, 25):
        yield b"\0" + rng.randbytes(size)
    for dataset in range(0, 60, 5):
        yield b"\1" + bytes([dataset, rng.randrange(4), 0]) + rng.choice((b"\xff" * 8, b"\0" * 8, rng.randbytes(8), b"\2" + b"\0" * 7))


if __name__ == "__main__":
    for name, make in {"safetensors": headers, "index": indices, "jinja": templates, "prompts": prompts, "journal": journals, "result": results}.items():
        put(name, list(make()))
