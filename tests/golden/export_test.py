"""`tpinfer export`: each format read back by Python's own readers and compared with what h5py finds in the result file."""
import csv
import datetime
import io
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402
import numpy as np  # noqa: E402

REASONS = ["stop", "stop_string", "length", "context", "error"]
TEXTS = ['two\nlines, "quoted"', "\\n is no line end, \\\\ neither", "carriage\r\nreturn\r", " blank at both ends ", "",
         "a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg\x1dh\x1ei", "\u2400 stands for NUL", "Grüße, 😀\ttab", '"', ",", "'=1+1'"]
META = [{"text": 'quote " backslash \\ newline \n', "n": 1}, {"nul": "\u0000", "list": [1, 2.5, None, True]}, None,
        "only text", {"line": "a\u2028b\u0085c", "key, with \"": {}}]
IDS = ["plain", 'with "quotes", commas', "two\nlines", " blank ", "日本\u2028"]
LONG_ROWS = 200_000


def lines_of_prompts():
    lines = [json.dumps({"id": IDS[i], "prompt": "Once upon", "meta": META[i],
                         "params": {"n": 1 + i % 3, "do_sample": True, "seed": i, "logprobs": 3 if i == 0 else None}})
             for i in range(5)]
    lines += [json.dumps({"id": "ids", "token_ids": [1, 15, 16], "meta": {}, "params": {"logprobs": 2}}),
              json.dumps({"id": "nul", "prompt": "a\0b", "params": {"n": 2, "do_sample": True}}),
              r'{"id": "surrogate", "prompt": "\ud800 alone"}', "{no JSON,\u2028 at \"all\"",
              json.dumps({"id": "too long", "token_ids": [5] * 600, "meta": {"kept": "as well"}})]
    return lines


def unescape(line):
    return line.replace("\\\\", "\0").replace("\\n", "\n").replace("\\r", "\r").replace("\\v", "\v").replace("\\f", "\f") \
        .replace("\\x1c", "\x1c").replace("\\x1d", "\x1d").replace("\\x1e", "\x1e").replace("\\u0085", "\u0085") \
        .replace("\\u2028", "\u2028").replace("\\u2029", "\u2029").replace("\0", "\\")


def export(file, form, *more, want=0, timeout=120):
    r = subprocess.run([jobs.TPINFER, "export", str(file), "--format", form, *more], env=jobs.ENV, capture_output=True, timeout=timeout)
    if r.returncode != want:
        raise AssertionError(f"exit {r.returncode}, wanted {want}: {r.stdout[-500:]}{r.stderr}")
    return r.stdout.decode() if want == 0 else r.stderr.decode()


