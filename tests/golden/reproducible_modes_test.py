#!/usr/bin/env python3
"""engine.reproducible: what each mode promises is kept and stored, and `off` really adds in another way."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

np = jobs.np
MODELS = ["tiny-llama", "tiny-mixtral", "tiny-qwen2-moe", "tiny-gpt-bigcode"]
NEW = 12


def run(place, model, ranks, mode, dtype="float32"):
    cases = jobs.golden(model)["cases"][:4]
    return place.run(ranks, model, jobs.records_of(cases, max_new_tokens=NEW, prompt_logprobs=1), model={"dtype": dtype},
                     engine={"reproducible": mode} if mode else {}, parallel={"threads": 1})


def logprobs(answers):
    return np.concatenate([*answers["logprobs"], *answers["prompt_logprobs"]])


class Modes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = jobs.Workplace()

    @classmethod
    def tearDownClass(cls):
        cls.place.dir.cleanup()

    def test_the_mode_is_stored(self):
        for ranks, asked, stored in ((1, None, "full"), (2, "full", "full"), (2, "batch", "batch"), (1, "off", "off"), (2, "off", "off")):
            with self.subTest(ranks=ranks, asked=asked):
                self.assertEqual(run(self.place, "tiny-llama", ranks, asked)["attrs"]["reproducible"], stored)

    def test_off_is_right_and_other_arithmetic(self):
        """Within rounding of `full`, and not bitwise: a yardstick that does the same work would measure nothing."""
        for model in MODELS:
            for dtype, tolerance in (("float32", 1e-4), ("bfloat16", 0.1)):
                full = run(self.place, model, 1, "full", dtype)
                for ranks in (1, 2, 3) if dtype == "float32" else (2,):
                    with self.subTest(model=model, dtype=dtype, ranks=ranks):
                        off = run(self.place, model, ranks, "off", dtype)
                        if dtype == "float32":
                            for a, b in zip(full["ids"], off["ids"]):
                                self.assertEqual(a.tolist(), b.tolist())
                            np.testing.assert_allclose(logprobs(off), logprobs(full), atol=tolerance)
                            self.assertFalse(np.array_equal(logprobs(off), logprobs(full), equal_nan=True))
                        else:  # a token may tip: the prompts' own scores then
                            np.testing.assert_allclose(np.concatenate(off["prompt_logprobs"]),
                                                       np.concatenate(full["prompt_logprobs"]), atol=tolerance)

    def test_batch_is_full_arithmetic_on_a_cpu(self):
        for model in MODELS[:2]:
            a, b = run(self.place, model, 2, "batch"), run(self.place, model, 1, "full")
            np.testing.assert_array_equal(logprobs(a), logprobs(b))


if __name__ == "__main__":
    unittest.main()
