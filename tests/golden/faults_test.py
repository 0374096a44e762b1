#!/usr/bin/env python3
"""Faults of splitting that users of other programs met, each provoked on small models: the same bits on every rank count."""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np
from model_maker import random_llama
from variants import LLAMA, MIXTRAL, MULTI_HEAD, MULTI_QUERY, PROMPTS, QWEN_MOE, TIED, UNEVEN, Variants


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

    def test_a_rank_that_sees_other_bytes_stops_the_run(self):
        """The model's path leads each process to its own folder; the second one has another gate, or the same."""
        job = self.place.job("/proc/self/cwd/model", [{"id": "0", "token_ids": PROMPTS[0], "params": {"max_new_tokens": 2}}])
        gate = "model.layers.1.block_sparse_moe.gate.weight"
        for spoilt in (False, True):
            places = [self.place.path / f"{spoilt} {rank}" for rank in range(2)]
            for rank, place in enumerate(places):
                model = self.model("rand-mixtral-uneven")
                if spoilt and rank == 1:
                    model.tensors[gate][3, 5] ^= 1
                model.write(place / "model")
                for file in (place / "model").iterdir():  # else the time of its change tells
                    os.utime(file, (1e9, 1e9))
            one = jobs.command(1, "run", job, "--progress", "none")
            front, program = one[:one.index(jobs.TPINFER) - 2], one[one.index(jobs.TPINFER):]
            words = [*front, "-np", "1", "--wdir", str(places[0]), *program, ":", "-np", "1", "--wdir", str(places[1]), *program]
            r = subprocess.run(words, env=jobs.ENV, capture_output=True, text=True, timeout=60)
            self.assertEqual(r.returncode, 3 if spoilt else 0, r.stderr)
            self.assertEqual(r.stderr.count("tpinfer: error:"), int(spoilt), r.stderr)
            if spoilt:
                self.assertIn(f"rank 1 read other bytes of {gate} than rank 0", r.stderr)

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
        self.refused(self.write(model, "architecture"), ["GPT2BigLMHeadModel", "gpt_bigcode"])
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


class OtherFamilies(Variants):
    def test_gpt_2_packs_all_queries_then_keys_then_values(self):
        name = "h.0.attn.c_attn.weight"  # stored input x output: 4 heads of 9
        for n, cuts in ((2, (0, 18, 36)), (3, (0, 18, 27, 36))):
            split, ranks = self.slices(self.plan(jobs.MODELS / "rand-gpt2-small", n), name)
            self.assertEqual(split, "fused_rows")
            self.assertEqual(ranks, [[([0, part + a], [36, b - a]) for part in (0, 36, 72)] for a, b in zip(cuts, cuts[1:])])
        self.parity("rand-gpt2-small", ranks=(1, 2, 3))

    def test_layouts_follow_from_the_config_s_flags(self):
        """Not from the name of a class: both falcon layouts are right, and each is refused where the config says the other."""
        for name in ("rand-falcon-new-small", "rand-falcon-heads"):
            self.parity(name, ranks=(1, 2, 4))
        model = self.model("rand-falcon-new-small")
        model.config["new_decoder_architecture"] = False
        self.refused(self.write(model), ["query_key_value", "config.json makes it"], ranks=(1,))

    def test_each_head_has_its_triple_and_biases_are_added_once(self):
        for name, endings in (("rand-gpt-neox-small", ("attention.dense.bias", "mlp.dense_4h_to_h.bias")), ("rand-gpt2-small", ("attn.c_proj.bias", "mlp.c_proj.bias"))):
            model = self.model(name)
            for ending in endings:
                self.assertGreater(model.change(ending, lambda v: np.arange(v.size) % 3 + 1.0), 1)
            self.differ(self.parity(self.write(model, name), ranks=(1, 2, 3)), self.reference(name))

    def test_slopes_are_those_of_the_rank_s_own_heads(self):
        """5 heads, no power of two, on ranks that have one or two of them."""
        self.parity("rand-bloom-small", ranks=(1, 2, 3, 4))
        self.parity("rand-mpt", ranks=(1, 3))

    def test_short_prompts_beside_long_ones(self):
        """Learned positions, with an offset and without, and rotary ones: a row does not see its company."""
        prompts = [[5], list(range(20, 27)), list(range(30, 70))]
        for name in ("rand-opt-small", "rand-gpt2-small", "rand-gpt-neox-small"):
            together = self.run_it(2, name, prompts)
            for i, prompt in enumerate(prompts):
                alone = self.run_it(1, name, [prompt])
                self.assertEqual(together["ids"][i].tolist(), alone["ids"][0].tolist(), name)
                self.assertEqual(together["logprobs"][i].tobytes(), alone["logprobs"][0].tobytes(), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
