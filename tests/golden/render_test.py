#!/usr/bin/env python3
"""`tpinfer render`: a line of JSON for each record, read back by Python's json and compared with the reference's texts."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "tests" / "data" / "templates"
SHARED = ROOT.parent / "shared"
TPINFER = os.environ.get("TPINFER", str(ROOT / "build" / "release" / "bin" / "tpinfer"))
CLOCK = dict(os.environ, SOURCE_DATE_EPOCH="1738555506", TZ="UTC")  # 2025-02-03 04:05:06


def start(*words, given=None):
    text = given if given is None or isinstance(given, bytes) else "".join(json.dumps(r) + "\n" for r in given).encode()
    return subprocess.run([TPINFER, "render", *map(str, words)], input=text, capture_output=True, timeout=120, env=CLOCK)


def answers(run):
    # by the rule of str.splitlines, which cuts at more than \n
    return [json.loads(line) for line in run.stdout.decode("utf-8").splitlines()]


class Render(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def test_records_are_contexts(self):
        cases = [json.loads(line) for line in (TEMPLATES / "more.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
        cases = [c for c in cases if "messages" in c["context"] and "rendered" in c]
        self.assertGreaterEqual(len(cases), 3)
        for case in cases:
            run = start("--template", self.write("t.jinja", case["template"]), "--jsonl", "-", given=[case["context"]])
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(answers(run), [{"text": case["rendered"]}])

    def test_one_answer_for_each_record(self):
        self.write("tokenizer_config.json", {
            "bos_token": {"content": "<s>"},
            "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
                             "{% if messages[0].content == 'bad' %}{{ raise_exception('No: ' ~ messages[0].content) }}{% endif %}"
                             "{{ '>' if add_generation_prompt }}"})
        lines = ['\ufeff{"messages": [{"content": "é\\u2028\\u0085😀"}]}', "", '{"messages": [{"content": "bad"}]}\r', "{nonsense",
                 '[1]', '{"messages": [{"content": "a"}], "add_generation_prompt": false, "bos_token": "B"}',
                 '{"messages": [{"content": 5}, {"content": null}]}', "{}"]
        records = self.write("r.jsonl", "\n".join(lines))
        run = start(self.folder, "--jsonl", records)
        got = answers(run)
        self.assertEqual(run.returncode, 5)
        self.assertEqual(len(got), 7)
        self.assertEqual(got[0], {"text": "<s>é\u2028\u0085😀>"})
        self.assertEqual(got[1], {"error": "No: bad"})
        self.assertIn("r.jsonl:4: not valid JSON", got[2]["error"])
        self.assertIn("r.jsonl:5: a record must be an object", got[3]["error"])
        self.assertEqual(got[4], {"text": "Ba"})
        self.assertEqual(got[5], {"text": "<s>5>"})
        self.assertIn("'messages' is undefined", got[6]["error"])

    def test_a_broken_template_fails_every_record(self):
        run = start("--template", self.write("t.jinja", "a\n{% if %}"), "--jsonl", "-", given=[{}, {}])
        self.assertEqual(run.returncode, 3)
        self.assertEqual(len(answers(run)), 2)
        self.assertIn("t.jinja, line 2: Expected an expression", answers(run)[1]["error"])
        self.assertIn("t.jinja, line 2", run.stderr.decode())

    def test_usage_and_missing_files(self):
        self.assertEqual(start("--jsonl", "-", given=b"").returncode, 2)
        self.assertEqual(start(self.folder).returncode, 2)
        run = start(self.folder, "--jsonl", "-", given=b"")
        self.assertEqual(run.returncode, 3)
        self.assertIn("no chat template", run.stderr.decode())
        template = self.write("t.jinja", "x")
        self.assertEqual(start("--template", self.folder / "none", "--jsonl", "-", given=b"").returncode, 3)
        self.assertEqual(start("--template", template, "--jsonl", self.folder / "none").returncode, 3)

    def test_a_pipe_is_answered_line_by_line(self):
        template = self.write("t.jinja", "{{ n + 1 }}")
        with subprocess.Popen([TPINFER, "render", "--template", str(template), "--jsonl", "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            for n in range(3):
                process.stdin.write(b'{"n": %d}\n' % n)
                process.stdin.flush()
                self.assertEqual(json.loads(process.stdout.readline()), {"text": str(n + 1)})
            process.stdin.close()
            self.assertEqual(process.wait(60), 0)

    def test_output_that_can_not_be_written(self):
        template = self.write("t.jinja", "x" * 100000)
        with open("/dev/full", "wb") as full:
            run = subprocess.run([TPINFER, "render", "--template", str(template), "--jsonl", "-"], input=b"{}\n" * 9,
                                 stdout=full, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(run.returncode, 7)

    def test_real_templates(self):
        golden = sorted((SHARED / "golden" / "templates").glob("*.json"))
        if not golden:
            self.skipTest("the shared golden files are not there")
        count = 0
        for file in golden:
            model = json.loads(file.read_text())
            source = SHARED / model["template_file"]
            text = source.read_text(encoding="utf-8")
            text = text if source.suffix == ".jinja" else json.loads(text)["chat_template"]
            template = self.write("t.jinja", text)
            records = [dict(model["special_tokens"], messages=c["messages"], tools=c["tools"],
                            add_generation_prompt=c["add_generation_prompt"], **c["kwargs"]) for c in model["cases"]]
            got = answers(start("--template", template, "--jsonl", "-", given=records))
            self.assertEqual(len(got), len(records))
            for case, answer in zip(model["cases"], got):
                count += 1
                if "rendered" in case:
                    self.assertEqual(answer, {"text": case["rendered"]}, (file.name, case["tag"]))
                elif case["error_kind"] == "raised":
                    self.assertEqual(answer, {"error": case["error"]}, (file.name, case["tag"]))
                else:
                    self.assertIn("error", answer, (file.name, case["tag"]))
        self.assertEqual(count, 591)


if __name__ == "__main__":
    unittest.main()
