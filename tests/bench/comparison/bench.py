"""What own cases and curves share: models of random weights, jobs, the probe beside them, lines of results."""
import json
import pathlib
import random
import statistics
import subprocess
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from bench_job import run_job  # noqa: E402

BASE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "max_position_embeddings": 32768, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}


def shape(hidden, layers, heads, kv, inner, vocab):
    return {**BASE, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
            "intermediate_size": inner, "vocab_size": vocab}


SMALL = shape(1024, 24, 16, 4, 2816, 32000)   # 0.35 billion
MIDDLE = shape(2048, 22, 32, 4, 5632, 32000)  # 1.1 billion


def prompts_of(lengths, new, vocab, seed=7):
    """[(random ids, new tokens)]"""
    rng = random.Random(seed)
    return [([rng.randrange(3, vocab) for _ in range(n)], m) for n, m in zip(lengths, new)]


class Job:
    """What a result file says, read whole."""

    def __init__(self, file):
        import h5py  # here, so that tables can be printed without it

        def all_of(group):
            return {name: group[name][:] for name in group if isinstance(group[name], h5py.Dataset)}

        with h5py.File(file) as h:
            self.answers, self.steps = all_of(h["results"]), all_of(h["steps"])
            self.weights, self.time = all_of(h["ranks/weights"]), all_of(h["ranks/time"])

    def step_seconds(self, rows):
        """Median time of the steps of that many sequences with one token each; None if there are none."""
        t, sequences, tokens = (self.steps[k] for k in ("t", "sequences", "tokens"))
        times = [b - a for a, b, s, n in zip(t, t[1:], sequences[1:], tokens[1:]) if s == n == rows]
        return float(statistics.median(times)) if times else None

    def sequences(self):
        """(seconds to the first token, median seconds of a later one) of the answers of a job with one sequence at a
        time, as they were run."""
        rows = sorted(zip(self.answers["t_first_token"], self.answers["t_finished"]))
        begins, t = [min(self.answers["t_queued"]), *(end for _, end in rows)], self.steps["t"]
        found = []
        for begin, (first, end) in zip(begins, rows):
            inside = [at for at in t if first - 1e-3 < at < end + 1e-3]
            found.append((float(first - begin), statistics.median(float(b - a) for a, b in zip(inside, inside[1:]))))
        return found


class Bench:
    """`args`: binary, models, model, peers; `common` is the kit's."""

    def __init__(self, args, common, writer, folder):
        self.args, self.common, self.writer, self.folder = args, common, writer, folder

    def model(self, name):
        return self.args.models / name

    def model_names(self):
        return [name for name in self.args.model.split(",") if name]

    def job(self, model, prompts, ranks=1, threads=2, **engine):
        """A job on a model folder, or on random weights of a config (a dict)."""
        keys = {"dtype": "bfloat16"}
        if isinstance(model, dict):
            config, model = model, self.folder / "dummy"
            model.mkdir(exist_ok=True)
            (model / "config.json").write_text(json.dumps(config))
            keys["load_format"] = "dummy"
        args = types.SimpleNamespace(tpinfer=self.args.binary, ranks=ranks, threads=threads)
        return Job(run_job(args, model, prompts, engine, self.folder, **keys))

    def beside(self, action):
        """-> what the action gives, and the entries of its line: probes before and after, others' load."""
        other = self.common.wait_quiet()
        result = action()
        self.common.probe()
        return result, {"other_load": other, "probes": list(self.common.nearest)}

    def metric(self, name, value, unit, detail, measured, model=""):
        self.writer.add({"metric": name, "model": model, "value": value, "unit": unit, "detail": detail, **measured})

    def point(self, curve, x, seconds, tokens, passes, measured, note):
        """One place of a curve: `passes` is the work of `seconds`, which gave `tokens`."""
        self.writer.add({"curve": curve, "id": "tpinfer", "x": x, "seconds": seconds, "tokens_per_s": tokens / seconds, "work": passes,
                         "note": note, **measured})


def run(command, **more):
    """-> standard output; SystemExit with what it complained of."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr[-500:]}")
    return done.stdout
