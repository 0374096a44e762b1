"""Prompt forms, chat templates in jobs and what is done with prompts that are too long: by running jobs on tiny models."""
import csv
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import h5py
import numpy as np

TEMPLATES = jobs.ROOT / "tests" / "data" / "templates"
TEXTS = ["Once upon a time", "O Romeo, \"Romeo\"!\nwherefore art thou", "", "naïve 😀, yes"]
CLOCK = {"SOURCE_DATE_EPOCH": "1738555506", "TZ": "UTC"}  # 2025-02-03 04:05:06


def chat(*contents, system=None):
    messages = [{"role": "system", "content": system}] if system else []
    return messages + [{"role": ("user", "assistant")[i % 2], "content": c} for i, c in enumerate(contents)]


def lines(*records):
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)


def filtered(command, records):
    """What a text command makes of records on standard input."""
    r = subprocess.run([jobs.TPINFER, *map(str, command)], input=lines(*records).encode(), capture_output=True, timeout=120, env=dict(jobs.ENV, **CLOCK))
    return [json.loads(line) for line in r.stdout.decode().split("\n")[:-1]]


class Prompts(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.__exit__)
        self.folder = self.place.path

    def run_job(self, file, *sets, model="tiny-llama", ranks=1, want=0, given=None, env=None, tokens=2):
        """-> the rows of /prompts by id, with the answers' ids."""
        model = model if "/" in str(model) else jobs.MODELS / model
        job = {"model": {"path": str(model), "generation_config": "none"}, "prompts": {"file": file},
               "output": {"file": "a.h5", "if_exists": "overwrite"}, "parallel": {"threads": 1},
               "sampling": {"temperature": 0, "ignore_eos": True, "max_new_tokens": tokens}}
        (self.folder / "job.json").write_text(json.dumps(job))
        words = [w for s in sets for w in ("--set", s)]
        (self.folder / "a.h5").unlink(missing_ok=True)
        r = subprocess.run(jobs.command(ranks if ranks > 1 else 0, "run", str(self.folder / "job.json"), "--progress", "none", *words), input=given,
                           env=dict(jobs.ENV, **CLOCK, **(env or {})), capture_output=True, timeout=120)
        self.said = r.stderr.decode()
        self.assertEqual(r.returncode, want, self.said)
        return self.rows() if want in (0, 5) else self.said

    def rows(self):
        with h5py.File(self.folder / "a.h5") as h:
            p, r = h["prompts"], h["results"]
            text = lambda name: p[name].asstr()[:].tolist()
            status = [("done", "failed", "skipped", "pending")[s] for s in p["status"][:]]
            answers = dict(zip(r["prompt_index"][:].tolist(), [a.tolist() for a in jobs.ragged(r, "token_ids")]))
            return {id: {"text": t, "ids": ids.tolist(), "status": s, "error": e, "meta": m, "answer": answers.get(i), "n": i}
                    for i, (id, t, ids, s, e, m) in enumerate(zip(text("id"), text("text"), jobs.ragged(p, "token_ids"), status, text("error"), text("meta")))}

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def test_every_form_gives_the_same_prompts(self):
        records = [{"id": f"p{i}", "prompt": t, "meta": {"k": str(i)}} for i, t in enumerate(TEXTS)]
        expected = self.run_job(self.write("p.jsonl", lines(*records)))
        self.assertEqual([expected[f"p{i}"]["text"] for i in range(4)], TEXTS)
        self.assertEqual(expected["p2"]["ids"], [1])  # the begin token alone
        self.assertEqual([expected[f"p{i}"]["meta"] for i in range(4)], [f'{{"k":"{i}"}}' for i in range(4)])
        with open(self.folder / "p.csv", "w", newline="", encoding="utf-8") as f:
            csv.writer(f).writerows([["k", "id", "prompt"], *[[str(i), f"p{i}", t] for i, t in enumerate(TEXTS)]])
        openai = [{"custom_id": r["id"], "method": "POST", "url": "/v1/completions", "body": {"prompt": r["prompt"], "metadata": r["meta"]}} for r in records]
        with h5py.File(self.folder / "p.h5", "w") as h:
            h["id"], h["prompt"] = [r["id"] for r in records], TEXTS
        with h5py.File(self.folder / "ids.h5", "w") as h:
            ids = [expected[f"p{i}"]["ids"] for i in range(4)]
            h["id"] = np.array([r["id"] for r in records], dtype="S4")
            h["token_ids"], h["token_offsets"] = np.concatenate(ids).astype("u2"), np.cumsum([0] + [len(i) for i in ids])
        packed = gzip.compress(lines(*records).encode())
        forms = {"csv": ("p.csv", {}), "openai": (self.write("batch.jsonl", lines(*openai)), {}), "gzip": (self.write("p.jsonl.gz", packed), {}),
                 "list": ([self.write("a/1.jsonl", lines(*records[:2])), self.write("a/2.jsonl", lines(*records[2:]))], {}), "pattern": ("a/*.jsonl", {}),
                 "stdin": ("-", {"given": lines(*records).encode()}), "packed stdin": ("-", {"given": packed, "ranks": 2}), "hdf5": ("p.h5", {}),
                 "hdf5 ids": ("ids.h5", {})}
        for name, (file, more) in forms.items():
            with self.subTest(name):
                rows = self.run_job(file, **more)
                for id, row in expected.items():
                    want = dict(row, meta="" if "hdf5" in name else row["meta"], text="" if name == "hdf5 ids" else row["text"])
                    self.assertEqual(rows[id], want)
                self.assertEqual(len(rows), 4)

    def test_text_lines_and_their_numbers(self):
        self.write("a.txt", b"\xef\xbb\xbfone\r\n\r\n  two \n")
        self.write("b.txt", b"three\n\xff\n")
        rows = self.run_job(["a.txt", "b.txt"], want=5)
        self.assertEqual({id: row["text"] for id, row in rows.items()}, {"a.txt:1": "one", "a.txt:3": "  two ", "b.txt:1": "three", "b.txt:2": ""})
        self.assertEqual([row["status"] for row in rows.values()], ["done", "done", "done", "failed"])
        self.assertIn("b.txt:2: ", rows["b.txt:2"]["error"])
        self.assertIn("UTF-8", rows["b.txt:2"]["error"])

    def test_faults_before_loading(self):
        for content, words in (('{"id":"a","prompt":"x"}\n{"id":"a","prompt":"y"}\n', 'the id "a" stands at'), ("\n", "no prompts")):
            said = self.run_job(self.write("p.jsonl", content), want=3)
            self.assertIn(words, said)
            self.assertNotIn("loading", said)
        self.assertIn("no file matches", self.run_job("no*.jsonl", want=3))
        with h5py.File(self.folder / "p.h5", "w") as h:
            h["token_ids"], h["token_offsets"] = [1, 2, 3], [0, 2]
        self.assertIn("token_offsets", self.run_job("p.h5", want=3))
        with h5py.File(self.folder / "p.h5", "w") as h:
            h["prompt"] = [1.5]
        self.assertIn("neither strings nor whole numbers", self.run_job("p.h5", want=3))

    def test_hdf5_rows(self):
        with h5py.File(self.folder / "p.h5", "w") as h:
            h["key"], h["token_ids"], h["token_offsets"] = [7, 8, 9, 10], np.array([5, 6, -1, 7], "i8"), [0, 2, 3, 3, 4]
        rows = self.run_job("p.h5", "prompts.id_field=key", want=5)
        self.assertEqual([(id, row["ids"], row["status"]) for id, row in rows.items()],
                         [("7", [5, 6], "done"), ("8", [], "failed"), ("9", [], "failed"), ("10", [7], "done")])
        self.assertIn("p.h5:2: token_ids holds -1", rows["8"]["error"])
        self.assertIn("p.h5:3: the prompt is empty", rows["9"]["error"])

    def test_a_conversation_is_what_render_makes_of_it(self):
        records = [{"id": "a", "messages": chat("Hi <s>there")}, {"id": "b", "messages": chat("Hi", "Good morrow.", "And?", system="Be brief.")},
                   {"id": "c", "messages": chat("naïve 😀", "x", "y"), "chat_template_kwargs": {"add_generation_prompt": False}}]
        contexts = [{"messages": r["messages"], **r.get("chat_template_kwargs", {})} for r in records]
        for model in ("tiny-mixtral", "tiny-qwen2-moe"):
            texts = [a["text"] for a in filtered(["render", jobs.MODELS / model, "--jsonl", "-"], contexts)]
            ids = [a["ids"] for a in filtered(["tokenize", jobs.MODELS / model, "--jsonl", "-", "--no-special"], [{"text": t} for t in texts])]
            both = []
            for ranks in (1, 2):
                rows = self.run_job(self.write("p.jsonl", lines(*records)), model=model, ranks=ranks)
                both.append(rows)
                for record, text, want in zip(records, texts, ids):
                    self.assertEqual((rows[record["id"]]["text"], rows[record["id"]]["ids"]), (text, want))
                    self.assertEqual(rows[record["id"]]["status"], "done")
            self.assertEqual(*both)
        # as a batch of requests
        openai = [{"custom_id": r["id"], "url": "/v1/chat/completions", "body": {"model": "m", "messages": r["messages"], "max_tokens": 3, "chat_template_kwargs": r.get("chat_template_kwargs")}} for r in records]
        rows = self.run_job(self.write("batch.jsonl", lines(*openai)), model="tiny-qwen2-moe")
        self.assertEqual([(rows[r["id"]]["text"], rows[r["id"]]["ids"], len(rows[r["id"]]["answer"])) for r in records], [(t, i, 3) for t, i in zip(texts, ids)])

    def test_begin_token_is_not_added_twice(self):
        rows = self.run_job(self.write("p.jsonl", lines({"id": "chat", "messages": chat("Hi")}, {"id": "text", "prompt": "Hi"})), model="tiny-mixtral")
        self.assertTrue(rows["chat"]["text"].startswith("<s>"))
        self.assertEqual(rows["chat"]["ids"].count(1), 1)
        self.assertEqual(rows["text"]["ids"].count(1), 1)
        rows = self.run_job("p.jsonl", "prompts.add_special_tokens=false", model="tiny-mixtral")
        self.assertEqual((rows["chat"]["ids"].count(1), rows["text"]["ids"].count(1)), (1, 0))

    def test_conversations_that_cannot_be_rendered(self):
        records = [{"id": "bad", "messages": chat("Hi", "a", system="s")}, {"id": "image", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                   {"id": "good", "messages": chat("Hi")}]
        self.write("t.jinja", "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{{ messages[0].content }}")
        rows = self.run_job(self.write("p.jsonl", lines(*records)), f"prompts.chat_template={self.folder}/t.jinja", want=5)
        self.assertEqual([rows[i]["status"] for i in ("bad", "image", "good")], ["failed", "failed", "done"])
        self.assertTrue(rows["bad"]["error"].endswith("p.jsonl:1: System role not supported"), rows["bad"]["error"])
        self.assertIn("image_url", rows["image"]["error"])
        self.assertEqual(rows["good"]["text"], "Hi")
        rows = self.run_job("p.jsonl", want=5)  # this model has none
        self.assertIn("needs a chat template", rows["good"]["error"])
        rows = self.run_job("p.jsonl", "prompts.chat_template=none", model="tiny-mixtral", want=5)
        self.assertIn("prompts.chat_template is none", rows["good"]["error"])
        self.write("t.jinja", "{% if %}")
        self.assertIn("t.jinja", self.run_job("p.jsonl", f"prompts.chat_template={self.folder}/t.jinja", want=3))

    def test_system_of_the_job(self):
        records = [{"id": "a", "messages": chat("Hi")}, {"id": "b", "messages": chat("Hi", system="mine")}, {"id": "c", "prompt": "Hi"}]
        rows = self.run_job(self.write("p.jsonl", lines(*records)), "prompts.system=Be brief.", model="tiny-mixtral")
        self.assertIn("<|im_start|>system\nBe brief.<|im_end|>", rows["a"]["text"])
        self.assertNotIn("Be brief.", rows["b"]["text"] + rows["c"]["text"])
        self.assertIn("1 of 3 prompts have none", self.said)

    def render_all(self, source, tokens, cases):
        """Cases of a template, in a job of a model folder that has it: each text, or the error of its row."""
        model = self.folder / "model"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(jobs.MODELS / "tiny-llama", model)
        config = json.loads((model / "tokenizer_config.json").read_text())
        config.update({k: None for k in ("bos_token", "eos_token", "unk_token", "pad_token")}, chat_template=source, **tokens)
        (model / "tokenizer_config.json").write_text(json.dumps(config))
        (model / "special_tokens_map.json").unlink()
        records = []
        for i, case in enumerate(cases):
            more = dict(case["kwargs"], add_generation_prompt=case["add_generation_prompt"])
            records.append({"id": str(i), "messages": case["messages"], "tools": case["tools"], "chat_template_kwargs": more})
        rows = self.run_job(self.write("p.jsonl", lines(*records)), "engine.max_model_len=1024", "prompts.on_too_long=skip", "prompts.select.shard=1/1",
                            model=model, want=0 if all("rendered" in c for c in cases) else 5, tokens=1)
        for i, case in enumerate(cases):
            row = rows[str(i)]
            if "rendered" in case:
                self.assertEqual(row["text"], case["rendered"], case.get("tag"))
            elif case["error_kind"] == "raised":
                self.assertTrue(row["error"].endswith(f"p.jsonl:{i + 1}: {case['error']}"), row["error"])
            else:
                self.assertEqual(row["status"], "failed")
        return len(cases)

    def test_whole_templates(self):
        rows = [json.loads(line) for line in (TEMPLATES / "more.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
        rows = [r for r in rows if "messages" in r["context"] and "add_generation_prompt" in r["context"]]
        sources = sorted({r["template"] for r in rows})
        self.assertEqual(len(sources), 2)
        for source in sources:
            mine = [dict(r, messages=r["context"]["messages"], tools=r["context"]["tools"], add_generation_prompt=r["context"]["add_generation_prompt"], kwargs={})
                    for r in rows if r["template"] == source]
            tokens = {k: rows[0]["context"][k] for k in ("bos_token", "eos_token")}
            self.assertGreaterEqual(self.render_all(source, tokens, mine), 2)

    @staticmethod
    def is_taken(case):
        """A job refuses some messages in its own words, which render gives to the template: without roles, and with other parts than text."""
        parts = [p for m in case["messages"] if isinstance(m.get("content"), list) for p in m["content"]]
        return (case["messages"] and all(isinstance(m.get("role"), str) for m in case["messages"]) and not {"tools", "documents"} & set(case["kwargs"])
                and all(not isinstance(p, dict) or p.get("type", "text") == "text" for p in parts))

    @unittest.skipUnless(os.environ.get("TPINFER_LONG_TESTS"), "TPINFER_LONG_TESTS is not set")
    def test_golden_templates(self):
        files = sorted((jobs.SHARED / "golden" / "templates").glob("*.json"))
        if not files:
            self.skipTest("the shared golden files are not there")
        count = 0
        for file in files:
            golden = json.loads(file.read_text())
            source = jobs.SHARED / golden["template_file"]
            text = source.read_text(encoding="utf-8")
            count += self.render_all(text if source.suffix == ".jinja" else json.loads(text)["chat_template"], golden["special_tokens"], list(filter(self.is_taken, golden["cases"])))
        self.assertGreater(count, 500)

    def test_unsupported_requests_fail_by_name(self):
        body = {"messages": chat("Hi")}
        request = lambda i, **more: {"custom_id": i, "url": "/v1/chat/completions", "body": {**body, **more}}
        bad = {"format": {"response_format": {"type": "json_object"}}, "tool_choice": {"tool_choice": "auto"}, "stream": {"stream": True},
               "image": {"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]}]}}
        rows = self.run_job(self.write("b.jsonl", lines(request("good", n=2, logprobs=True, top_logprobs=2), *[request(i, **b) for i, b in bad.items()])), model="tiny-mixtral", want=5)
        self.assertEqual([r["status"] for r in rows.values()], ["done"] + ["failed"] * 4)
        for id, word in {"format": "response_format", "tool_choice": "tool_choice", "stream": "stream", "image": "image_url"}.items():
            self.assertIn(word, rows[id]["error"])
            self.assertIn(f"b.jsonl:{rows[id]['n'] + 1}: ", rows[id]["error"])
        with h5py.File(self.folder / "a.h5") as h:
            self.assertEqual(h["results/sample_index"][:].tolist(), [0, 1])
            self.assertEqual(h["results/top_ids"].shape[1], 2)

    def test_prompts_that_are_too_long(self):
        long = list(range(10, 40))
        records = [{"id": "long", "token_ids": long}, {"id": "short", "token_ids": [5, 6, 7]}, {"id": "text", "prompt": "O Romeo, Romeo! wherefore art thou Romeo? Deny thy father and refuse thy name"},
                   {"id": "exact", "token_ids": long[:19]}, {"id": "whole", "token_ids": long[:20]}, {"id": "own", "token_ids": long[:6], "params": {"max_length": 5}}]
        full = self.run_job(self.write("p.jsonl", lines(*records)), want=5)["text"]["ids"]
        self.assertGreater(len(full), 20)
        too_long = ["long", "text", "whole", "own"]

        def run(policy, ranks=1, want=0):
            rows = self.run_job("p.jsonl", "engine.max_model_len=20", f"prompts.on_too_long={policy}", ranks=ranks, want=want, tokens=4)
            self.assertEqual((rows["short"]["status"], len(rows["short"]["answer"])), ("done", 4))
            self.assertEqual((rows["exact"]["status"], rows["exact"]["ids"], len(rows["exact"]["answer"])), ("done", long[:19], 1))
            return rows

        rows = run("fail", want=5)
        self.assertEqual([rows[i]["status"] for i in too_long], ["failed"] * 4)
        self.assertIn("p.jsonl:1: the prompt has 30 tokens, the model takes 20", rows["long"]["error"])
        self.assertIn("max_length 5", rows["own"]["error"])
        rows = run("skip", ranks=2)
        self.assertEqual([rows[i]["status"] for i in too_long], ["skipped"] * 4)
        self.assertIn("30 tokens", rows["long"]["error"])
        self.assertEqual([rows[i]["answer"] for i in too_long], [None] * 4)
        self.assertIn("4 skipped", self.said)
        for policy, part in (("truncate_left", lambda ids, n: ids[len(ids) - n:]), ("truncate_right", lambda ids, n: ids[:n])):
            both = [run(policy, ranks) for ranks in (1, 2)]
            self.assertEqual(*both)
            rows = both[0]
            # room for the whole answer; the begin token stays
            self.assertEqual((rows["long"]["ids"], rows["long"]["status"], len(rows["long"]["answer"])), (part(long, 16), "done", 4))
            self.assertEqual(rows["whole"]["ids"], part(long[:20], 16))
            self.assertEqual(rows["own"]["ids"], part(long[:6], 3))
            self.assertEqual(rows["text"]["ids"], [1] + part(full[1:], 15))
            self.assertEqual(filtered(["tokenize", jobs.MODELS / "tiny-llama", "--jsonl", "-"], [{"ids": rows["text"]["ids"][1:]}])[0]["text"].strip(), rows["text"]["text"].strip())
            self.assertIn("4 of 6 prompts were too long and have been cut", self.said)

    def test_shards_of_a_job(self):
        records = [{"id": f"p{i}", "prompt": "x"} for i in range(7)]
        self.write("p.jsonl", lines(*records))
        got = [list(self.run_job("p.jsonl", f"prompts.select.shard={k}/3", tokens=1)) for k in (1, 2, 3)]
        self.assertEqual(got, [["p0", "p3", "p6"], ["p1", "p4"], ["p2", "p5"]])
        array = {"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "4", "SLURM_ARRAY_TASK_MAX": "8", "SLURM_ARRAY_TASK_STEP": "2"}
        self.assertEqual(list(self.run_job("p.jsonl", "prompts.select.shard=slurm_array", "prompts.select.offset=2", env=array, tokens=1)), ["p3", "p6"])
        self.assertIn("SLURM_ARRAY_TASK_ID", self.run_job("p.jsonl", "prompts.select.shard=slurm_array", want=2))
        self.assertIn("4/3", self.run_job("p.jsonl", "prompts.select.shard=4/3", want=2))

    def test_generation_config_is_honoured(self):
        # 2017 ends an answer by generation_config.json alone
        records = [{"id": "a", "prompt": "Hi", "params": {"logit_bias": {"2017": 1000}, "ignore_eos": False}}]
        self.write("p.jsonl", lines(*records))
        for use, count in (("auto", 1), ("none", 5)):
            rows = self.run_job("p.jsonl", f"model.generation_config={use}", model="tiny-qwen2-moe", tokens=5)
            self.assertEqual(rows["a"]["answer"], [2017] * count)
        with h5py.File(self.folder / "a.h5") as h:
            self.assertIn("top_k: 0\n", h["job/resolved"].asstr()[()])
        self.run_job("p.jsonl", "model.generation_config=auto", model="tiny-qwen2-moe")
        with h5py.File(self.folder / "a.h5") as h:
            resolved = h["job/resolved"].asstr()[()]
        for line in ("top_k: 20\n", "top_p: 0.8\n", "repetition_penalty: 1.05\n", "temperature: 0.0\n"):
            self.assertIn(line, resolved)

    def test_empty_prompts(self):
        records = [{"id": "a", "prompt": ""}, {"id": "b", "token_ids": []}]
        rows = self.run_job(self.write("p.jsonl", lines(*records)), want=5)
        self.assertEqual((rows["a"]["ids"], rows["a"]["status"], rows["b"]["status"]), ([1], "done", "failed"))
        rows = self.run_job("p.jsonl", "prompts.add_special_tokens=false", want=5)
        self.assertIn("prompts.add_special_tokens is false", rows["a"]["error"])
        rows = self.run_job("p.jsonl", model="tiny-gpt-bigcode", want=5)  # adds no begin token
        self.assertIn("no begin token", rows["a"]["error"])

    def million(self, model, text, *words):
        """-> what a job of a million prompts said, and the most memory that it had, bytes."""
        with open(self.folder / "p.jsonl", "w") as f:
            for i in range(1_000_000):
                f.write(json.dumps({"id": f"q{i}", "prompt": text.format(i)}) + "\n")
        job = {"model": str(jobs.MODELS / model), "prompts": {"file": "p.jsonl"}, "output": {"file": "a.h5"}, "sampling": {"max_new_tokens": 1}}
        (self.folder / "job.json").write_text(json.dumps(job))
        process = subprocess.Popen([jobs.TPINFER, "run", str(self.folder / "job.json"), "--progress", "none", *words], env=jobs.ENV, stderr=subprocess.PIPE, text=True)
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, said)
        print(f"{usage.ru_maxrss / 1000:.0f} MB resident at most ... ", end="")
        return said, usage.ru_maxrss * 1024

    @unittest.skipUnless(os.environ.get("TPINFER_LONG_TESTS"), "TPINFER_LONG_TESTS is not set")
    def test_a_million_prompts_are_encoded_in_less_than_a_gigabyte(self):
        said, most = self.million("tiny-llama", "What is {} plus 7, and why?", "--dry-run")
        self.assertIn("1000000 prompts would run", said)
        self.assertLess(most, 1e9)

    @unittest.skipUnless(os.environ.get("TPINFER_LONG_TESTS"), "TPINFER_LONG_TESTS is not set")
    def test_a_million_short_prompts_are_answered_in_less_than_a_gigabyte(self):
        said, most = self.million("rand-llama-tied", "Say {}")
        self.assertIn("1000000 of 1000000 prompts answered", said)
        self.assertLess(most, 1e9)
        with h5py.File(self.folder / "a.h5") as h:
            self.assertTrue((h["results/prompt_index"][:] == np.arange(1_000_000)).all())
            self.assertEqual(int(h["results/token_offsets"][-1]), 1_000_000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