def rows_of(file):
    """The rows that every format must have, as h5py reads them: one an answer, one a prompt without."""
    rows = []
    with jobs.h5py.File(file) as h:
        p, r = h["prompts"], h["results"]
        ids, errors, metas = (p[name].asstr()[:] for name in ("id", "error", "meta"))
        texts, tokens, index = r["text"].asstr()[:], jobs.ragged(r, "token_ids"), r["prompt_index"][:]
        for prompt, status in enumerate(p["status"][:]):
            head = {"id": ids[prompt], "error": errors[prompt] or None, "meta": json.loads(metas[prompt]) if metas[prompt] else None}
            if prompt not in index:
                error = head["error"] or "the run ended before this prompt was answered"
                rows.append({**head, "sample_index": None, "text": None, "token_ids": None, "finish_reason": None,
                             "cumulative_logprob": None, "error": error})
            for i in np.flatnonzero(index == prompt):
                rows.append({**head, "sample_index": int(r["sample_index"][i]), "text": texts[i], "token_ids": tokens[i].tolist(),
                             "finish_reason": REASONS[r["finish_reason"][i]], "cumulative_logprob": float(r["cumulative_logprob"][i])})
    return rows


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = jobs.Workplace()
        job = cls.place.job("tiny-llama", [])
        (cls.place.path / "p.jsonl").write_text("\n".join(lines_of_prompts()) + "\n", encoding="utf-8")
        run = jobs.start(0, "run", job, "--progress", "none", "--set", "sampling.max_new_tokens=9", "--set", "engine.max_model_len=512")
        if run.returncode != 5:
            raise AssertionError(f"exit {run.returncode}: {run.stderr}")
        cls.plain, cls.edited = cls.place.path / "a.h5", cls.place.path / "edited.h5"
        shutil.copy(cls.plain, cls.edited)
        with jobs.h5py.File(cls.edited, "r+") as h:
            count = len(h["results/text"])
            h["results/text"][...] = [TEXTS[i % len(TEXTS)] for i in range(count)]
            h["results/logprobs"][0] = -np.inf
            h["results/finish_reason"][1:3] = [0, 1]
            h["prompts/status"][-1], h["prompts/error"][-1] = 3, ""  # pending
            assert count >= len(TEXTS), count

    @classmethod
    def tearDownClass(cls):
        cls.place.dir.cleanup()

    def each_file(self):
        for file in (self.plain, self.edited):
            with self.subTest(file.name):
                yield file, rows_of(file)

    def test_the_file_has_what_these_tests_are_about(self):
        rows = rows_of(self.plain)
        self.assertEqual(len(rows), 1 + 2 + 3 + 1 + 2 + 1 + 2 + 3)
        self.assertEqual([r["id"] for r in rows if r["text"] is None], ["8", "9", "too long"])
        self.assertEqual(rows[-1]["meta"], {"kept": "as well"})
        self.assertEqual(rows[1]["meta"], META[1])
        self.assertEqual(rows_of(self.edited)[-1]["error"], "the run ended before this prompt was answered")

    def test_jsonl(self):
        for file, rows in self.each_file():
            found = [json.loads(line) for line in export(file, "jsonl").splitlines()]  # cuts at U+2028 and the like
            self.assertEqual(found, rows)
            self.assertEqual(list(found[0]), ["id", "sample_index", "text", "token_ids", "finish_reason", "cumulative_logprob", "error", "meta"])

    def test_csv(self):
        for file, rows in self.each_file():
            found = list(csv.DictReader(io.StringIO(export(file, "csv"), newline=""), strict=True))
            self.assertEqual(len(found), len(rows))
            for got, row in zip(found, rows):
                got = dict(got, meta=json.loads(got["meta"]) if got["meta"] else None, error=got["error"] or None,
                           token_ids=json.loads(got["token_ids"]) if got["token_ids"] else None)
                for key, kind in (("sample_index", int), ("cumulative_logprob", float), ("finish_reason", str)):
                    got[key] = kind(got[key]) if got[key] else None
                self.assertEqual(got, dict(row, text=row["text"] or ""))

    def test_text(self):
        for file, rows in self.each_file():
            self.assertEqual([unescape(line) for line in export(file, "text").splitlines()], [r["text"] or "" for r in rows])

    def openai(self, file, *more):
        lines = [json.loads(line) for line in export(file, "openai", *more).splitlines()]
        self.assertEqual(len({line["id"] for line in lines}), len(lines))
        for line in lines:
            self.assertEqual(list(line), ["id", "custom_id", "response", "error"])
        return lines

    def check_bodies(self, file, rows, lines, object_name, text_of):
        with jobs.h5py.File(file) as h:
            created = datetime.datetime.strptime(h.attrs["created"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
            prompt_tokens, model = h["prompts/n_tokens"][:].tolist(), h["model"].attrs["path"]
        by_prompt = {}
        for row in rows:
            by_prompt.setdefault(row["id"], []).append(row)
        self.assertEqual([line["custom_id"] for line in lines], list(by_prompt))
        for line, answers, n in zip(lines, by_prompt.values(), prompt_tokens):
            if answers[0]["text"] is None:
                self.assertIsNone(line["response"])
                self.assertEqual(line["error"]["message"], answers[0]["error"])
                self.assertIn(line["error"]["code"], ("prompt_failed", "not_answered"))
                continue
            self.assertIsNone(line["error"])
            self.assertEqual(line["response"]["status_code"], 200)
            body = line["response"]["body"]
            self.assertEqual((body["object"], body["model"], body["created"]), (object_name, model, int(created.timestamp())))
            new = sum(len(a["token_ids"]) for a in answers)
            self.assertEqual(body["usage"], {"prompt_tokens": n, "completion_tokens": new, "total_tokens": n + new})
            self.assertEqual([c["index"] for c in body["choices"]], [a["sample_index"] for a in answers])
            self.assertEqual([text_of(c) for c in body["choices"]], [a["text"] for a in answers])
            words = [{"stop": "stop", "stop_string": "stop", "length": "length"}[a["finish_reason"]] for a in answers]
            self.assertEqual([c["finish_reason"] for c in body["choices"]], words)

    def test_openai_chat(self):
        for file, rows in self.each_file():
            lines = self.openai(file)
            self.check_bodies(file, rows, lines, "chat.completion", lambda c: c["message"]["content"])
            found = jobs.read(file)
            choices = [c for line in lines if line["response"] for c in line["response"]["body"]["choices"]]
            for i, choice in enumerate(choices):
                content = choice["logprobs"]["content"]
                self.assertEqual([t["token"] for t in content], [f"token_id:{n}" for n in found["ids"][i]])
                for token, logprob, ids, tops in zip(content, found["logprobs"][i], found["top_ids"][i], found["top_logprobs"][i]):
                    self.assertEqual(np.float32(token["logprob"]), logprob if np.isfinite(logprob) else -9999)
                    got = [(t["token"], np.float32(t["logprob"])) for t in token["top_logprobs"]]
                    self.assertEqual(got, [(f"token_id:{n}", p) for n, p in zip(ids, tops) if n >= 0])
            self.assertEqual(len(choices[0]["logprobs"]["content"][1]["top_logprobs"]), 3)
            self.assertEqual(choices[1]["logprobs"]["content"][0]["top_logprobs"], [])

    def test_openai_completions(self):
        for file, rows in self.each_file():
            lines = self.openai(file, "--openai-object", "text_completion")
            self.check_bodies(file, rows, lines, "text_completion", lambda c: c["text"])
            found = jobs.read(file)
            first = lines[0]["response"]["body"]["choices"][0]["logprobs"]
            self.assertEqual(first["tokens"], [f"token_id:{n}" for n in found["ids"][0]])
            np.testing.assert_array_equal(np.array(first["token_logprobs"][1:], "f4"), found["logprobs"][0][1:])
            for got, ids, tops in zip(first["top_logprobs"], found["top_ids"][0], found["top_logprobs"][0]):
                self.assertEqual({key: np.float32(p) for key, p in got.items()}, {f"token_id:{n}": p for n, p in zip(ids, tops)})

    def test_a_file_is_whole_or_untouched(self):
        target = self.place.path / "out.jsonl"
        target.write_text("old")
        broken = self.place.path / "broken.h5"
        shutil.copy(self.plain, broken)
        with jobs.h5py.File(broken, "r+") as h:
            h["results/prompt_index"][-1] = 77
        message = export(broken, "jsonl", "-o", str(target), want=3)
        self.assertIn("/results/prompt_index: 77 is no row of the 10 prompts", message)
        self.assertEqual(target.read_text(), "old")
        for form in ("jsonl", "csv", "text", "openai"):
            self.assertEqual(export(self.plain, form, "-o", str(target)), "")
            self.assertEqual(target.read_text(encoding="utf-8"), export(self.plain, form))
        self.assertEqual(list(self.place.path.glob("*.part")), [])

    def test_refusals(self):
        place = self.place.path
        damaged = place / "damaged.h5"
        data = bytearray(self.plain.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
        (place / "empty.h5").write_bytes(b"")
        for file, sentence in ((damaged, "do not match its checksum"), (place / "none.h5", "cannot read"), (place / "empty.h5", "empty.h5"),
                               (place, "it is a folder")):
            self.assertIn(sentence, export(file, "csv", want=3))
        self.assertIn("create the folder", export(self.plain, "csv", "-o", str(place / "no/x.csv"), want=7))
        self.assertIn("another file for -o", export(self.plain, "csv", "-o", str(place / "no/x.csv"), want=7))
        self.assertIn("name a file, not a folder", export(self.plain, "csv", "-o", str(place), want=7))
        self.assertIn("is the result file itself", export(self.plain, "csv", "-o", str(self.plain), want=2))
        self.assertIn("--format", export(self.plain, "xml", want=2))
        with open("/dev/full", "wb") as full:
            r = subprocess.run([jobs.TPINFER, "export", str(self.plain), "--format", "text"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual((r.returncode, b"No space left" in r.stderr), (7, True))

    def test_unordered_answers_are_refused(self):
        wrong = self.place.path / "order.h5"
        shutil.copy(self.plain, wrong)
        with jobs.h5py.File(wrong, "r+") as h:
            h["results/sample_index"][1:3] = [1, 0]
        self.assertIn("not in order of prompt and sample", export(wrong, "text", want=3))


def grow(column, values):
    """Replaces an h5py dataset by one of the same type with other values."""
    group, name, kind = column.parent, column.name, column.dtype
    del group[name]
    group.create_dataset(name, data=values, dtype=kind, chunks=(min(1 << 15, len(values)),) if len(values) else None,
                         compression="gzip" if kind.kind in "if" else None, compression_opts=1 if kind.kind in "if" else None)


class LongFile(unittest.TestCase):
    """200,000 prompts of 12 tokens, most with one answer of 50."""

    @classmethod
    def setUpClass(cls):
        cls.place = jobs.Workplace()
        cls.place.run(0, "tiny-llama", [{"id": "0", "prompt": "Once"}], sets=["sampling.max_new_tokens=4"])
        cls.small, cls.file = cls.place.path / "a.h5", cls.place.path / "long.h5"
        shutil.copy(cls.small, cls.file)
        n, answers = LONG_ROWS, LONG_ROWS - LONG_ROWS // 1000
        with jobs.h5py.File(cls.file, "r+") as h:
            p, r = h["prompts"], h["results"]
            failed = np.arange(n) % 1000 == 7
            tokens = {"prompts": 12, "results": 50}
            for group, rows in ((p, n), (r, answers)):
                each = tokens[group.name[1:]]
                grow(group["token_offsets"], np.arange(rows + 1) * each)
                grow(group["n_tokens"], np.full(rows, each))
                grow(group["token_ids"], (np.arange(rows * each) % 2048).astype("i4"))
                grow(group["prompt_logprobs" if group is p else "logprobs"], np.full(rows * each, -0.5, "f4"))
            grow(p["id"], [f"q{i}" for i in range(n)])
            grow(p["text"], ["the prompt"] * n)
            grow(p["status"], failed.astype("u1"))
            grow(p["error"], ["it failed" if bad else "" for bad in failed])
            grow(p["meta"], ['{"a": 1}'] * n)
            grow(r["prompt_index"], np.flatnonzero(~failed))
            grow(r["text"], [f"answer {i}\n" for i in np.flatnonzero(~failed)])
            for group, rows in ((p, n), (r, answers)):
                for name in [name for name, column in group.items() if column.shape == (1,)]:  # all else is 0
                    grow(group[name], np.zeros(rows, group[name].dtype))

    @classmethod
    def tearDownClass(cls):
        cls.place.dir.cleanup()

    def peak(self, file, form):
        """Bytes of memory that an export took at most."""
        out = self.place.path / "out"
        # started by a small process: a child's peak begins with its parent's size
        script = "import os, sys; pid = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]); _, s, u = os.wait4(pid, 0); print(s, u.ru_maxrss)"
        words = [jobs.TPINFER, "export", str(file), "--format", form, "-o", str(out)]
        r = subprocess.run([sys.executable, "-S", "-c", script, *words], capture_output=True, text=True, check=True)
        status, kilobytes = map(int, r.stdout.split())
        self.assertEqual((status, r.stderr), (0, ""))
        return out, kilobytes * 1024

    def test_memory_does_not_grow(self):
        _, little = self.peak(self.small, "jsonl")
        out, much = self.peak(self.file, "jsonl")
        print(f"export of {LONG_ROWS} rows: {much / 1e6:.0f} MB at most, of one row {little / 1e6:.0f} MB", file=sys.stderr)
        self.assertLess(much - little, 60e6)  # its tokens and log probabilities alone have 84 MB twice over
        with open(out, encoding="utf-8") as lines:
            for i, line in enumerate(lines):
                row = json.loads(line)
                bad = i % 1000 == 7
                self.assertEqual((row["id"], row["text"], row["error"]),
                                 (f"q{i}", None if bad else f"answer {i}\n", "it failed" if bad else None))
                if not bad:
                    begin = (i - (i + 992) // 1000) * 50
                    self.assertEqual(row["token_ids"], [(begin + k) % 2048 for k in range(50)])
        self.assertEqual(i + 1, LONG_ROWS)

    def test_a_reader_that_has_enough(self):
        child = subprocess.Popen([jobs.TPINFER, "export", str(self.file), "--format", "text"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), b"answer 0\\n\n")
        child.stdout.close()
        self.assertEqual(child.stderr.read(), b"")
        child.stderr.close()
        self.assertEqual(child.wait(), -13)  # SIGPIPE


if __name__ == "__main__":
    unittest.main()
