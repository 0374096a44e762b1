#!/usr/bin/env python3
"""`tpinfer tokenize`: what it writes is read back by Python's json and compared with the reference's ids and texts."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZERS = ROOT / "tests" / "data" / "tokenizers"
TPINFER = os.environ.get("TPINFER", str(ROOT / "build" / "release" / "bin" / "tpinfer"))
FOLDERS = ["flags-spm", "bytelevel-prefix-space", "sentencepiece-bpe", "sentencepiece-bpe-added", "sentencepiece-bare",
           "sentencepiece-unigram", "unigram-charsmap"]


def start(folder, *words, given=None):
    return subprocess.run([TPINFER, "tokenize", str(TOKENIZERS / folder), *words], input=given, capture_output=True,
                          timeout=120)


def lines(run):
    if run.returncode:
        raise AssertionError(f"exit {run.returncode}: {run.stderr.decode()}")
    return [json.loads(line) for line in run.stdout.decode("utf-8").splitlines()]  # which cuts at U+2028 and the like too


def golden(folder):
    with open(TOKENIZERS / folder / "golden.jsonl") as f:
        return [json.loads(line) for line in f]


class Streams(unittest.TestCase):
    def test_texts_and_ids_of_the_references(self):
        for folder in FOLDERS:
            cases = golden(folder)
            records = [{"text": c["text"]} for c in cases] + [{"ids": c["ids_no_special"]} for c in cases]
            want = [{"ids": c["ids"]} for c in cases] + [{"text": c["decoded"]} for c in cases]
            bare = [{"ids": c["ids_no_special"]} for c in cases] + [{"ids": c["ids"]} for c in cases]
            skipped = [{"ids": c["ids_no_special"]} for c in cases] + [{"text": c["decoded_skip"]} for c in cases]
            self.assertGreaterEqual(len(cases), 40)
            given = "".join(json.dumps(r) + "\n" for r in records).encode()
            self.assertEqual(lines(start(folder, "--jsonl", "-", given=given)), want, folder)
            del bare[:len(cases)]
            given = "".join(json.dumps(r, ensure_ascii=False) + "\r\n\n"
                            for r in [{"text": c["text"]} for c in cases] + bare).encode()
            with tempfile.NamedTemporaryFile() as file:
                file.write(given)
                file.flush()
                self.assertEqual(lines(start(folder, "--jsonl", file.name, "--no-special")), skipped, folder)

    def test_each_line_is_answered_before_the_next_one_is_read(self):
        command = [TPINFER, "tokenize", str(TOKENIZERS / "flags-spm"), "--jsonl", "-"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
            for case in golden("flags-spm")[:5]:
                run.stdin.write(json.dumps({"text": case["text"]}).encode() + b"\n")
                run.stdin.flush()
                self.assertEqual(json.loads(run.stdout.readline()), {"ids": case["ids"]})
            run.stdin.close()
            self.assertEqual(run.wait(timeout=60), 0)


class One(unittest.TestCase):
    def test_text_and_ids(self):
        case = next(c for c in golden("sentencepiece-bpe") if c["text"] == "a</s> b")
        ids = ",".join(map(str, case["ids"]))
        self.assertEqual(lines(start("sentencepiece-bpe", "--text", case["text"])), [{"ids": case["ids"]}])
        self.assertEqual(lines(start("sentencepiece-bpe", "--text", case["text"], "--no-special")),
                         [{"ids": case["ids_no_special"]}])
        self.assertEqual(lines(start("sentencepiece-bpe", "--ids", ids, "--no-special")), [{"text": case["decoded_skip"]}])
        self.assertTrue(lines(start("sentencepiece-bpe", "--ids", ids))[0]["text"].startswith("<s>"))
        self.assertEqual(lines(start("sentencepiece-bpe", "--text", "")), [{"ids": [1]}])
        self.assertEqual(lines(start("sentencepiece-bpe", "--ids", "")), [{"text": ""}])


class Refusals(unittest.TestCase):
    def refused(self, code, words, *run, given=None):
        r = start(*run, given=given)
        error = r.stderr.decode(errors="replace")
        self.assertEqual(r.returncode, code, error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertTrue(error.startswith("tpinfer: error: "), error)
        for word in words:
            self.assertIn(word, error)
        return r

    def test_wrong_use(self):
        self.refused(2, [], "flags-spm")
        self.refused(2, [], "flags-spm", "--text", "a", "--ids", "1")
        self.refused(2, ["--ids", '"x"'], "flags-spm", "--ids", "1,x")
        self.refused(2, ['"99999999999"'], "flags-spm", "--ids", "99999999999")

    def test_records(self):
        for record, word in [(b'{"text": "a", "ids": [1]}', "either"), (b"{}", "either"), (b"[1]", "either"),
                             (b'{"text": 1}', "string"), (b'{"ids": "1"}', "list"), (b'{"ids": [1.5]}', "1.5"),
                             (b'{"ids": [4294967296]}', "4294967296"), (b'{"text": "a"', "JSON"),
                             (b'{"text": "\xff"}', "JSON"), (b'{"text": "\\ud800"}', "JSON")]:
            run = self.refused(3, [word, "standard input:3"], "flags-spm", "--jsonl", "-", given=b'{"text": "a"}\n\n' + record)
            self.assertEqual(len(run.stdout.splitlines()), 1, "the line before is answered")

    def test_folders_and_files(self):
        self.refused(3, ["no tokenizer.json"], "..", "--text", "a")
        self.refused(3, ["nowhere.jsonl"], "flags-spm", "--jsonl", "nowhere.jsonl")
        self.refused(3, ["UTF-8", "byte 1"], "flags-spm", "--text", b"a\xff")


if __name__ == "__main__":
    unittest.main()
