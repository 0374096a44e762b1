"""Model folders made from those in tests/data/models by editing config.json and tensors. Needs numpy alone."""
import json
import pathlib
import shutil
import struct

import numpy as np

TYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2"), "BOOL": np.dtype("?")}  # BF16 as its bits
NAMES = {v: k for k, v in TYPES.items()}


def to_floats(array):
    """A stored array as float32."""
    return (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == TYPES["BF16"] else array.astype(np.float32)


def from_floats(values, dtype):
    """float32 values as the array that is stored, rounded to nearest, ties to even (finite values)."""
    values = np.ascontiguousarray(values, np.float32)
    if dtype != TYPES["BF16"]:
        return values.astype(dtype)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(dtype)


def read_safetensors(file):
    """-> {name: stored array}"""
    blob = pathlib.Path(file).read_bytes()
    size, = struct.unpack("<Q", blob[:8])
    tensors = {}
    for name, entry in json.loads(blob[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            tensors[name] = np.frombuffer(blob[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
    return tensors


def write_safetensors(file, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(file).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values()))


class Model:
    """A model folder in memory, to be changed and written elsewhere."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.with_tokenizer = True
        self.config = json.loads((self.folder / "config.json").read_text())
        self.tensors = {}
        for file in sorted(self.folder.glob("model*.safetensors")):
            self.tensors.update(read_safetensors(file))

    def floats(self, name):
        return to_floats(self.tensors[name])

    def put(self, name, values, like=None):
        """Stores float32 values under a name, in the type of the tensor there or of `like`."""
        self.tensors[name] = from_floats(values, self.tensors[like or name].dtype)

    def change(self, pattern, function):
        """Replaces the values v of every tensor whose name ends with the pattern by function(v); -> how many."""
        names = [n for n in self.tensors if n.endswith(pattern)]
        for name in names:
            self.put(name, function(self.floats(name)))
        return len(names)

    def rename(self, function):
        """New names; a tensor whose new name is None is left out."""
        self.tensors = {function(n): t for n, t in self.tensors.items() if function(n) is not None}

    def cut_vocabulary(self, count):
        """Keeps the first `count` ids of embedding and head; the tokenizer, which has more, is left out."""
        for name, array in self.tensors.items():
            if array.ndim == 2 and array.shape[0] == self.config["vocab_size"]:
                self.tensors[name] = array[:count].copy()
        self.config["vocab_size"] = count
        self.with_tokenizer = False

    def stack_experts(self):
        """The layout in which all experts of a layer are one tensor: [E, 2 F, H] and [E, H, F]."""
        experts = {}  # (names of the layer's MLP) -> {(number, part): array}
        parts = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
        for name in [n for n in self.tensors if ".experts." in n]:
            front, back = name.split(".experts.")
            number, part, _ = back.split(".")
            experts.setdefault(front, {})[int(number), parts[part]] = self.tensors.pop(name)
        for front, found in experts.items():
            numbers = range(1 + max(n for n, _ in found))
            to = front.replace("block_sparse_moe", "mlp")
            self.tensors[to + ".experts.gate_up_proj"] = np.stack([np.concatenate([found[n, "gate"], found[n, "up"]]) for n in numbers])
            self.tensors[to + ".experts.down_proj"] = np.stack([found[n, "down"] for n in numbers])
        self.rename(lambda n: n.replace("block_sparse_moe.gate.", "mlp.gate."))

    def write(self, to, shards=1):
        """Writes config, tensors and the tokenizer's files into the folder; -> its path as text."""
        to = pathlib.Path(to)
        to.mkdir(parents=True)
        for file in self.folder.iterdir():
            if self.with_tokenizer and ("token" in file.name or file.name == "generation_config.json"):
                shutil.copy(file, to / file.name)
        (to / "config.json").write_text(json.dumps(self.config))
        names = list(self.tensors)
        if shards == 1:
            write_safetensors(to / "model.safetensors", self.tensors)
            return str(to)
        index = {}
        for i in range(shards):
            file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
            mine = names[i * len(names) // shards:(i + 1) * len(names) // shards]
            write_safetensors(to / file, {n: self.tensors[n] for n in mine})
            index.update({n: file for n in mine})
        (to / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
        return str(to)


def random_llama(folder, seed=1, **sizes):
    """A Llama of other sizes with random weights; the tokenizer is that of `folder`."""
    model = Model(folder)
    model.config.update(sizes)
    c, rng = model.config, np.random.default_rng(seed)
    if "head_dim" not in sizes:
        c.pop("head_dim", None)
    width = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    q, kv, h, f = c["num_attention_heads"] * width, c["num_key_value_heads"] * width, c["hidden_size"], c["intermediate_size"]
    shapes = {"model.embed_tokens": (c["vocab_size"], h), "lm_head": (c["vocab_size"], h)}
    for i in range(c["num_hidden_layers"]):
        shapes.update({f"model.layers.{i}.{n}_proj": s for n, s in {
            "self_attn.q": (q, h), "self_attn.k": (kv, h), "self_attn.v": (kv, h), "self_attn.o": (h, q),
            "mlp.gate": (f, h), "mlp.up": (f, h), "mlp.down": (h, f)}.items()})
    model.tensors = {n + ".weight": (rng.standard_normal(s) * 0.15).astype(np.float32) for n, s in shapes.items()}
    for i in range(c["num_hidden_layers"]):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            model.tensors[f"model.layers.{i}.{norm}.weight"] = np.ones(h, np.float32)
    model.tensors["model.norm.weight"] = np.ones(h, np.float32)
    return model
