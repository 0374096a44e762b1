#!/usr/bin/env python3
"""Hashes of golden runs, pinned to the numeric version: numbers do not change by accident.

  pinned_test.py            compares the kernel sets that this processor has
  pinned_test.py --update   after kNumericVersion was raised: writes tests/data/pinned.json anew (only the sets of this
                            processor; run it where all of them are)
"""
import hashlib
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs  # noqa: E402

PINS = jobs.ROOT / "tests" / "data" / "pinned.json"
MODELS = ["tiny-llama", "tiny-mixtral", "tiny-qwen2-moe", "tiny-gpt-bigcode"]
DTYPES = ["float32", "bfloat16", "float16"]
SETS = ["scalar", "avx2", "avx512", "avx512-bf16"]
DRAWN = {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "repetition_penalty": 1.1, "frequency_penalty": 0.2, "seed": 3}
WHAT_TO_DO = """the numbers of {what} have changed, yet the numeric version is still {version}.
If no sum was meant to change, this is a fault: find it. If one was changed on purpose, raise kNumericVersion in
lib/core/exact_sum.hpp (stored results and jobs to be resumed are told apart by it), then run
tests/golden/pinned_test.py --update and commit tests/data/pinned.json with the change."""


def digest(model, dtype, kernel_set):
    """-> (hash of token ids and log probabilities, numeric version); None when the processor lacks the set."""
    cases = jobs.golden(model)["cases"][:4]
    records = [{"id": str(i), "token_ids": c["input_ids"], "params": {"max_new_tokens": 8, "prompt_logprobs": 1, **(DRAWN if i % 2 else {})}}
               for i, c in enumerate(cases)]
    with jobs.Workplace() as w:
        r = jobs.start(0, "run", w.job(model, records, model={"dtype": dtype}), "--progress", "none", env={"TPINFER_ISA": kernel_set})
        if r.returncode == 2 and "this processor lacks" in r.stderr:
            return None
        if r.returncode:
            raise AssertionError(r.stderr)
        got = jobs.read(w.path / "a.h5")
    sha = hashlib.sha256()
    for row in range(len(cases)):
        for values in (got["ids"][row].astype("<i4"), got["logprobs"][row].astype("<f4"), got["prompt_logprobs"][row][1:].astype("<f4")):
            sha.update(values.tobytes())
    return sha.hexdigest()[:16], int(got["attrs"]["numeric_version"])


def measured():
    """-> {kernel set: {dtype: {model: hash}}}, numeric version"""
    hashes, version = {}, None
    for kernel_set in SETS:
        for dtype in DTYPES:
            for model in MODELS:
                found = digest(model, dtype, kernel_set)
                if found is None:
                    continue
                hashes.setdefault(kernel_set, {}).setdefault(dtype, {})[model], version = found
    return hashes, version


class Pinned(unittest.TestCase):
    def test_numbers_are_those_of_the_numeric_version(self):
        pins = json.loads(PINS.read_text())
        hashes, version = measured()
        self.assertEqual(version, pins["numeric_version"],
                         "the numeric version was raised: run tests/golden/pinned_test.py --update and commit tests/data/pinned.json")
        for kernel_set, dtypes in hashes.items():
            for dtype, models in dtypes.items():
                for model, found in models.items():
                    with self.subTest(kernel_set=kernel_set, dtype=dtype, model=model):
                        self.assertEqual(found, pins["hashes"].get(kernel_set, {}).get(dtype, {}).get(model),
                                         WHAT_TO_DO.format(what=f"{model} in {dtype} with {kernel_set} kernels", version=version))
        print("compared:", ", ".join(hashes))

    def test_each_hash_is_another(self):
        """Types and models differ in their numbers, so a hash that says nothing would show. (Sets need not: those with fused
        multiplication and addition keep one order, and products of bfloat16 are exact in float32.)"""
        pins = json.loads(PINS.read_text())["hashes"]
        self.assertLessEqual(set(pins), set(SETS))
        for kernel_set, dtypes in pins.items():
            self.assertEqual(len({h for models in dtypes.values() for h in models.values()}), len(DTYPES) * len(MODELS), kernel_set)
        if "scalar" in pins and "avx2" in pins:
            self.assertFalse(set(pins["scalar"]["float32"].values()) & set(pins["avx2"]["float32"].values()))


def update():
    old = json.loads(PINS.read_text()) if PINS.exists() else {"numeric_version": 0, "hashes": {}}
    hashes, version = measured()
    if version == old["numeric_version"] and hashes != old["hashes"]:
        changed = [f"{s} {d} {m}" for s, ds in hashes.items() for d, ms in ds.items() for m, h in ms.items()
                   if old["hashes"].get(s, {}).get(d, {}).get(m, h) != h]
        if changed:
            sys.exit("pinned_test.py: " + WHAT_TO_DO.format(what=", ".join(changed), version=version))
    missing = [s for s in SETS if s not in hashes]
    if missing:
        print("not pinned, as this processor lacks them:", ", ".join(missing))
    PINS.write_text(json.dumps({"numeric_version": version, "hashes": hashes}, indent=1) + "\n")
    print(f"{PINS} is of numeric version {version}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
