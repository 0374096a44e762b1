#!/usr/bin/env python3
"""`tpinfer schema`: a valid JSON Schema that takes and refuses what the job reader takes and refuses, key by key; all jobs and presets of the tree pass."""
import concurrent.futures
import copy
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

try:
    import job_yaml
    import jsonschema
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TREE = sorted(p for folder in ("jobs", "configs") for p in (jobs.ROOT / folder).rglob("*.yaml"))
SMALLEST = {"model": {"path": "m"}, "prompts": {"file": "p"}, "output": {"file": "o.h5"}}

WRONG = {
    "unknown key": "engin: {max_num_seqs: 4}",
    "unknown key of a section": "sampling: {tempreture: 1}",
    "not a number": "sampling: {temperature: hot}",
    "a word for a number": "sampling: {top_k: '5'}",
    "out of range": "sampling: {top_p: 1.5}",
    "zero excluded": "sampling: {repetition_penalty: 0}",
    "not one of the words": "prompts: {file: p, format: xml}",
    "not one of the numbers": "engine: {kv_block_size: 20}",
    "yes for true": "engine: {prefix_sharing: yes}",
    "no size": "memory: {cpu_memory_limit: much}",
    "a size of zero": "memory: {cpu_memory_limit: 0GiB}",
    "no duration": "run: {stop_margin: soon}",
    "no shard": "prompts: {file: p, select: {shard: 3of4}}",
    "null where there must be text": "output: {file: null}",
    "a list for a text": "output: {file: [a, b]}",
    "an alias beside its key": "sampling: {max_tokens: 3, max_new_tokens: 3}",
    "no number for a token": "sampling: {logit_bias: {a: 1}}",
    "a tilde": "model: ~/models/x",
    "an unknown version": "version: 2",
    "a text for a section": "output: o.h5",
}
RIGHT = {
    "short model": "model: m",
    "model_path": "{model: null, model_path: m}",
    "aliases": "sampling: {max_tokens: 3, num_return_sequences: 2}",
    "an empty section": "engine:",
    "other names of types": "model: {path: m, dtype: torch.float16}",
    "several files": "prompts: {file: [a, b]}",
    "a cache in tokens": "memory: {kv_cache: 32768 tokens}",
    "a clock": "run: {time_limit: '03:30:00'}",
    "two units": "run: {time_limit: 3h30m}",
    "reproducible off": "engine: {reproducible: off}",
    "a bias": "sampling: {logit_bias: {7: -1.5}}",
    "the second part": "prompts: {file: p, select: {shard: 2/3}}",
    "bytes": "memory: {cpu_memory_limit: 1000000000}",
}
# Of each kind of value, some that other kinds do not have: tried on every key.
PROBES = [None, True, "auto", "none", "word", "", 0, 1, 3, 16, -1, 0.5, 2.5, 10**18, "4GiB", "90s", "slurm_array", [], ["a"], [5], {}, {"5": 1}]


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.schema = json.loads(jobs.start(0, "schema").stdout)
        cls.validator = jsonschema.Draft202012Validator(cls.schema)
        cls.dir = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def taken(self, job):
        """-> (by the schema, by the reader: no complaint has a place in the file; the model is absent anyway)"""
        file = tempfile.NamedTemporaryFile("w", dir=self.dir.name, suffix=".json", delete=False)
        with file:
            json.dump(job, file)
        r = jobs.start(0, "check", file.name, env={"OMP_NUM_THREADS": "1"})
        faults = [line for line in r.stderr.splitlines() if line.startswith(file.name + ":")]
        return self.validator.is_valid(job), not faults, r.stderr

    def each_taken(self, variants):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(zip(variants, pool.map(lambda v: self.taken(v[1]), variants)))

    def test_it_is_a_schema(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)
        self.assertEqual(self.schema["$schema"], "https://json-schema.org/draft/2020-12/schema")

    def keys(self):
        """(path, schema of the value) of every key that holds a value."""
        def walk(properties, path):
            for key, value in properties.items():
                inner = value if "properties" in value else next((c for c in value.get("anyOf", []) if "properties" in c), None)
                if inner:
                    yield from walk(inner["properties"], path + (key,))
                else:
                    yield path + (key,), value
        return list(walk(self.schema["properties"], ()))

    def test_every_key_is_described_and_in_the_readme(self):
        readme = (jobs.ROOT / "README.md").read_text()
        for path, value in self.keys():
            self.assertTrue(value.get("description"), path)
        described = {".".join(path) for path, _ in self.keys()}
        self.assertGreater(len(described), 60)
        for key in ("sampling.top_p", "prompts.select.shard", "output.flush_every.seconds", "model.model_path"):
            self.assertIn(key, described)
        absent = {"version", "sampling_given"}
        for path, value in self.keys():
            self.assertTrue(path[-1] in absent or path[-1] in readme, path)

    def test_defaults_are_valid_and_those_of_the_reader(self):
        job = copy.deepcopy(SMALLEST)
        for path, value in self.keys():
            if "default" not in value or path[0] in ("version", "include") or path[-1] in ("max_tokens", "num_return_sequences"):
                continue
            place = job
            for key in path[:-1]:
                place = place.setdefault(key, {})
            place[path[-1]] = value["default"]
        by_schema, by_reader, complaint = self.taken(job)
        self.assertTrue(by_schema, list(self.validator.iter_errors(job)))
        self.assertTrue(by_reader, complaint)

    def test_the_tree(self):
        self.assertGreater(len(TREE), 8)
        for path in TREE:
            job = job_yaml.load(path.read_text())
            if path.parent.name == "configs":  # a part of a job
                job = {"include": [], **job}
            errors = list(self.validator.iter_errors(job))
            self.assertFalse(errors, (path, errors[:1]))

    def test_wrong_and_right_jobs(self):
        for cases, want in ((WRONG, False), (RIGHT, True)):
            variants = [(name, {**SMALLEST, **job_yaml.load(text)}) for name, text in cases.items()]
            for (name, job), (by_schema, by_reader, complaint) in self.each_taken(variants):
                self.assertEqual((by_schema, by_reader), (want, want), (name, job, complaint))
        for missing in SMALLEST:
            job = {k: v for k, v in SMALLEST.items() if k != missing}
            self.assertEqual(self.taken(job)[:2], (False, False), missing)
            self.assertTrue(self.validator.is_valid({"include": ["preset.yaml"], **job}), missing)
        self.assertEqual(self.taken({**SMALLEST, "prompts": {}})[:2], (False, False))

    def test_each_key_takes_what_the_reader_takes(self):
        variants = []
        for path, _ in self.keys():
            if path[-1] in ("include", "file") or path[0] in ("model_path", "model_name_or_path", "sampling_given"):
                continue
            for probe in PROBES:
                if path[-1] in ("max_new_tokens", "max_tokens") and probe == 0 and probe is not False:
                    continue  # only with prompt_logprobs, which no schema of one key can say
                job = copy.deepcopy(SMALLEST)
                if path[0] == "model" and path[-1].startswith("model_"):
                    job["model"] = {}
                place = job
                for key in path[:-1]:
                    place = place.setdefault(key, {})
                place[path[-1]] = probe
                variants.append((".".join(path), job))
        step = 1 if jobs.os.environ.get("TPINFER_LONG_TESTS") else 4
        differing = [(name, job, by_schema, complaint)
                     for (name, job), (by_schema, by_reader, complaint) in self.each_taken(variants[::step])
                     if by_schema != by_reader]
        self.assertFalse(differing, differing[:3])


if __name__ == "__main__":
    unittest.main(verbosity=2)
