#!/usr/bin/env python3
"""`tpinfer plan` and `tpinfer models` as commands, on the small models: counts, memory, hints that hold, prompts, notes, wrong use."""
import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

README = jobs.ROOT / "README.md"
ROW_UNIT = 64  # in which hints lower engine.max_num_batched_tokens


def model(name):
    return str(jobs.MODELS / name)


def planned(*words, want=0):
    """-> parsed --json of tpinfer plan, which must end with exit code `want`."""
    r = jobs.start(0, "plan", *map(str, words), "--json")
    if r.returncode != want:
        raise AssertionError(f"exit {r.returncode}, wanted {want}: {r.stderr}")
    return json.loads(r.stdout)


def largest(plan, key="total_bytes"):
    return max(r[key] for r in plan["ranks"])


def follow(hint, words):
    """The words of a failed plan changed as its hint says."""
    words = [str(w) for w in words]
    if limit := re.fullmatch(r"set memory.cpu_memory_limit to (\d+) MiB or more if the machine has it", hint):
        words[words.index("--memory") + 1] = limit[1] + "MiB"
        return words
    for step in hint.split(" and "):
        if ranks := re.fullmatch(r"use (\d+) ranks", step):
            words[words.index("--ranks") + 1] = ranks[1]
        else:
            key, value = re.fullmatch(r"set ([a-z_.]+): (\w+)", step).groups()
            words += ["--set", f"{key}={value}"]
    return words


