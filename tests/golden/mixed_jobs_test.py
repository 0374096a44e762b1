"""A mixed job gives each prompt the answer that it gets alone: whatever runs beside it, is shared with it or takes its cache."""
import os
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import h5py

MODELS = ["tiny-llama", "tiny-mixtral", "tiny-qwen2-moe", "tiny-gpt-bigcode", "rand-mistral-swa"]


def sampling(rng, vocab):
    """Parameters of one record: all options, in all kinds of company."""
    if rng.random() < 0.25:
        return {"temperature": 0}
    p = {"temperature": rng.choice([0.3, 0.8, 1.0, 1.7]), "seed": rng.randrange(1000)}
    options = {"top_k": lambda: rng.choice([1, 5, 40]), "top_p": lambda: rng.choice([0.5, 0.9, 0.99]), "min_p": lambda: rng.choice([0.02, 0.2]),
               "repetition_penalty": lambda: rng.choice([0.9, 1.2]), "presence_penalty": lambda: rng.choice([-0.5, 0.7]),
               "frequency_penalty": lambda: rng.choice([-0.2, 0.4]), "no_repeat_ngram_size": lambda: rng.choice([2, 3]),
               "logit_bias": lambda: {str(rng.randrange(vocab)): rng.choice([-100, -2.5, 3]) for _ in range(3)},
               "min_new_tokens": lambda: 2, "stop_token_ids": lambda: [rng.randrange(vocab) for _ in range(3)],
               "logprobs": lambda: rng.choice([0, 3]), "prompt_logprobs": lambda: rng.choice([0, 2]), "n": lambda: rng.choice([2, 4]),
               "ignore_eos": lambda: False}
    for key, value in options.items():
        if rng.random() < 0.3:
            p[key] = value()
    return p


