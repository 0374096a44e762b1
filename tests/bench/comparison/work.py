"""What a model's passes must at least read and compute, from its config.json: the floor that times are set against."""
import json
import pathlib


class Weights:
    """Parameters that a step reads: dense matrices, one expert, experts, how many of them a token takes, the head."""

    def __init__(self, config, bytes_each=2):
        def key(*names, default=None):
            return next((config[n] for n in names if config.get(n) is not None), default)

        hidden, layers, heads = key("hidden_size", "n_embd"), key("num_hidden_layers", "n_layer"), key("num_attention_heads", "n_head")
        if None in (hidden, layers, heads):
            raise ValueError("config.json has no hidden_size, num_hidden_layers or num_attention_heads")
        kv, dim = key("num_key_value_heads", default=heads), key("head_dim", default=hidden // heads)
        inner = key("intermediate_size", "n_inner", default=4 * hidden)
        self.experts, self.per_token = key("num_local_experts", "num_experts", default=1), key("num_experts_per_tok", default=1)
        attention = hidden * (heads + 2 * kv) * dim + heads * dim * hidden
        self.expert = 0
        if self.experts > 1:
            self.expert = 3 * hidden * key("moe_intermediate_size", default=inner) * layers
            shared = key("shared_expert_intermediate_size", default=0)
            inner_part = hidden * self.experts + 3 * hidden * shared + (hidden if shared else 0)
        else:
            inner_part = 3 * hidden * inner
        self.dense = layers * (attention + inner_part + 2 * hidden) + hidden
        self.vocab = key("vocab_size")
        self.head = self.vocab * hidden
        self.kv_position = 2 * layers * kv * dim * min(bytes_each, 2)  # bytes of the cache for one position
        self.attention_pair = 4 * layers * heads * dim  # operations for one query and one position
        self.bytes_each = bytes_each

    def step(self, tokens, rows, context=0):
        """[bytes, operations] of a step with that many tokens, rows with logits and positions read from the cache."""
        used = 1 - (1 - self.per_token / self.experts) ** tokens
        read = self.bytes_each * (self.dense + self.head + self.expert * self.experts * used) + context * self.kv_position
        flop = 2 * (tokens * (self.dense + self.expert * self.per_token) + rows * self.head) + context * self.attention_pair
        return [read, flop]

    def case(self, lengths, new):
        """[bytes, operations, times] of the passes of prompts of such lengths that want so many new tokens each: all
        prompts in one pass, then a step a token. Weights alone, so shares are slightly low for long contexts."""
        passes = [[*self.step(sum(lengths), len(lengths)), 1]]
        for i in range(1, max(new)):
            live = sum(n > i for n in new)
            entry = self.step(live, live)
            if passes[-1][:2] == entry:
                passes[-1][2] += 1
            else:
                passes.append([*entry, 1])
        return passes


def weights_of(folder, bytes_each=2):
    path = pathlib.Path(folder) / "config.json"
    return Weights(json.loads(path.read_text()), bytes_each)


def floor_seconds(work, peak):
    """Of [bytes, operations, times] passes on a machine of (GB/s, GFLOP/s)."""
    return sum(times * max(read / peak[0], flop / peak[1]) for read, flop, times in work) / 1e9