class Counts(unittest.TestCase):
    def test_a_range_is_an_array_of_plans(self):
        plans = planned(model("tiny-mixtral"), "--ranks", "1..9", "--memory", "1GiB")
        self.assertEqual([p["world_size"] for p in plans], list(range(1, 10)))
        self.assertEqual([p["fits"] for p in plans], [True] * 8 + [False])
        self.assertIn("8 query heads", plans[8]["hint"])
        for p in plans[:8]:
            self.assertEqual([r["rank"] for r in p["ranks"]], list(range(p["world_size"])))
            self.assertIsNone(p["hint"])
            for r in p["ranks"]:
                self.assertEqual(r["total_bytes"], r["weights_bytes"] + r["kv_cache_bytes"] + r["workspace_bytes"])
                self.assertEqual(sum(r["weights_by_role"].values()), r["weights_bytes"])
            self.assertEqual(p["kv_cache_sequences"], p["kv_cache_tokens"] // p["max_model_len"])
        self.assertLess(largest(plans[7], "weights_bytes"), largest(plans[0], "weights_bytes") / 4)

    def test_a_range_for_people_has_a_row_a_count(self):
        r = jobs.start(0, "plan", model("tiny-mixtral"), "--ranks", "2..9", "--memory", "1GiB")
        rows = [line.split() for line in r.stdout.splitlines() if re.match(r"\d+ ", line)]
        self.assertEqual([row[0] for row in rows], [str(n) for n in range(2, 9)] + ["9", "9"][:len(rows) - 7])
        self.assertEqual(rows[0][-1], "yes")
        self.assertIn("8 query heads", r.stdout)

    def test_more_ranks_than_query_heads(self):
        r = jobs.start(0, "plan", model("tiny-mixtral"), "--ranks", "9")
        self.assertEqual((r.returncode, r.stdout), (4, ""))
        self.assertIn("9 ranks, but the model has only 8 query heads (use at most 8 ranks)", r.stderr)

    def test_exit_code_4_only_if_no_count_fits(self):
        enough = largest(planned(model("tiny-llama"), "--ranks", 4, "--memory", "1MiB", want=4))
        self.assertFalse(planned(model("tiny-llama"), "--ranks", 1, "--memory", enough, want=4)["fits"])
        plans = planned(model("tiny-llama"), "--ranks", "1..4", "--memory", enough)
        self.assertEqual([p["fits"] for p in plans], [False, False, False, True])

    def test_unequal_memory(self):
        need = planned(model("tiny-llama"), "--ranks", 3, "--memory", "1MiB", want=4)["ranks"]
        plan = planned(model("tiny-llama"), "--ranks", 3, "--memory", f"1GiB,{need[1]['total_bytes'] - 1}", want=4)
        self.assertEqual([r["budget_bytes"] for r in plan["ranks"]], [1 << 30] + [need[1]["total_bytes"] - 1] * 2)
        self.assertEqual([r["fits"] for r in plan["ranks"]][:2], [True, False])
        poor = planned(model("tiny-llama"), "--ranks", 2, "--memory", "1GiB,40MB")
        rich = planned(model("tiny-llama"), "--ranks", 2, "--memory", "1GiB")
        self.assertLess(poor["kv_cache_tokens"], rich["kv_cache_tokens"])  # the poorest rank limits the cache
        self.assertLessEqual(poor["ranks"][1]["total_bytes"], 40_000_000)

    def test_wrong_use(self):
        for words in (["--ranks", "0"], ["--ranks", "4..2"], ["--ranks", "two"], ["--ranks", "1..x"], ["--memory", "lots"],
                      ["--memory", "1GiB,"], ["--ranks", "2", "--memory", "1GiB,1GiB,1GiB"], ["--ranks", "1..2", "--tensors"],
                      ["--set", "engine.max_num_seq=3"]):
            r = jobs.start(0, "plan", model("tiny-llama"), *words)
            self.assertEqual((r.returncode, r.stdout), (2, ""), words)
            self.assertIn(words[-1].split("=")[0].strip("-").split(".")[-1], r.stderr)
        self.assertEqual(jobs.start(0, "plan", "/nowhere/at/all").returncode, 2)


class Hints(unittest.TestCase):
    """Every hint makes the plan fit, and a smaller change of its kind does not."""

    def expect_hint(self, pattern, *words):
        plan = planned(*words, want=4)
        self.assertRegex(plan["hint"], f"^{pattern}$")
        self.assertTrue(planned(*follow(plan["hint"], words))["fits"], plan["hint"])
        return plan["hint"]

    def job(self, place, folder="tiny-llama", tokens=8, **sampling):
        return place.job(folder, jobs.records_of([{"input_ids": list(range(5, 5 + tokens))}], **sampling))

    def test_more_ranks(self):
        for folder in ("tiny-llama", "tiny-mixtral", "tiny-gpt-bigcode", "rand-llama-uneven"):
            for ranks in (2, 3):
                enough = largest(planned(model(folder), "--ranks", ranks, "--memory", "1kB", want=4))
                words = [model(folder), "--ranks", "1", "--memory", enough]
                self.assertEqual(self.expect_hint(r"use \d+ ranks", *words), f"use {ranks} ranks", folder)

    def test_a_smaller_engine(self):
        words = [model("tiny-llama"), "--ranks", "8", "--memory"]
        words.append(largest(planned(*words, "1kB", "--set", "engine.max_num_batched_tokens=700", want=4)))
        hint = self.expect_hint(r"set engine.max_num_batched_tokens: \d+", *words)
        rows = int(hint.split()[-1])
        self.assertEqual(rows, 640)
        self.assertFalse(planned(*words, "--set", f"engine.max_num_batched_tokens={rows + ROW_UNIT}", want=4)["fits"])
        exact = largest(planned(*words, want=4))
        hint = self.expect_hint(r"set engine.max_num_seqs: \d+", *words[:-1], exact - 1)  # a byte too much
        sequences = int(hint.split()[-1])
        self.assertFalse(planned(*words[:-1], exact - 1, "--set", f"engine.max_num_seqs={sequences + 1}", want=4)["fits"])

    def test_a_shorter_model_length(self):
        with jobs.Workplace() as place:
            words = [self.job(place, max_new_tokens=900), "--ranks", "8", "--memory"]
            short = largest(planned(*words, "1kB", "--set", "engine.max_model_len=512", want=4))
            answer = 8 * 400  # bytes of the answer that is cut off, which the search leaves in
            hint = self.expect_hint(r"set engine.max_model_len: \d+", *words, short + answer)
            self.assertEqual(hint, "set engine.max_model_len: 512")

    def test_never_shorter_than_a_prompt(self):
        with jobs.Workplace() as place:
            words = [self.job(place, tokens=600, max_new_tokens=400), "--ranks", "8", "--set", "engine.max_num_batched_tokens=64", "--memory"]
            short = largest(planned(*words, "1kB", "--set", "memory.kv_cache=512 tokens", want=4))
            self.assertNotIn("max_model_len", planned(*words, short, want=4)["hint"])

    def test_another_dtype(self):
        with jobs.Workplace() as place:
            job = self.job(place, max_new_tokens=100)
            words = [job, "--set", "model.dtype=float32", "--ranks", "8", "--memory"]
            narrow = largest(planned(job, "--ranks", 8, "--memory", "1kB", "--set", "model.dtype=float16", want=4))
            self.assertEqual(self.expect_hint(r"set model.dtype: \w+", *words, narrow), "set model.dtype: float16")

    def test_another_dtype_and_more_ranks(self):
        with jobs.Workplace() as place:
            job = self.job(place, max_new_tokens=100)
            words = [job, "--set", "model.dtype=float32", "--ranks", "2", "--memory"]
            narrow = largest(planned(job, "--ranks", 8, "--memory", "1kB", "--set", "model.dtype=float16", want=4))
            self.expect_hint(r"set model.dtype: float16 and use \d ranks", *words, narrow)

    def test_more_ranks_and_a_smaller_engine(self):
        words = [model("tiny-llama"), "--ranks", "1", "--memory"]
        few = largest(planned(*words[:1], "--ranks", "6", "--memory", "1kB", "--set", "engine.max_num_batched_tokens=64", want=4))
        self.expect_hint(r"use [2-8] ranks and set engine.max_num_batched_tokens: \d+", *words, few)

    def test_when_only_memory_helps(self):
        words = [model("tiny-llama"), "--ranks", "8", "--memory", "64kB"]
        self.expect_hint(r"set memory.cpu_memory_limit to \d+ MiB or more if the machine has it", *words)

    def test_run_says_the_same(self):
        with jobs.Workplace() as place:
            job = self.job(place, max_new_tokens=100)
            enough = largest(planned(job, "--ranks", 3, "--memory", "1kB", want=4))
            r = jobs.start(1, "run", job, "--set", f"memory.cpu_memory_limit={enough}")
            self.assertEqual(r.returncode, 4)
            self.assertIn("(use 3 ranks)", r.stderr)
            self.assertEqual(jobs.start(3, "run", job, "--set", f"memory.cpu_memory_limit={enough}").returncode, 0)


class Prompts(unittest.TestCase):
    def records(self, *lengths):
        return [{"id": f"of {n}", "token_ids": [7] * n, "params": {"max_new_tokens": 20}} for n in lengths]

    def test_the_longest_and_those_that_are_too_long(self):
        with jobs.Workplace() as place:
            job = place.job("tiny-gpt-bigcode", self.records(3, 512, 400, 9, 600))  # 512 positions
            about = planned(job, "--memory", "1GiB")["prompts"]
            self.assertEqual((about["count"], about["longest_id"], about["longest_tokens"], about["longest_with_answer"]), (5, "of 400", 400, 420))
            self.assertEqual([t["id"] for t in about["cannot_run"]], ["of 512", "of 600"])
            r = jobs.start(0, "plan", job, "--memory", "1GiB")
            self.assertIn('the longest is "of 400" with 400 tokens', r.stdout)
            self.assertIn("the prompt has 600 tokens, the model takes 512 with the answer", r.stdout)

    def test_a_cache_of_the_jobs_own_size(self):
        with jobs.Workplace() as place:
            job = place.job("tiny-llama", self.records(3, 100, 200), memory={"kv_cache": "128 tokens"})
            plan = planned(job, "--memory", "1GiB")
            self.assertEqual(plan["kv_cache_tokens"], 128)
            self.assertEqual([t["id"] for t in plan["prompts"]["cannot_run"]], ["of 200"])

    def test_buffers_for_logits_and_log_probabilities(self):
        """Logits of a step, and the log probabilities that rank 0 keeps for the result file."""
        with jobs.Workplace() as place:
            job = place.job("tiny-llama", self.records(*range(1, 200)))
            plain = planned(job, "--ranks", 2, "--memory", "1GiB")["ranks"]
            asked = planned(job, "--ranks", 2, "--memory", "1GiB", "--set", "sampling.logprobs=20")["ranks"]
            self.assertEqual(asked[0]["workspace_bytes"] - plain[0]["workspace_bytes"], 199 * 20 * 20 * 8)  # id and float
            self.assertEqual(asked[1]["workspace_bytes"], plain[1]["workspace_bytes"])
            rows = 256  # of logits at once
            # rank 0 has room for all rows and the answers' log probabilities, rank 1 for the half that it samples
            self.assertEqual(plain[0]["workspace_bytes"] - plain[1]["workspace_bytes"], rows // 2 * 2048 * 4 + 199 * 20 * 8)

    def test_without_tokenizer_or_prompt_file(self):
        with jobs.Workplace() as place:
            folder = place.path / "bare"
            folder.mkdir()
            for file in jobs.MODELS.joinpath("tiny-mixtral").iterdir():
                if not file.name.startswith(("tokenizer", "golden", "sampling")):
                    shutil.copy(file, folder)
            job = place.job(str(folder), [{"id": "a", "prompt": "Hello"}])
            for trouble in ("tokenizer.json", "p.jsonl"):
                r = jobs.start(0, "plan", job, "--ranks", "2", "--memory", "1GiB", "--json")
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn("tpinfer: note: planned without the prompts: ", r.stderr)
                self.assertIn(trouble, r.stderr)
                self.assertIsNone(json.loads(r.stdout)["prompts"])
                (place.path / "p.jsonl").unlink(missing_ok=True)
            self.assertEqual(planned(str(folder), "--memory", "1GiB")["world_size"], 1)

    def test_the_jobs_own_rank_count_and_memory(self):
        with jobs.Workplace() as place:
            job = place.job("tiny-llama", self.records(3), parallel={"tensor_parallel_size": 3}, memory={"cpu_memory_limit": "200MB"})
            plan = planned(job)
            self.assertEqual([r["budget_bytes"] for r in plan["ranks"]], [200_000_000] * 3)
            self.assertEqual(planned(job, "--ranks", 2, "--memory", "1GiB")["ranks"][1]["budget_bytes"], 1 << 30)


class Models(unittest.TestCase):
    def test_the_readme_is_current(self):
        table = jobs.start(0, "models", "--markdown").stdout
        text = README.read_text()
        begin, end = (f"<!-- models: {word}" for word in ("begin", "end"))
        self.assertEqual(text.count(begin), 1)
        inside = text[text.index("\n", text.index(begin)) + 1:text.index(end)]
        self.assertEqual(inside, table, "put the output of tpinfer models --markdown between the markers")

    def test_what_it_says_is_what_plans_do(self):
        families = {f["family"]: f for f in json.loads(jobs.start(0, "models", "--json").stdout)["families"]}
        seen = set()
        for folder in sorted(p.parent for p in jobs.MODELS.glob("*/config.json")):
            plan = planned(folder, "--ranks", 2, "--memory", "1GiB", "--tensors")
            family = families[plan["model"]["family"]]
            self.assertIn(plan["model"]["architecture"], family["architectures"])
            for tensor in plan["tensors"]:
                told = {part["split"] for part in family["parts"] if tensor["role"] in part["roles"]}
                self.assertIn(tensor["split"], told, tensor["name"])
                self.assertLessEqual(len(told), 2 if tensor["role"] == "norm" else 1, tensor["name"])  # norms of all heads are cut
            seen.add(plan["model"]["family"])
        self.assertEqual(seen, set(families), "every family has a small model")

    def test_gates_of_experts_stay_whole(self):
        text = jobs.start(0, "models").stdout
        self.assertIn("whole on every rank: norm, router, shared_expert_gate", text)
        for architecture in ("MixtralForCausalLM", "Qwen2MoeForCausalLM", "GPTBigCodeForCausalLM", "LlamaForCausalLM"):
            self.assertIn(architecture, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
