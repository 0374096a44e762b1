#!/usr/bin/env python3
"""A model whose architecture nobody knows: refused with the family that it is most like, run by model.architecture_plan with the same bits."""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs

LLAMA = """\
# the roles of a Llama's tensors
tensors:
  model.embed_tokens: token_embedding
  model.layers.*.input_layernorm: attn_norm
  model.layers.*.self_attn.q_proj: q
  model.layers.*.self_attn.k_proj: k
  model.layers.*.self_attn.v_proj: v
  model.layers.*.self_attn.o_proj: attn_out
  model.layers.*.post_attention_layernorm: mlp_norm
  model.layers.*.mlp.gate_proj: mlp_gate
  model.layers.*.mlp.up_proj: mlp_up
  model.layers.*.mlp.down_proj: mlp_down
  model.norm: final_norm
  lm_head: lm_head
ignore: [model.layers.*.self_attn.rotary_emb.inv_freq]
"""


class Unknown(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.folder = pathlib.Path(self.dir.name) / "model"
        self.plan = pathlib.Path(self.dir.name) / "plan.yaml"

    def model(self, name, **config):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(jobs.MODELS / name, self.folder)
        file = self.folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "architectures": ["OwnForCausalLM"], **config}))

    def refusal(self, *words, code=3):
        done = jobs.start(0, "plan", str(self.folder), *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_without_a_plan_the_nearest_family_and_what_does_not_fit_are_named(self):
        self.model("rand-qwen2")
        text = self.refusal()
        self.assertIn("the architecture OwnForCausalLM is not supported", text)
        self.assertIn("the names of the family qwen2", text)
        self.assertIn("model.architecture_plan", text)
        self.model("tiny-llama")
        import numpy as np  # a tensor that no family has, beside the others
        extra = self.folder / "extra.safetensors"
        header = json.dumps({"model.layers.0.mlp.router_bias.weight": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
        extra.write_bytes(len(header).to_bytes(8, "little") + header + np.zeros(4, np.float32).tobytes())
        index = self.folder / "model.safetensors.index.json"
        content = json.loads(index.read_text())
        content["weight_map"]["model.layers.0.mlp.router_bias.weight"] = extra.name
        index.write_text(json.dumps(content))
        text = self.refusal()
        self.assertIn("most like those of the family llama, but 1 of ", text)
        self.assertIn("model.layers.N.mlp.router_bias.weight", text)
        self.plan.write_text(LLAMA)  # every tensor must be claimed
        self.assertIn("router_bias", self.refusal("--set", f"model.architecture_plan={self.plan}"))

    def test_a_plan_gives_the_bits_of_the_known_model(self):
        self.plan.write_text(LLAMA)
        records = jobs.records_of(jobs.golden("tiny-llama")["cases"], max_new_tokens=12)
        with jobs.Workplace() as w:
            want = w.run(2, "tiny-llama", records)
        self.model("tiny-llama")
        for ranks in (1, 3):
            with jobs.Workplace() as w:
                got = w.run(ranks, str(self.folder), records, model={"architecture_plan": str(self.plan)})
            self.assertTrue(jobs.same_bits(want, got), f"{ranks} ranks")
            self.assertEqual(got["attrs"]["family"], "architecture_plan")

    def test_wrong_plans_are_refused(self):
        self.model("tiny-llama")
        for text, said in ((LLAMA.replace(": q\n", ": mlp_up\n", 1), "no tensor has the role qkv, or q, k and v"),
                           (LLAMA.replace("  lm_head:", "  other_head: lm_head\n  lm_head:"), "have the same role"),
                           (LLAMA.replace("v_proj: v", "v_proj: k2"), "the role of model.layers.*.self_attn.v_proj"),
                           (LLAMA.replace("k_proj: k", "k_proj: q").replace("q_proj: q", "q_proj: k"), "shape"),
                           (LLAMA.replace("  lm_head: lm_head\n", "  lm_head: lm_head\n  lm_head: lm_head\n"), "occurs twice"),
                           ("", "a mapping with \"tensors\"")):
            self.plan.write_text(text)
            complaint = self.refusal("--set", f"model.architecture_plan={self.plan}")
            self.assertIn(said, complaint)
        self.plan.unlink()
        self.assertIn("plan.yaml", self.refusal("--set", f"model.architecture_plan={self.plan}"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
