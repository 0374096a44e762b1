#!/usr/bin/env python3
"""Faults of weight files, vocabularies and configs that users of other programs met: the same bits as the plain model, or a clear refusal."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np
from model_maker import read_safetensors, write_safetensors
from variants import LLAMA, MIXTRAL, MULTI_HEAD, MULTI_QUERY, QWEN_MOE, TIED, UNEVEN, Variants


class Windows(Variants):
    def test_a_window_holds_where_the_config_uses_it(self):
        plain = self.reference("rand-qwen2")
        answers = {}
        for used, first in ((False, 0), (True, 0), (True, 2), (True, 3)):  # of 3 layers
            model = self.model("rand-qwen2")
            model.config.update(use_sliding_window=used, sliding_window=4, max_window_layers=first)
            answers[used, first] = self.parity(self.write(model, f"{used} {first}"), ranks=(1, 3))
        self.assertTrue(jobs.same_bits(answers[False, 0], plain), "a window that is not used")
        self.assertTrue(jobs.same_bits(answers[True, 3], plain), "a window from a layer that does not exist")
        self.differ(answers[True, 0], plain)
        self.differ(answers[True, 2], plain)
        self.differ(answers[True, 2], answers[True, 0])


class Vocabularies(Variants):
    def test_odd_vocabularies_have_every_logit(self):
        for count in (251, 257):
            model = self.model(MIXTRAL)
            model.cut_vocabulary(count)
            got = self.parity(self.write(model, str(count)), prompts=[[250, 3, 17]], logprobs=20)
            self.assertTrue(all(i < count for row in got["top_ids"][0] for i in row))

    def test_the_last_ids_are_read_and_chosen(self):
        """259 ids on 2 and 4 ranks: 257 and 258 in the prompt, 258 as the first new token."""
        model = self.model(MIXTRAL)
        model.cut_vocabulary(259)
        prompt = [[257, 258, 4, 258]]
        head = model.floats("lm_head.weight")
        folders = []
        for sign in (50, -50):  # of which one makes the logit of 258 large
            model.put("lm_head.weight", np.concatenate([head[:258], head[258:] * sign]))
            folders.append(self.write(model, f"model {sign}"))
        first = [self.run_it(1, f, prompt)["ids"][0][0] for f in folders]
        self.assertIn(258, first)
        got = self.parity(folders[first.index(258)], prompts=prompt)
        self.assertEqual(got["ids"][0][0], 258)
        # another row 257 or 258 of the embedding is another answer: the rows are really looked up
        for row in (257, 258):
            embedding = model.floats("model.embed_tokens.weight")
            embedding[row] = embedding[row - 200]
            saved = model.tensors["model.embed_tokens.weight"].copy()
            model.put("model.embed_tokens.weight", embedding)
            self.differ(self.parity(self.write(model, f"row {row}"), ranks=(1, 4), prompts=prompt), self.run_it(1, folders[1], prompt))
            model.tensors["model.embed_tokens.weight"] = saved

    def test_no_row_beyond_the_vocabulary_is_chosen(self):
        """All true logits are negative, so that a padded row of zeros would win."""
        model = self.model(UNEVEN)
        model.cut_vocabulary(257)
        model.change("embed_tokens.weight", lambda v: np.concatenate([np.full((257, 1), 100.0), v[:, 1:]], axis=1))
        model.put("model.norm.weight", np.eye(1, 96)[0])
        model.change("lm_head.weight", lambda v: np.concatenate([-np.abs(v[:, :1]) - 0.01, v[:, 1:]], axis=1))
        folder = self.write(model)
        greedy = self.parity(folder)
        self.assertTrue(all(i < 257 for ids in greedy["ids"] for i in ids))
        records = [{"id": str(i), "token_ids": [7, i % 257], "params": {"max_new_tokens": 2, "temperature": 5.0, "seed": i}} for i in range(200)]
        drawn = {}
        for n in (1, 4):
            drawn[n] = self.place.run(n, folder, records, model={"dtype": "float32"})
            ids = np.concatenate(drawn[n]["ids"])
            self.assertLess(ids.max(), 257)
            self.assertGreater(len(set(ids.tolist())), 100)
        self.assertTrue(jobs.same_bits(drawn[1], drawn[4]))

    def test_a_tied_head_on_every_rank_count(self):
        for name in (TIED, "rand-qwen2", "tiny-gpt-bigcode"):
            self.assertNotIn("lm_head.weight", self.model(name).tensors)
            self.parity(name, ranks=(1, 2, 3, 4))

    def test_a_tied_head_written_untied_answers_the_same(self):
        model = self.model(TIED)
        model.config["tie_word_embeddings"] = False
        model.tensors["lm_head.weight"] = model.tensors["model.embed_tokens.weight"].copy()
        self.assertTrue(jobs.same_bits(self.run_it(2, self.write(model)), self.reference(TIED)))

    def test_a_head_beside_a_tied_embedding_is_not_used(self):
        want = self.reference(TIED)
        for kind, scale in (("equal", 1), ("other", -3)):
            model = self.model(TIED)
            model.put("lm_head.weight", model.floats("model.embed_tokens.weight") * scale, "model.embed_tokens.weight")
            self.assertTrue(jobs.same_bits(want, self.run_it(2, self.write(model, kind))))
            with self.result() as h:
                messages = [m for m in h["events/message"].asstr()[:] if "lm_head.weight" in m]
            self.assertEqual(len(messages), 1)

    def test_an_untied_head_that_is_missing_is_named(self):
        for name in (UNEVEN, MIXTRAL, QWEN_MOE):
            model = self.model(name)
            del model.tensors["lm_head.weight"]
            self.refused(self.write(model, name), ["lm_head.weight", "missing"])


class Files(Variants):
    def test_shards_and_one_file_are_the_same_model(self):
        for name in (MIXTRAL, MULTI_QUERY):
            model = self.model(name)
            self.assertTrue(jobs.same_bits(self.run_it(3, self.write(model, name, shards=3)), self.reference(name)))

    def test_other_copies_of_the_weights_are_neither_planned_nor_read(self):
        model = self.model(MIXTRAL)
        folder = pathlib.Path(self.write(model, shards=2))
        want = self.plan(folder, 2)["ranks"]
        (folder / "consolidated.safetensors").write_bytes((jobs.MODELS / MIXTRAL / "model.safetensors").read_bytes())
        (folder / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
        self.assertEqual([r["file_bytes"] for r in self.plan(folder, 2)["ranks"]], [r["file_bytes"] for r in want])
        self.assertTrue(jobs.same_bits(self.run_it(2, str(folder)), self.reference(MIXTRAL)))

    def test_the_same_tensor_in_two_shards_is_a_warning_where_its_bytes_are_the_same(self):
        for name, tensor in ((MIXTRAL, "model.layers.0.block_sparse_moe.experts.1.w2.weight"), (QWEN_MOE, "model.norm.weight"), (MULTI_QUERY, "transformer.h.0.attn.c_attn.weight")):
            model = self.model(name)
            folder = pathlib.Path(self.write(model, name, shards=2))
            shards = sorted(folder.glob("*.safetensors"))
            home = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"][tensor]
            other = next(s for s in shards if s.name != home)
            mine = read_safetensors(other)
            write_safetensors(other, {**mine, tensor: model.tensors[tensor]})
            want = self.reference(name)
            for n in (1, 3):
                self.assertTrue(jobs.same_bits(self.run_it(n, folder), want))
                with self.result() as h:
                    messages = [m for m in h["events/message"].asstr()[:] if tensor in m]
                self.assertEqual(len(messages), 1)
                for word in (shards[0].name, shards[1].name, "the same bytes"):
                    self.assertIn(word, messages[0])
            plans = [self.plan(f, 2)["ranks"] for f in (folder, jobs.MODELS / name)]
            self.assertEqual(*[[r["file_bytes"] for r in plan] for plan in plans])
            check = jobs.start(0, "check", str(self.place.path / "job.json"))
            self.assertEqual((check.returncode, check.stderr.count("warning"), check.stderr.count("the same bytes")), (0, 1, 1), check.stderr)
            spoilt = model.tensors[tensor].copy()
            spoilt.reshape(-1)[-1] = 0
            write_safetensors(other, {**mine, tensor: spoilt})
            self.refused(folder, [tensor, shards[0].name, shards[1].name, "different bytes"])
            self.assertIn("different bytes", jobs.start(0, "plan", str(folder)).stderr)

    def test_a_name_missing_from_the_index_is_refused(self):
        folder = pathlib.Path(self.write(self.model(QWEN_MOE), shards=2))
        index = folder / "model.safetensors.index.json"
        names = json.loads(index.read_text())
        del names["weight_map"]["model.norm.weight"]
        index.write_text(json.dumps(names))
        self.refused(folder, ["model.norm.weight", "does not list"])

    def test_buffers_of_fine_tunes_are_ignored(self):
        for name, buffers in ((LLAMA, {"self_attn.rotary_emb.inv_freq": 16, "self_attn.rotary_emb.cos_cached": 64, "self_attn.rotary_emb.sin_cached": 64}),
                              (MIXTRAL, {"self_attn.rotary_emb.inv_freq": 8}), (QWEN_MOE, {"self_attn.rotary_emb.inv_freq": 16}),
                              (MULTI_QUERY, {"attn.bias": 128, "attn.masked_bias": 1})):
            model = self.model(name)
            layers = sorted({".".join(n.split(".")[:3]) for n in model.tensors if ".1." in n or ".0." in n})
            self.assertGreater(len(layers), 1)
            for layer in layers:
                for buffer, size in buffers.items():
                    model.tensors[f"{layer}.{buffer}"] = np.full(size, 7, np.float32)
            folder = self.write(model, name)
            want = self.reference(name)
            self.assertTrue(jobs.same_bits(self.run_it(2, folder), want))
            told = jobs.start(0, "run", str(self.place.path / "job.json"), "--progress", "none").stderr
            lines = [l for l in told.splitlines() if "not loaded, as it is worked out anew" in l]
            self.assertEqual(len(lines), len(buffers), told)
            for buffer in buffers:
                self.assertEqual(sum(f".{buffer} and {len(layers) - 1} of its kind" in l for l in lines), 1, told)
            plans = [self.plan(f, 2)["ranks"] for f in (folder, jobs.MODELS / name)]
            self.assertEqual(*[[r["file_bytes"] for r in plan] for plan in plans])

    def test_a_gpt_bigcode_without_the_prefix_answers_the_same(self):
        for name in (MULTI_QUERY, MULTI_HEAD, "tiny-gpt-bigcode"):
            model = self.model(name)
            self.assertTrue(all(n.startswith("transformer.") for n in model.tensors))
            model.rename(lambda n: n.removeprefix("transformer."))
            model.tensors["h.0.attn.bias"] = np.ones(4, np.float32)
            for n in (1, 3):
                self.assertTrue(jobs.same_bits(self.run_it(n, self.write(model, f"{name} {n}")), self.reference(name)))

    def test_a_nested_text_model_shows_both_names(self):
        model = self.model(LLAMA)
        model.rename(lambda n: "language_model." + n)
        self.refused(self.write(model), ["lm_head.weight", "language_model.lm_head.weight"])

    def test_a_strange_prefix_on_all_names_is_refused(self):
        for name in (LLAMA, MIXTRAL, QWEN_MOE, MULTI_QUERY):
            model = self.model(name)
            count = len(model.tensors)
            model.rename(lambda n: "foo." + n)
            self.refused(self.write(model, name), [f"{count} of {count} required tensors are missing", "foo."], ranks=(3,))

    def test_an_expert_that_is_missing_is_named(self):
        model = self.model(QWEN_MOE)
        del model.tensors["model.layers.3.mlp.experts.7.up_proj.weight"]
        self.refused(self.write(model), ["1 of ", "model.layers.3.mlp.experts.7.up_proj.weight"])

    def test_large_float16_weights_do_not_overflow(self):
        """down_proj times 4000 passes 65504 where activations are float16; here they are float32, and the row is right."""
        model = self.model(LLAMA)
        model.change("mlp.down_proj.weight", lambda v: v * 4000)
        self.assertTrue(all(np.isfinite(model.floats(n)).all() for n in model.tensors))
        folder = self.write(model)
        half, full = self.parity(folder, dtype="float16"), self.run_it(1, folder)
        for a, b in zip(half["logprobs"], full["logprobs"]):
            self.assertTrue(np.isfinite(a).all())
            self.assertLess(np.abs(a[:2] - b[:2]).max(), 0.02)

    def test_activations_beyond_float32_are_a_failed_row(self):
        model = self.model(LLAMA)
        model.tensors["model.norm.weight"] = np.full(256, 3e38, np.float32)
        model.tensors["lm_head.weight"] = model.floats("lm_head.weight") * np.float32(1e3)
        folder = self.write(model)
        for n in (1, 3):
            got = self.run_it(n, folder, want=5)
            self.assertEqual(got["status"], [1, 1, 1])
            for error in got["error"]:
                self.assertIn("non-finite logits", error)

    def test_folders_of_links_work_and_dangling_ones_are_named(self):
        blobs = pathlib.Path(self.write(self.model(MIXTRAL), "blobs", shards=2))
        snapshot = self.place.path / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        for file in blobs.iterdir():
            (snapshot / file.name).symlink_to(os.path.relpath(file, snapshot))
        self.assertTrue(jobs.same_bits(self.run_it(2, str(snapshot)), self.reference(MIXTRAL)))
        (blobs / "model-00002-of-00002.safetensors").unlink()
        self.refused(snapshot, ["model-00002-of-00002.safetensors", "link", "blobs/"])

    def test_a_link_that_leads_nowhere_on_another_host_is_named_with_the_rank(self):
        """The model's path leads each process to its own folder, as on hosts with disks of their own."""
        job = self.place.job("/proc/self/cwd/model", [{"id": "0", "token_ids": [5, 17], "params": {"max_new_tokens": 2}}])
        places = [self.place.path / f"host {rank}" for rank in range(3)]
        for rank, place in enumerate(places):
            self.model(MIXTRAL).write(place / "model", shards=2)
            for file in (place / "model").iterdir():
                os.utime(file, (1e9, 1e9))
        weights = places[2] / "model" / "model-00002-of-00002.safetensors"
        for found in ("link", "folder"):
            weights.unlink()
            weights.symlink_to("../blobs/123") if found == "link" else weights.mkdir()
            words = []
            for place in places:
                one = jobs.command(1, "run", job, "--progress", "none")
                words += [":"] * bool(words) + ["-np", "1", "--wdir", str(place), *one[one.index(jobs.TPINFER):]]
            r = subprocess.run([*one[:one.index(jobs.TPINFER) - 2], *words], env=jobs.ENV, capture_output=True, text=True, timeout=60)
            self.assertEqual((r.returncode, r.stderr.count("tpinfer: error:")), (3, 1), r.stderr)
            for word in ("rank 2: ", "model-00002-of-00002.safetensors", "blobs/123" if found == "link" else "a folder"):
                self.assertIn(word, r.stderr)
            shutil.rmtree(weights) if found == "folder" else None

if __name__ == "__main__":
    unittest.main(verbosity=2)