def mixed(model, count, longest_prompt, longest_answer, seed, texts=()):
    """Records of all lengths, half of which begin with one of three prefixes."""
    rng = random.Random(seed)
    config = jobs.json.loads((jobs.MODELS / model / "config.json").read_text())
    vocab = config["vocab_size"]
    ids = lambda n: [rng.randrange(3, vocab) for _ in range(n)]
    prefixes = [ids(longest_prompt * k // 4) for k in (1, 2, 3)]
    records = []
    for i in range(count):
        start = rng.choice(prefixes) if rng.random() < 0.5 else []
        prompt = start + ids(rng.randint(1, max(1, longest_prompt - len(start))))
        records.append({"id": f"r{i}", "token_ids": prompt, "params": {"max_new_tokens": rng.randint(2, longest_answer), **sampling(rng, vocab)}})
    for i, text in enumerate(texts):
        records.append({"id": f"t{i}", "prompt": text, "params": {"max_new_tokens": 40, "temperature": 1.0, "seed": i, "n": 2, "stop": ["the", "e ", "\n\n"],
                                                                 "bad_words": ["and"], "include_stop_str_in_output": i % 2 == 0}})
    return records


class MixedJobs(unittest.TestCase):
    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.__exit__)

    def run_job(self, name, ranks, model, records, *sets, **more):
        job = self.place.job(model, records, **more)
        words = [w for s in (f"output.file={self.place.path}/{name}.h5", *sets) for w in ("--set", s)]
        r = jobs.start(ranks, "run", job, "--progress", "none", *words, timeout=600)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        return self.place.path / f"{name}.h5"

    def assert_same(self, a, b):
        r = jobs.start(0, "diff", str(a), str(b))
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def steps(self, file, column):
        with h5py.File(file) as h:
            return int(h["steps"][column][-1])

    def test_mixed_job_is_answered_as_one_prompt_at_a_time(self):
        for model in MODELS:
            with self.subTest(model):
                texts = [] if model.startswith("rand") else ["Once upon a time", "O Romeo, Romeo! wherefore art", "def f(x):"]
                records = mixed(model, 40, 60, 30, 7, texts)
                more = {"sampling": {"allow_unknown_ids": True}}
                alone = self.run_job("alone", 1, model, records, "engine.max_num_seqs=1", "engine.prefix_sharing=false", "parallel.threads=1", **more)
                together = self.run_job("together", 2, model, records, "engine.max_num_batched_tokens=100", "parallel.threads=1", **more)
                self.assert_same(alone, together)
                self.assertGreater(self.steps(together, "shared_tokens"), 300)
                self.assertEqual(self.steps(alone, "shared_tokens"), 0)

    def test_two_hundred_prompts_of_all_lengths(self):
        records = mixed("tiny-llama", 200, 300, 100, 11)
        alone = self.run_job("alone", 1, "tiny-llama", records, "engine.max_num_seqs=1", "engine.prefix_sharing=false", "parallel.threads=1")
        for name, ranks, sets in (("all", 1, ["engine.max_num_seqs=256", "parallel.threads=2"]),
                                  ("small", 3, ["engine.max_num_seqs=17", "engine.max_num_batched_tokens=50", "engine.kv_block_size=32", "parallel.threads=1"]),
                                  ("unshared", 2, ["engine.prefix_sharing=false", "parallel.threads=1"])):
            with self.subTest(name):
                self.assert_same(alone, self.run_job(name, ranks, "tiny-llama", records, *sets))

    def test_hundreds_of_preemptions_change_no_answer(self):
        more_families = ["tiny-mixtral", "tiny-qwen2-moe", "tiny-gpt-bigcode"] if os.environ.get("TPINFER_LONG_TESTS") == "1" else []
        for model in ["tiny-llama", "rand-mistral-swa", *more_families]:
            with self.subTest(model):
                records = mixed(model, 220, 20, 100, 5)
                more = {"sampling": {"allow_unknown_ids": True}}
                alone = self.run_job("alone", 1, model, records, "engine.max_num_seqs=1", "engine.prefix_sharing=false", "parallel.threads=1", **more)
                tight = self.run_job("tight", 2, model, records, "memory.kv_cache=128", "engine.max_num_seqs=32", "parallel.threads=1", **more)
                self.assert_same(alone, tight)
                self.assertGreater(self.steps(tight, "preemptions"), 200)

    def test_replicas_give_the_same_answers(self):
        records = mixed("tiny-mixtral", 50, 60, 40, 3, ["Once upon a time", "To be, or not"])
        one = self.run_job("one", 1, "tiny-mixtral", records, "parallel.threads=1")
        for ranks, replicas in ((2, 2), (4, 2), (4, 4), (4, 1)):
            with self.subTest(ranks=ranks, replicas=replicas):
                file = self.run_job("many", ranks, "tiny-mixtral", records, f"parallel.data_parallel_size={replicas}", "engine.max_num_seqs=4", "parallel.threads=1")
                self.assert_same(one, file)
                with h5py.File(file) as h:
                    self.assertEqual(sorted(h["ranks/replica"][:].tolist()), sorted(r * replicas // ranks for r in range(ranks)))
                    self.assertEqual(h["plan"].attrs["data_parallel_size"], replicas)
                    self.assertEqual(h["plan"].attrs["tensor_parallel_size"], ranks // replicas)
                    self.assertEqual(h["plan/memory/bytes"].shape[0], ranks)

    def test_replicas_share_the_work_as_they_become_free(self):
        # one prompt is long, the others short: nobody waits behind it
        records = [{"id": "long", "token_ids": [5, 6, 7], "params": {"max_new_tokens": 400}}]
        records += [{"id": f"s{i}", "token_ids": [5, 6, 7 + i], "params": {"max_new_tokens": 20}} for i in range(40)]
        file = self.run_job("shared", 2, "tiny-llama", records, "parallel.data_parallel_size=2", "engine.max_num_seqs=1", "parallel.threads=1")
        with h5py.File(file) as h:
            finished, first = h["results/t_finished"][:], h["results/t_first_token"][:]
        # those short ones that were begun while the long one ran did not wait for it
        self.assertGreater(sum(first[1:] < finished[0]), 10)

    def test_the_longest_work_starts_first(self):
        lengths = [5, 90, 30, 1, 60, 90, 12]
        records = [{"id": str(i), "token_ids": [5, 6, 7 + i], "params": {"max_new_tokens": n}} for i, n in enumerate(lengths)]
        file = self.run_job("order", 2, "rand-llama-tied", records, "engine.max_num_seqs=1", "parallel.threads=1")
        with h5py.File(file) as h:
            first = h["results/t_first_token"][:]
        order = sorted(range(len(lengths)), key=lambda i: first[i])
        self.assertEqual(order, sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)))
        file = self.run_job("two", 2, "rand-llama-tied", records, "parallel.data_parallel_size=2", "engine.max_num_seqs=1", "parallel.threads=1")
        with h5py.File(file) as h:
            first = h["results/t_first_token"][:]
        self.assertLessEqual(max(first[1], first[5]), min(first[i] for i in (0, 2, 3, 4, 6)))

    def test_a_prompt_beyond_the_cache_is_one_failed_row(self):
        records = [{"id": f"{n}+{m}", "token_ids": [5 + i % 200 for i in range(n)], "params": {"max_new_tokens": m}}
                   for n, m in ((10, 6), (100, 20), (40, 8), (60, 5), (30, 35))]
        for ranks, policy, status in ((1, "fail", 1), (2, "fail", 1), (2, "skip", 2)):
            job = self.place.job("rand-llama-tied", records)
            r = jobs.start(ranks, "run", job, "--progress", "none", "--set", "memory.kv_cache=64 tokens", "--set", f"prompts.on_too_long={policy}")
            self.assertEqual(r.returncode, 5 if policy == "fail" else 0, r.stderr)
            got = jobs.read(self.place.path / "a.h5")
            self.assertEqual(got["status"], [0, status, 0, status, status])
            self.assertEqual([len(i) for i in got["ids"]], [6, 8])
            for row, tokens in ((1, 120), (3, 65), (4, 65)):
                self.assertEqual(got["error"][row], f"the prompt needs {tokens} tokens of KV cache with its answer, the cache holds 64 (memory.kv_cache)")

    def test_rank_counts_that_do_not_divide_are_refused(self):
        job = self.place.job("tiny-llama", mixed("tiny-llama", 2, 5, 5, 1))
        for sets, words in ((["parallel.data_parallel_size=2"], "data_parallel_size is 2, but 3 ranks"),
                            (["parallel.data_parallel_size=3", "parallel.tensor_parallel_size=2"], "tensor_parallel_size is 2 and data_parallel_size 3")):
            r = jobs.start(3, "run", job, *[w for s in sets for w in ("--set", s)])
            self.assertEqual(r.returncode, 2)
            self.assertIn(words, r.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
