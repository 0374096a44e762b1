"""Broken model folders end with the right exit code and sentence, by plan, check and run; check tells all faults at once."""
import hashlib
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from jobs import ENV, SHARED, TPINFER, Workplace, read, start  # noqa: E402

SCRIPT = SHARED / "tools" / "checkpoints" / "make_hostile.py"
if not SCRIPT.exists():
    print(f"skipped: {SCRIPT} is not there")
    sys.exit(77)
spec = importlib.util.spec_from_file_location("make_hostile", SCRIPT)
hostile = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hostile)

LONG = os.environ.get("TPINFER_LONG_TESTS") == "1"
# mpirun waits two seconds before it ends the other ranks after an exit code that is not 0
QUICK = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}
# in a build with the address sanitizer: Open MPI itself leaks at its end
QUICK["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "detect_leaks=0")
SUPPORTED = ("LlamaForCausalLM", "MixtralForCausalLM")

# On 3 ranks the short run takes the controls, every fault that only loading or running can show, and one or two of each
# kind of the others (headers, offsets, tensors, files, index, config.json, tokenizer, generation_config.json): those end
# on rank 0 before anything is shared.
ON_THREE_RANKS = """ok_single ok_sharded ok_mixtral weights_nan weights_inf header_length_wraps header_deep_nesting
    header_duplicate_key offsets_overlap shape_product_overflow dtype_unknown tensor_missing tensor_unknown expert_missing
    index_path_upwards tensor_in_two_shards link_loop lfs_pointer weights_cut_by_one weights_fifo bin_only config_html
    config_billion_layers config_unknown_architecture config_quantised_gptq tokenizer_cyclic_merge tokenizer_merge_unknown
    tokenizer_id_beyond_vocab generation_out_of_range generation_truncated""".split()


class Folders(unittest.TestCase):
    """All folders of the shared script, judged by it."""

    def judge(self, command, sees, names=()):
        with tempfile.TemporaryDirectory() as out:
            r = subprocess.run([sys.executable, str(SCRIPT), out, *names, "--run", command, "--sees", sees],
                               env={**ENV, **QUICK}, capture_output=True, text=True)
        lines = r.stdout.splitlines()
        self.assertEqual(r.returncode, 0, "\n".join(l for l in lines if not l.startswith(("ok ", "skip"))) + r.stderr)
        self.assertGreater(sum(l.startswith("ok ") for l in lines), 20)

    def run_on(self, ranks, names=()):
        launcher = f"mpirun --oversubscribe --bind-to none -np {ranks}"
        self.judge(f"{launcher} {shlex.quote(TPINFER)} run {{job}}", "run", names)

    def test_plan_on_two_ranks(self):
        self.judge(f"{shlex.quote(TPINFER)} plan {{model}} --ranks 2", "plan")

    def test_check(self):
        self.judge(f"{shlex.quote(TPINFER)} check {{job}}", "check")

    def test_run_on_one_rank(self):
        self.run_on(1)

    def test_run_on_three_ranks(self):
        self.run_on(3, () if LONG else ON_THREE_RANKS)


class Case(unittest.TestCase):
    """A folder that one of the script's functions or this test makes, and a job on it."""

    def setUp(self):
        self.place = Workplace()
        self.addCleanup(self.place.dir.cleanup)
        self.model = self.place.path / "model"

    def make(self, name="ok_single"):
        hostile.write_case(hostile.CASES, name, str(self.model))
        return self.model

    def job(self, records=({"prompt": "hello"},), **more):
        return self.place.job(self.model, records, **{"sampling": {"max_new_tokens": 4}, **more})

    def tell(self, command, *words, ranks=0):
        """-> exit status, output of a command that must not hang."""
        r = start(ranks, command, *words, env=QUICK, timeout=60)
        return r.returncode, r.stdout + r.stderr

    def expect(self, exit_code, words, command, *arguments, ranks=0):
        code, text = self.tell(command, *arguments, ranks=ranks)
        self.assertEqual(code, exit_code, text)
        for word in words:
            self.assertIn(word, text)
        return text


class Refusals(Case):
    """What is not supported is refused with what was found and what is supported."""

    def refused(self, *words):
        for command, argument in (("plan", str(self.model)), ("check", self.job()), ("run", self.job())):
            text = self.expect(3, words, command, argument)
            self.assertEqual(text.count("tpinfer: error"), 1, text)

    def configure(self, **changes):
        self.make()
        hostile.save_json(self.model / "config.json", hostile.llama_config(**changes))

    def test_encoder_decoder(self):
        self.configure(architectures=["T5ForConditionalGeneration"], model_type="t5", is_encoder_decoder=True)
        self.refused("T5ForConditionalGeneration", "encoder-decoder", "decoder-only", *SUPPORTED)

    def test_unknown_architecture(self):
        self.make("config_unknown_architecture")
        self.refused("FrobnicateForCausalLM", "not supported", *SUPPORTED)

    def test_weights_in_a_pickle(self):
        self.make("bin_only")
        self.refused("pytorch_model.bin", "only safetensors files are read")

    def test_quantised_by_config(self):
        for method in ("gptq", "awq", "bitsandbytes"):
            self.make(f"config_quantised_{method}")
            self.refused("quantization_config", method, "float16, bfloat16 or float32")

    def test_quantised_by_its_tensors_alone(self):
        self.make()
        tensors = hostile.weights()
        name = hostile.Q0.removesuffix(".weight")
        del tensors[hostile.Q0]
        tensors[name + ".qweight"] = hostile.np.zeros((4, 32), "<i8")
        tensors[name + ".qzeros"] = hostile.np.zeros((1, 4), "<i8")
        hostile.save_raw(self.model / hostile.WEIGHTS, *hostile.pack(tensors))
        self.refused(name + ".qweight", "quantised", "float16, bfloat16 or float32")

    def test_several_wrong_shapes_are_told_together(self):
        self.make("config_vocab_mismatch")
        self.refused("model.embed_tokens.weight", "lm_head.weight", "[300, 32]", f"[{hostile.VOCAB}, 32]")

    def test_a_pipe_instead_of_a_file_is_not_waited_for(self):
        for name in ("config.json", "tokenizer.json", "generation_config.json", "tokenizer_config.json"):
            self.make()
            (self.model / name).unlink()
            os.mkfifo(self.model / name)
            job = self.job(model={"generation_config": "auto"})
            for command in ("check", "run"):
                self.expect(3, [name, "pipe"], command, job)


class Check(Case):
    def findings(self, job, *words):
        code, text = self.tell("check", job, "--json", *words)
        answer = json.loads(text)
        self.assertEqual(answer["exit"], code)
        self.assertEqual(answer["ok"], code == 0)
        return code, [(f["severity"], f["kind"], f["code"]) for f in answer["findings"]], answer["findings"]

    def test_a_sound_job_is_one_line(self):
        self.make()
        code, text = self.tell("check", self.job())
        self.assertEqual((code, text.count("\n")), (0, 1), text)
        self.assertIn("ready to run: 1 prompts, LlamaForCausalLM on 1 rank", text)
        self.assertEqual(self.findings(self.job())[:2], (0, []))

    def test_no_fault_hides_another(self):
        self.make("config_string_size")
        (self.model / hostile.WEIGHTS).write_bytes(hostile.HTML)
        (self.model / "tokenizer.json").write_bytes(b"")
        (self.model / "generation_config.json").write_bytes(b"{")
        job = self.job(prompts={"file": "nowhere.txt"}, output={"file": "nowhere/a.h5"}, model={"generation_config": "auto"})
        code, kinds, findings = self.findings(job)
        self.assertEqual(code, 3)
        self.assertEqual(sorted(k for _, k, _ in kinds), ["model", "model", "model", "output", "prompts", "tokenizer"])
        text = self.expect(3, ["hidden_size", hostile.WEIGHTS, "tokenizer.json", "generation_config.json", "nowhere.txt",
                               "nowhere/a.h5"], "check", job)
        lines = text.splitlines()
        self.assertEqual([l for l in lines if not l.startswith("tpinfer: error: ")], [])
        self.assertEqual([l.removeprefix("tpinfer: error: ") for l in lines], [f["message"] for f in findings])
        self.assertEqual(self.tell("run", job)[0], code)

    def test_prompts_are_read_without_a_model(self):
        self.make("config_missing")
        job = self.job([{"prompt": "hello"}, {"prompt": 5}, {"prompt": "x", "params": {"temperature": -1}}])
        code, kinds, findings = self.findings(job)
        self.assertEqual((code, kinds), (3, [("error", "model", 3)] + [("error", "prompts", 5)] * 2))
        self.assertIn("p.jsonl:2", findings[1]["message"])
        self.assertIn("temperature", findings[2]["message"])

    def test_at_most_twenty_failed_prompts_are_listed(self):
        self.make()
        job = self.job([{"prompt": 1}] * 25 + [{"prompt": "hello"}])
        code, kinds, findings = self.findings(job)
        self.assertEqual((code, len(kinds), set(kinds)), (5, 21, {("error", "prompts", 5)}))
        self.assertIn("5 more of 26 prompts fail", findings[-1]["message"])
        self.assertEqual(self.tell("run", job)[0], 5)

    def test_complaints_about_the_job_keep_their_form(self):
        self.make()
        job = pathlib.Path(self.job())
        job.write_text(job.read_text().replace('"output"', '"outptu"'))
        text = self.expect(2, ["outptu", "output"], "check", str(job))
        self.assertTrue(all(": error: " in l and not l.startswith("tpinfer") for l in text.splitlines()), text)
        code, kinds, _ = self.findings(str(job))
        self.assertEqual((code, set(kinds)), (2, {("error", "job", 2)}))

    def test_ends_with_the_exit_code_of_run(self):
        self.make()
        there = self.place.path / "there.h5"
        there.write_bytes(b"")
        cases = [
            (0, "", 1, []),
            (0, "", 3, []),
            (0, "", 2, ["parallel.tensor_parallel_size=2"]),
            (2, "job", 2, ["parallel.tensor_parallel_size=4"]),
            (2, "job", 1, ["parallel.device=cuda"]),
            (4, "fit", 5, []),
            (4, "fit", 1, ["memory.cpu_memory_limit=10KiB"]),
            (5, "prompts", 1, ["engine.max_model_len=1"]),
            (7, "output", 1, ["output.file=there.h5", "output.if_exists=error"]),
            (7, "output", 1, ["output.file=nowhere/a.h5"]),
            (3, "model", 1, ["model.path=nowhere", "output.file=nowhere/a.h5"]),
            (4, "fit", 1, ["memory.cpu_memory_limit=10KiB", "output.file=nowhere/a.h5"]),
        ]
        for want, kind, ranks, sets in cases:
            with self.subTest(sets=sets, ranks=ranks):
                words = [w for s in sets for w in ("--set", s)]
                if want == 2 and "parallel.device=cuda" in sets and self.tell("check", self.job(), *words)[0] == 0:
                    continue  # a build with CUDA
                code, kinds, findings = self.findings(self.job(), "--ranks", str(ranks), *words)
                self.assertEqual(code, want, findings)
                self.assertEqual(kinds[0][1] if kinds else "", kind, findings)
                self.assertEqual(self.tell("run", self.job(), "--progress", "none", *words, ranks=ranks)[0], want)


class WeightValues(Case):
    """model.verify_weights: finite names the tensor; header lets the rows fail."""

    def test_finite_refuses_by_name_once(self):
        for name, words in (("weights_nan", [hostile.UP0, "holds NaN at [7, 3]"]),
                            ("weights_inf", ["model.norm.weight", "holds infinity at [5]"])):
            self.make(name)
            for ranks in (1, 2, 3):
                text = self.expect(3, [*words, hostile.WEIGHTS, "model.verify_weights: header"], "run", self.job(),
                                   "--set", "model.verify_weights=finite", ranks=ranks)
                self.assertEqual(text.count("tpinfer: error"), 1, text)
            self.assertFalse((self.place.path / "a.h5").exists())

    def test_every_kind_of_split_is_looked_at(self):
        for name in hostile.weights():
            if ".layers.0." in name:
                continue
            self.make()
            tensors = hostile.weights()
            tensors[name].reshape(-1)[-1] = -hostile.np.inf
            hostile.save_raw(self.model / hostile.WEIGHTS, *hostile.pack(tensors))
            last = ", ".join(str(n - 1) for n in tensors[name].shape)
            self.expect(3, [f"{name} holds -infinity at [{last}]"], "run", self.job(), "--set",
                        "model.verify_weights=finite", ranks=3 if LONG or "down_proj" in name else 0)

    def test_half_precision(self):
        for dtype in ("F16", "BF16"):
            self.make()
            tensors = {n: t.astype("<f2") for n, t in hostile.weights().items()}
            header, data = hostile.pack(tensors)
            for entry in header.values():
                if "dtype" in entry:
                    entry["dtype"] = dtype
            words = hostile.np.frombuffer(data, "<u2").copy()
            if dtype == "BF16":
                words[:] = 0x3c00
            hostile.save_raw(self.model / hostile.WEIGHTS, header, words.tobytes())
            self.expect(0, ["1 of 1 prompts answered"], "run", self.job(), "--set", "model.verify_weights=finite")
            begin = header[hostile.DOWN1]["data_offsets"][0] // 2
            words[begin + 41] = 0xfe00 if dtype == "F16" else 0x7fc1
            hostile.save_raw(self.model / hostile.WEIGHTS, header, words.tobytes())
            self.expect(3, [f"{hostile.DOWN1} holds NaN at [1, 1]"], "run", self.job(), "--set",
                        "model.verify_weights=finite")

    def test_finite_weights_pass(self):
        for name in ("ok_sharded", "ok_mixtral"):
            self.make(name)
            self.expect(0, ["1 of 1 prompts answered"], "run", self.job(), "--set", "model.verify_weights=finite", ranks=2)

    def test_header_lets_the_rows_fail(self):
        self.make("weights_nan")
        self.expect(5, ["prompt 1: non-finite logits", "model.verify_weights: finite"], "run", self.job())
        result = read(self.place.path / "a.h5")
        self.assertEqual(result["index"], [])
        self.assertIn("non-finite", result["error"][0])

    def run_with_checksums(self, code, words, ranks=0, word="run"):
        return self.expect(code, words, word, self.job(), "--set", "model.verify_weights=checksum", ranks=ranks)

    def test_checksums_are_those_that_were_written_down(self):
        self.make("ok_sharded")
        shards = sorted(p.name for p in self.model.glob("*.safetensors"))
        self.assertGreater(len(shards), 1)
        for word in ("check", "run"):
            self.run_with_checksums(3, [f"no checksum of {shards[0]} and {len(shards) - 1} more is written down", "SHA256SUMS"], word=word)
        sums = {name: hashlib.sha256((self.model / name).read_bytes()).hexdigest() for name in shards}
        (self.model / "SHA256SUMS").write_text("".join(f"{s.upper() if i else s} {' *'[i % 2]}{n}\n" for i, (n, s) in enumerate(sums.items())))
        for ranks in (0, 2, 3):
            self.run_with_checksums(0, ["1 of 1 prompts answered"], ranks=ranks)
        with open(self.model / shards[-1], "r+b") as f:  # one bit of a weight
            f.seek(-2, 2)
            last = f.read(1)[0]
            f.seek(-2, 2)
            f.write(bytes([last ^ 1]))
        for ranks in (0, 3):
            self.run_with_checksums(3, [shards[-1], "SHA-256 is", "SHA256SUMS says", "download it again"], ranks=ranks)
        self.expect(0, ["1 of 1 prompts answered"], "run", self.job(), "--set", "output.if_exists=overwrite")  # header does not see it

    def test_checksums_of_the_hub(self):
        self.make()
        weights = self.model / hostile.WEIGHTS
        good = hashlib.sha256(weights.read_bytes()).hexdigest()
        notes = self.model / ".cache" / "huggingface" / "download" / (hostile.WEIGHTS + ".metadata")
        notes.parent.mkdir(parents=True)
        for sum, code, words in ((good, 0, "1 of 1 prompts answered"), ("0" * 64, 3, str(notes)), ("f" * 40, 3, "no checksum of")):
            notes.write_text(f"{'a' * 40}\n{sum}\n1700000000.5\n")
            self.run_with_checksums(code, [words])
        notes.unlink()
        blobs = self.model.parent / "blobs"  # a folder of the hub's cache
        for sum, code, words in ((good, 0, "1 of 1 prompts answered"), ("0" * 64, 3, "blob in the hub's cache")):
            blobs.mkdir()
            weights.rename(blobs / sum)
            weights.symlink_to(pathlib.Path("..") / "blobs" / sum)
            self.run_with_checksums(code, [words])
            weights.unlink()
            (blobs / sum).rename(weights)
            blobs.rmdir()


if __name__ == "__main__":
    unittest.main()
