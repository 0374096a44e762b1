#!/usr/bin/env python3
"""Faults that users of other programs met, each provoked on small models: the same bits on every rank count, or a clear refusal."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np
from model_maker import Model, random_llama

LLAMA, UNEVEN, TIED = "tiny-llama", "rand-llama-uneven", "rand-llama-tied"
MIXTRAL, QWEN_MOE = "tiny-mixtral", "tiny-qwen2-moe"
MULTI_QUERY, MULTI_HEAD = "rand-gpt-bigcode-mqa-odd", "rand-gpt-bigcode-mha"
PROMPTS = [[5, 17, 200, 33, 9, 250, 41, 6, 77, 102, 3], [8, 90, 12], [60]]
REFERENCES = {}


class Variants(unittest.TestCase):
    """Tests that run models made from others."""

    def setUp(self):
        self.place = jobs.Workplace()
        self.addCleanup(self.place.dir.cleanup)

    def model(self, name):
        return Model(jobs.MODELS / name)

    def write(self, model, name="model", **how):
        return model.write(self.place.path / name, **how)

    def run_it(self, ranks, folder, prompts=PROMPTS, want=0, dtype="float32", new=6, **params):
        records = [{"id": str(i), "token_ids": ids, "params": {"max_new_tokens": new, "logprobs": 3, "prompt_logprobs": 2, **params}}
                   for i, ids in enumerate(prompts)]
        return self.place.run(ranks, folder, records, want=want, model={"dtype": dtype})

    def reference(self, name):
        """The answer of an unchanged model on one rank; found once."""
        if name not in REFERENCES:
            REFERENCES[name] = self.run_it(1, name)
        return REFERENCES[name]

    def parity(self, folder, ranks=(1, 2, 4), **how):
        """Runs on each rank count; -> the one answer of all."""
        want = self.run_it(ranks[0], folder, **how)
        for n in ranks[1:]:
            self.assertTrue(jobs.same_bits(want, self.run_it(n, folder, **how)), f"{n} ranks differ from {ranks[0]}")
        return want

    def differ(self, a, b):
        self.assertFalse(jobs.same_bits(a, b), "the change has no effect, so this test could not fail")

    def plan(self, folder, ranks, want=0):
        r = jobs.start(0, "plan", str(folder), "--ranks", str(ranks), "--json", "--tensors")
        self.assertEqual(r.returncode, want, r.stderr)
        return json.loads(r.stdout) if want == 0 else r.stderr

    def slices(self, plan, name):
        """-> split of the tensor, [(start, count) along each axis] of every rank"""
        tensor = next(t for t in plan["tensors"] if t["name"] == name)
        ranks = [[] for _ in plan["ranks"]]
        for s in tensor["slices"]:
            ranks[s["rank"]].append((s["start"], s["count"]))
        return tensor["split"], ranks

    def refused(self, folder, words, code=3, ranks=(1, 3)):
        for n in ranks:
            r = self.run_it(n, folder, want=code)
            complaints = [l for l in r.stderr.splitlines() if "tpinfer: error:" in l]
            self.assertEqual(len(complaints), 1, r.stderr)
            for word in words:
                self.assertIn(word, complaints[0])

    def result(self):
        return jobs.h5py.File(self.place.path / "a.h5")


class Memory(Variants):
    def test_every_rank_has_its_slices_alone(self):
        for name in (LLAMA, MIXTRAL, QWEN_MOE, MULTI_QUERY, TIED):
            whole = self.plan(jobs.MODELS / name, 1)["ranks"][0]["weights_bytes"]
            for n in (2, 4):
                plan = self.plan(jobs.MODELS / name, n)
                each = [r["weights_bytes"] for r in plan["ranks"]]
                size = {"F32": 4, "F16": 2, "BF16": 2}
                # what is held on top of the whole model, tensor by tensor: norms, routers and K, V beyond the KV heads
                more = sum(sum(s["bytes"] for s in t["slices"]) - int(np.prod(t["shape"])) * size[t["dtype"]] for t in plan["tensors"])
                self.assertEqual(sum(each), whole + more, name)
                self.assertLess(max(each), whole / n * 1.5, f"{name} on {n} ranks")

    def test_the_model_s_bytes_are_read_once_and_replicated_ones_by_each_rank(self):
        self.run_it(4, MIXTRAL)
        with self.result() as h:
            w = h["ranks/weights"]
            read, owned, planned = w["bytes_read"][:], w["bytes_owned"][:], w["bytes_planned"][:]
        plan = self.plan(jobs.MODELS / MIXTRAL, 4)
        self.assertEqual(read.sum(), sum(s["bytes"] for t in plan["tensors"] for s in t["slices"]))
        self.assertTrue((owned >= planned).all())

    def test_anonymous_and_file_backed_memory_are_told_apart_for_each_rank(self):
        self.run_it(2, MIXTRAL)
        with self.result() as h:
            m = h["ranks/memory"]
            anonymous, mapped, shared, rss = (m[k][:] for k in ("anonymous", "file_backed", "shared", "rss"))
        self.assertEqual(anonymous.shape[1], 2)
        self.assertTrue((anonymous > 0).all() and (mapped > 0).all())
        self.assertTrue((anonymous + mapped + shared == rss)[0].all(), "the parts of the first phase are its whole")

    def test_a_tied_head_is_owned_once(self):
        for name in (TIED, "rand-qwen2", MULTI_QUERY):
            model = self.model(name)
            h = model.config.get("hidden_size", model.config.get("n_embd"))
            tied = self.plan(jobs.MODELS / name, 1)["ranks"][0]["weights_by_role"]
            self.assertNotIn("lm_head", tied)
            self.assertEqual(tied["token_embedding"], model.config["vocab_size"] * h * 2)
            self.run_it(2, name, dtype="bfloat16")
            with self.result() as file:
                self.assertNotIn("lm_head", file["ranks/weights/class_names"].asstr()[:].tolist())
                owned, planned = file["ranks/weights/bytes_owned"][:], file["ranks/weights/owned_by_class"][:]
                self.assertLess(np.abs(owned - planned.sum(axis=1)).max(), 4096)


class Routers(Variants):
    def test_two_reductions_a_layer_with_experts_too(self):
        for name in (LLAMA, MIXTRAL, QWEN_MOE, MULTI_QUERY):
            layers = self.model(name).config
            layers = layers.get("num_hidden_layers", layers.get("n_layer"))
            for n in (2, 4):
                records = [{"id": "0", "token_ids": PROMPTS[0], "params": {"max_new_tokens": 6}}]
                self.place.run(n, name, records)
                with self.result() as h:
                    steps, counts = len(h["steps/t"]), h["ranks/time/collectives"][:].tolist()
                self.assertEqual(steps, 6)
                self.assertEqual(counts, [steps * (1 + 2 * layers + 1)] * n, f"{name}: embedding, two a layer, logits")

    def test_gates_are_whole_on_every_rank(self):
        for name, gates in ((MIXTRAL, ["block_sparse_moe.gate"]), (QWEN_MOE, ["mlp.gate", "mlp.shared_expert_gate"])):
            for n in (2, 4):
                plan = self.plan(jobs.MODELS / name, n)
                for gate in gates:
                    split, ranks = self.slices(plan, f"model.layers.1.{gate}.weight")
                    self.assertEqual(split, "replicated")
                    shape = next(t["shape"] for t in plan["tensors"] if t["name"] == f"model.layers.1.{gate}.weight")
                    self.assertEqual(ranks, [[([0, 0], shape)]] * n)

    def test_a_loud_shared_expert_is_reduced_once(self):
        model = self.model(QWEN_MOE)
        plain = self.reference(QWEN_MOE)
        self.assertEqual(model.change("shared_expert.down_proj.weight", lambda v: v * 10), model.config["num_hidden_layers"])
        self.differ(plain, self.parity(self.write(model)))

    def test_norm_topk_prob_true_and_false(self):
        answers = []
        for value in (True, False, None):
            model = self.model(QWEN_MOE)
            model.config.pop("norm_topk_prob")
            if value is not None:
                model.config["norm_topk_prob"] = value
            answers.append(self.parity(self.write(model, f"model {value}")))
        self.differ(answers[0], answers[1])
        self.assertTrue(jobs.same_bits(answers[1], answers[2]), "false is what an absent key means")
        self.assertTrue(jobs.same_bits(answers[1], self.reference(QWEN_MOE)))

    def test_a_mixtral_is_renormalised_whatever_the_config_says(self):
        model = self.model(MIXTRAL)
        model.config["norm_topk_prob"] = False
        self.assertTrue(jobs.same_bits(self.run_it(2, self.write(model)), self.reference(MIXTRAL)))

    def test_a_mixtral_written_as_a_qwen2_moe_answers_the_same(self):
        """Renormalised weights, no biases and a shared expert that says nothing: two tables, one sum."""
        model = self.model("rand-mixtral-uneven")
        c, parts = model.config, {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}

        def renamed(name):
            name = name.replace("block_sparse_moe", "mlp")
            for old, new in parts.items():
                name = name.replace(f".{old}.", f".{new}.")
            return name

        model.rename(renamed)
        h, kv = c["hidden_size"], c["hidden_size"] // c["num_attention_heads"] * c["num_key_value_heads"]
        for i in range(c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            like = layer + "mlp.gate.weight"
            for part, size in (("q", h), ("k", kv), ("v", kv)):
                model.put(f"{layer}self_attn.{part}_proj.bias", np.zeros(size), like)
            model.put(layer + "mlp.shared_expert_gate.weight", np.ones((1, h)), like)
            for part, shape in (("gate", (24, h)), ("up", (24, h)), ("down", (h, 24))):
                model.put(f"{layer}mlp.shared_expert.{part}_proj.weight", np.zeros(shape) if part == "down" else np.ones(shape), like)
        c.update(architectures=["Qwen2MoeForCausalLM"], model_type="qwen2_moe", num_experts=c.pop("num_local_experts"), norm_topk_prob=True,
                 moe_intermediate_size=c["intermediate_size"], shared_expert_intermediate_size=24, decoder_sparse_step=1)
        self.assertTrue(jobs.same_bits(self.parity(self.write(model), ranks=(1, 3)), self.reference("rand-mixtral-uneven")))

    def test_gate_and_up_are_cut_on_outputs_and_down_on_inputs(self):
        for name, front, parts in ((MIXTRAL, "block_sparse_moe.experts.3.", ("w1", "w3", "w2")),
                                   (QWEN_MOE, "mlp.experts.11.", ("gate_proj", "up_proj", "down_proj")),
                                   (QWEN_MOE, "mlp.shared_expert.", ("gate_proj", "up_proj", "down_proj"))):
            model, plan = self.model(name), self.plan(jobs.MODELS / name, 4)
            found = [self.slices(plan, f"model.layers.2.{front}{part}.weight") for part in parts]
            self.assertEqual([split for split, _ in found], ["rows", "rows", "columns"])
            width, hidden = model.tensors[f"model.layers.2.{front}{parts[0]}.weight"].shape
            self.assertNotEqual(width, hidden)
            begin = 0
            for gate, up, down in zip(*(ranks for _, ranks in found)):
                (at, count), = gate
                self.assertEqual((at, count[1]), ([begin, 0], hidden))
                self.assertEqual(up, gate)
                self.assertEqual(down, [([0, begin], [hidden, count[0]])])
                begin += count[0]
            self.assertEqual(begin, width)

    def test_experts_stored_in_one_tensor_answer_as_those_stored_apart(self):
        for name in (MIXTRAL, QWEN_MOE, "rand-mixtral-uneven", "rand-qwen2-moe-mixed"):
            model = self.model(name)
            model.stack_experts()
            self.assertFalse([n for n in model.tensors if ".experts.0." in n])
            self.assertTrue([t for n, t in model.tensors.items() if n.endswith("mlp.experts.gate_up_proj") and t.ndim == 3])
            folder = self.write(model, name)
            for dtype in ("float32", "bfloat16"):
                want = self.run_it(1, name, dtype=dtype)
                for n in (1, 3):
                    self.assertTrue(jobs.same_bits(want, self.run_it(n, folder, dtype=dtype)), f"{name} {dtype} {n} ranks")
            for n in (1, 3):
                apart, together = (self.plan(f, n)["ranks"] for f in (jobs.MODELS / name, folder))
                self.assertEqual([r["weights_bytes"] for r in apart], [r["weights_bytes"] for r in together])

    def test_experts_in_both_layouts_at_once_are_refused(self):
        model = self.model("rand-mixtral-uneven")
        apart = {n: t for n, t in model.tensors.items() if "experts.0." in n}
        model.stack_experts()
        model.tensors.update(apart)
        self.refused(self.write(model), ["block_sparse_moe.experts.0.w1.weight", "belong to no part"])

    def test_a_spoilt_expert_spoils_the_prompts_that_go_there(self):
        model = self.model(MIXTRAL)
        name = "model.layers.1.block_sparse_moe.experts.5.w2.weight"
        model.tensors[name][:] = 0x7FC0  # NaN
        # the experts of each prompt's tokens follow from the sound model: a prompt of one token meets few of them
        prompts = [[i] for i in range(3, 27)]
        clean = self.run_it(1, MIXTRAL, prompts, new=1)
        for n in (1, 3):
            got = self.run_it(n, self.write(model, f"model {n}"), prompts, new=1, want=5)
            failed = [i for i, status in enumerate(got["status"]) if status != 0]
            self.assertTrue(0 < len(failed) < len(prompts), failed)
            for i in failed:
                self.assertIn("non-finite", got["error"][i])
            for i, ids in zip(got["index"], got["ids"]):
                self.assertEqual(ids.tobytes(), clean["ids"][i].tobytes())


class FusedAttention(Variants):
    def test_multi_query_has_k_and_v_whole_on_every_rank(self):
        name = "transformer.h.1.attn.c_attn.weight"
        for n in (2, 4):
            split, ranks = self.slices(self.plan(jobs.MODELS / MULTI_QUERY, n), name)
            self.assertEqual(split, "fused_rows")
            for pieces in ranks:  # 5 query heads of 16 rows, then K, then V; adjacent runs are one
                rows = {r for start, count in pieces for r in range(start[0], start[0] + count[0])}
                self.assertLessEqual(set(range(80, 112)), rows)
            query = [r for pieces in ranks for start, count in pieces for r in range(start[0], start[0] + count[0]) if r < 80]
            self.assertEqual(sorted(query), list(range(80)))
        self.parity(MULTI_QUERY, ranks=(1, 2, 3, 4))

    def test_without_multi_query_each_head_has_its_triple(self):
        split, ranks = self.slices(self.plan(jobs.MODELS / MULTI_HEAD, 3), "transformer.h.0.attn.c_attn.weight")
        self.assertEqual(split, "fused_rows")
        self.assertEqual(ranks, [[([0, 0], [96, 64])], [([96, 0], [48, 64])], [([144, 0], [48, 64])]])
        self.parity(MULTI_HEAD, ranks=(1, 2, 3, 4))

    def test_multi_query_stands_for_the_packing(self):
        for name, value in ((MULTI_QUERY, False), (MULTI_HEAD, True)):
            model = self.model(name)
            model.config["multi_query"] = value
            self.refused(self.write(model, name), ["c_attn", "has shape", "config.json makes it"], ranks=(1,))

    def test_one_head_is_packed_alike_both_ways(self):
        """[q|k|v] of one head is one segment of each: both packings must read it the same."""
        model = self.model(MULTI_HEAD)
        for i in range(model.config["n_layer"]):
            layer, width = f"transformer.h.{i}.attn.", 16
            for end in ("weight", "bias"):
                model.tensors[f"{layer}c_attn.{end}"] = model.tensors[f"{layer}c_attn.{end}"][:3 * width].copy()
            model.tensors[layer + "c_proj.weight"] = model.tensors[layer + "c_proj.weight"][:, :width].copy()
        model.config.update(n_head=1, head_dim=16)
        answers = []
        for value in (True, False):
            model.config["multi_query"] = value
            answers.append(self.run_it(1, self.write(model, f"model {value}")))
        self.assertTrue(jobs.same_bits(*answers))

    def test_heads_written_as_segments_are_other_heads(self):
        """A per-head checkpoint whose rows are put in [Q|K|V] order must answer otherwise: the packing is really read."""
        model = self.model(MULTI_HEAD)
        order = np.arange(192).reshape(4, 3, 16).transpose(1, 0, 2).ravel()
        for end in ("weight", "bias"):
            self.assertEqual(model.change(f"c_attn.{end}", lambda v: v[order]), 2)
        self.differ(self.parity(self.write(model), ranks=(1, 3)), self.reference(MULTI_HEAD))

    def test_a_fused_tensor_of_an_unknown_kind_is_refused_by_name(self):
        model = self.model(MULTI_QUERY)
        model.config["architectures"] = ["GPT2BigLMHeadModel"]
        self.refused(self.write(model, "architecture"), ["GPT2BigLMHeadModel", "GPTBigCodeForCausalLM"])
        model = self.model(LLAMA)
        model.rename(lambda n: n.replace("q_proj", "qkv_proj") if "layers.1." in n else n)
        self.refused(self.write(model, "fused"), ["model.layers.1.self_attn.qkv_proj.weight", "model.layers.1.self_attn.q_proj.weight", "missing"])


class RankCounts(Variants):
    def test_six_experts_on_four_ranks_and_eight_heads_on_three(self):
        model = self.model(MIXTRAL)
        model.rename(lambda n: None if ".experts.6." in n or ".experts.7." in n else n)
        model.change("block_sparse_moe.gate.weight", lambda v: v[:6])
        model.config["num_local_experts"] = 6
        self.parity(self.write(model), ranks=(1, 3, 4))

    def test_fifty_two_heads_on_eight_ranks(self):
        model = random_llama(jobs.MODELS / LLAMA, hidden_size=416, num_attention_heads=52, num_key_value_heads=52, intermediate_size=176, num_hidden_layers=2)
        folder = self.write(model)
        self.parity(folder, ranks=(1, 8), new=2)
        self.assertIn("52", self.plan(folder, 53, want=4))

    def test_twenty_eight_heads_in_four_groups_on_seven_and_eight_ranks(self):
        model = random_llama(jobs.MODELS / LLAMA, hidden_size=112, num_attention_heads=28, num_key_value_heads=4, intermediate_size=90, num_hidden_layers=2)
        folder = self.write(model)
        want = self.parity(folder, ranks=(1, 8), new=3)
        seven = self.run_it(7, folder, new=3)  # a count whose bits may differ
        for a, b in zip(want["logprobs"], seven["logprobs"]):
            self.assertLess(np.abs(a - b).max(), 1e-4)
        self.assertEqual([i.tolist() for i in want["ids"]], [i.tolist() for i in seven["ids"]])

    def test_fewer_kv_heads_than_ranks_are_shared(self):
        plan = self.plan(jobs.MODELS / MIXTRAL, 4)  # 8 query heads of 16 in 2 groups
        for part in ("k", "v"):
            self.assertEqual(self.slices(plan, f"model.layers.0.self_attn.{part}_proj.weight")[1],
                             [[([first, 0], [16, 128])] for first in (0, 0, 16, 16)])
        self.assertEqual(self.slices(plan, "model.layers.0.self_attn.q_proj.weight")[1], [[([32 * r, 0], [32, 128])] for r in range(4)])

    def test_more_ranks_than_query_heads_name_the_largest_count(self):
        for name, heads in ((MIXTRAL, 8), (QWEN_MOE, 4), (MULTI_QUERY, 5), (UNEVEN, 6)):
            self.assertIn(f"at most {heads} ranks", self.plan(jobs.MODELS / name, heads + 1, want=4))
            self.assertEqual(len(self.plan(jobs.MODELS / name, heads)["ranks"]), heads)

    def test_output_biases_of_one_are_added_once(self):
        for name, endings in ((MULTI_QUERY, ("attn.c_proj.bias", "mlp.c_proj.bias")), (MULTI_HEAD, ("attn.c_proj.bias", "mlp.c_proj.bias")),
                              (UNEVEN, ("self_attn.o_proj.bias", "mlp.down_proj.bias"))):
            model = self.model(name)
            for ending in endings:
                self.assertEqual(model.change(ending, lambda v: np.ones_like(v) * np.arange(1, v.size + 1) % 3), 2)
            self.differ(self.parity(self.write(model, name), ranks=(1, 2, 3, 4)), self.reference(name))

    def test_a_bias_alone_is_the_whole_of_a_block(self):
        """Zero output matrices: each block adds exactly its bias, whatever the ranks; a bias added for every rank would show."""
        model = self.model(MULTI_QUERY)
        for part in ("attn", "mlp"):
            model.change(f"{part}.c_proj.weight", np.zeros_like)
            model.change(f"{part}.c_proj.bias", lambda v: np.arange(v.size) % 5 - 2.0)
        got = self.parity(self.write(model, "blocks"), ranks=(1, 2, 4))
        # the same numbers from the beginning: four such biases lie in the position embedding instead
        position = model.floats("transformer.wpe.weight")
        shift = np.arange(position.shape[1]) % 5 - 2.0
        for part in ("attn", "mlp"):
            model.change(f"{part}.c_proj.bias", np.zeros_like)
        model.tensors["transformer.wpe.weight"] = (position + 4 * shift).astype(np.float32)
        moved = self.run_it(1, self.write(model, "positions"))
        for a, b in zip(got["logprobs"], moved["logprobs"]):
            self.assertLess(np.abs(a - b).max(), 1e-4)


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
            self.assertTrue(jobs.same_bits(self.run_it(2, folder), self.reference(name)))
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
