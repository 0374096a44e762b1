"""`tpinfer diff` on files of tpinfer that h5py has edited: each edit is found, as what it is and where it is."""
import json
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402
import numpy as np  # noqa: E402

PROMPTS = [{"id": f"q{i}", "prompt": text, "params": {"logprobs": 3 if i else 5, "prompt_logprobs": 2}}
           for i, text in enumerate(["Once upon a time", "She said", "The sea", "A letter came"])]


class Diff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = jobs.Workplace()
        cls.place.run(0, "tiny-llama", PROMPTS, sets=["sampling.max_new_tokens=12"])
        cls.a = cls.place.path / "a.h5"

    @classmethod
    def tearDownClass(cls):
        cls.place.dir.cleanup()

    def edited(self, edit):
        """A copy of the result after `edit(h5py file)`."""
        b = self.place.path / "b.h5"
        shutil.copy(self.a, b)
        with jobs.h5py.File(b, "r+") as h:
            edit(h)
        return b

    def diff(self, b, *options, want):
        r = jobs.start(0, "diff", str(self.a), str(b), *options)
        self.assertEqual(r.returncode, want, r.stdout + r.stderr)
        return r.stdout

    def only(self, edit, kind, **first):
        found = json.loads(self.diff(self.edited(edit), "--json", want=1))
        self.assertEqual(found["counts"], {kind: 1})
        self.assertEqual(found["first"], [{"kind": kind, **first}])
        return found

    def test_a_copy_is_the_same(self):
        self.assertIn("same answers: 4 prompts, 4 answers, 48 tokens", self.diff(self.a, want=0))
        self.diff(self.edited(lambda h: None), want=0)

    def test_times_do_not_count(self):
        def edit(h):
            for name in ("t_queued", "t_first_token", "t_finished"):
                h["results"][name][...] = 7.0
            h.attrs["run_id"] = "another"

        self.diff(self.edited(edit), want=0)

    def test_one_token(self):
        def edit(h):
            at = h["results/token_offsets"][2] + 5
            edit.old = int(h["results/token_ids"][at])
            h["results/token_ids"][at] = edit.old + 1

        b = self.edited(edit)
        found = json.loads(self.diff(b, "--json", want=1))
        self.assertEqual(found["counts"], {"token_ids": 1})
        self.assertEqual(found["first"], [{"kind": "token_ids", "id": "q2", "sample_index": 0, "position": 5,
                                           "a": str(edit.old), "b": str(edit.old + 1)}])
        self.assertIn(f"[q2] sample 0 token_ids at 5: {edit.old} | {edit.old + 1}", self.diff(b, want=1))

    def test_one_bit_of_a_log_probability(self):
        def edit(h):
            at = h["results/token_offsets"][1] + 3
            edit.value = np.float32(h["results/logprobs"][at])
            edit.moved = np.nextafter(edit.value, np.float32(-100))
            h["results/logprobs"][at] = edit.moved

        b = self.edited(edit)
        found = json.loads(self.diff(b, "--json", want=1))
        self.assertEqual(found["counts"], {"logprobs": 1})
        self.assertEqual((found["first"][0]["id"], found["first"][0]["position"]), ("q1", 3))
        self.assertEqual(np.float32(found["first"][0]["a"]), edit.value)
        self.assertEqual(np.float32(found["first"][0]["b"]), edit.moved)
        self.assertEqual(found["largest_logprob_difference"], abs(float(edit.value) - float(edit.moved)))
        self.diff(b, "--tolerance", "1e-5", want=0)

    def test_text_and_reason(self):
        def text(h):
            row = h["results/text"].asstr()[3]
            h["results/text"][3] = row[:4] + "#" + row[5:]

        found = json.loads(self.diff(self.edited(text), "--json", want=1))
        self.assertEqual(found["counts"], {"text": 1})
        self.assertEqual((found["first"][0]["position"], found["first"][0]["b"][0]), (4, "#"))
        self.only(lambda h: h["results/finish_reason"].__setitem__(0, 0), "finish_reason", id="q0", sample_index=0,
                  a="length", b="stop")

    def test_prompts(self):
        def fail(h):
            h["prompts/status"][1] = 1

        self.only(fail, "status", id="q1", a="done", b="failed")
        self.only(lambda h: h["prompts/error"].__setitem__(1, "lost"), "error", id="q1", position=0, a="(end)", b="lost")

        def score(h):
            h["prompts/prompt_logprobs"][h["prompts/token_offsets"][3] + 1] = -1.25

        found = json.loads(self.diff(self.edited(score), "--json", want=1))
        self.assertEqual(found["counts"], {"prompt_logprobs": 1})
        self.assertEqual(found["first"][0]["b"], "-1.25")

    def test_best_ids(self):
        def edit(h):
            at = h["results/token_offsets"][1]
            h["results/top_ids"][at, 2] = 77

        found = json.loads(self.diff(self.edited(edit), "--json", want=1))
        self.assertEqual(found["counts"], {"top_ids": 1})

    def test_a_renamed_prompt(self):
        found = json.loads(self.diff(self.edited(lambda h: h["prompts/id"].__setitem__(2, "z")), "--json", want=1))
        self.assertEqual(found["counts"], {"only_in_a": 1, "only_in_b": 1})
        self.diff(self.edited(lambda h: h["prompts/id"].__setitem__(2, "z")), "--common", want=0)
        twice = jobs.start(0, "diff", str(self.a), str(self.edited(lambda h: h["prompts/id"].__setitem__(2, "q0"))))
        self.assertEqual(twice.returncode, 3)
        self.assertIn("two prompts have the id 'q0'", twice.stderr)

    def test_another_job(self):
        """Fewer prompts, a narrower k, partial state; another model is told, and compared."""
        with jobs.Workplace() as other:
            other.run(0, "tiny-llama", PROMPTS[2:], sets=["sampling.max_new_tokens=12"])
            b = other.path / "a.h5"
            with jobs.h5py.File(b, "r+") as h:
                h.attrs["state"] = "partial"
            self.assertIn("[q0] only_in_a: a prompt", self.diff(b, want=1))
            text = self.diff(b, "--common", want=0)
            self.assertIn("same answers: 2 prompts, 2 answers, 24 tokens", text)
            self.assertIn("note: the second is partial", text)
            other.run(0, "tiny-llama", PROMPTS, sets=["sampling.max_new_tokens=12", "sampling.temperature=0.5"])
            text = self.diff(b, want=1)
            self.assertEqual(re.findall("note: the jobs differ in (.*)", text), ["sampling.temperature: 0.0 | 0.5"])
            other.run(0, "rand-qwen2", PROMPTS, sets=["sampling.max_new_tokens=12"])
            text = self.diff(b, want=1)
            self.assertIn("note: the architecture differs: LlamaForCausalLM | Qwen2ForCausalLM", text)
            self.assertIn("differing in", text)

    def test_no_result_file(self):
        r = jobs.start(0, "diff", str(self.a), str(self.place.path / "missing.h5"))
        self.assertEqual(r.returncode, 3)
        self.assertIn("missing.h5", r.stderr)
        self.assertEqual(jobs.start(0, "diff", str(self.a)).returncode, 2)


if __name__ == "__main__":
    unittest.main()
