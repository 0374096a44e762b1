#!/usr/bin/env python3
"""Tables and pictures of the benchmark scripts, from made-up results whose figures are known."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
from comparison import bench, curves, results, storage, tables, targets, work  # noqa: E402

PROBE = {"read_gbs_2": 30.0, "bf16_gflops_2": 170.0, "fp32_gflops_2": 300.0}
MODEL = "tinyllama-1.1b"
CONFIG = {"hidden_size": 2048, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000}
MIXTURE = {"hidden_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 3584,
           "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}
LENGTHS = {"decode1": ([32], [64]), "prefill512": ([512], [1]), "batch16": ([64] * 16, [64] * 16)}


def line_of(program, case, share, turn, **more):
    """A line as compare.py writes it, of a run that reaches a share of the floor."""
    weights = work.Weights(CONFIG)
    lengths, new = LENGTHS[case]
    passes = weights.case(lengths, new)
    seconds = work.floor_seconds(passes, (30, 300)) / share
    step = [*weights.step(len(new), len(new)), 1 / len(new)]
    rate = share / work.floor_seconds([step], (30, 300)) if max(new) > 1 else None
    return {"peer": program, "version": "1", "model": MODEL, "case": case, "tp": 1, "id": program, "seconds": seconds, "tokens_per_s": sum(new) / seconds,
            "prefill_tokens_per_s": sum(lengths) / seconds, "decode_tokens_per_s": rate, "load_seconds": 2.0, "peak_rss_bytes": [2 ** 31],
            "work": passes, "decode_work": step, "probes": [PROBE, {**PROBE, "read_gbs_2": 25.0}], "other_load": 0.1, "round": turn, **more}


def some_lines():
    lines = []
    for turn, ours in enumerate((0.95, 0.91, 0.93)):
        for case in LENGTHS:
            lines += [line_of("tpinfer-1", case, ours, turn, wall_seconds=100.0), line_of("llamacpp-1", case, ours / 2, turn)]
    lines.append(line_of("tpinfer-1", "decode1", 0.1, 0, other_load=1.9))  # on a busy machine: left out
    lines += [{"curve": "rows", "id": "tpinfer", "x": x, "seconds": 0.07 / share, "tokens_per_s": x, "work": [[2.07e9, 2.07e9 * x, 1]], "note": "made up",
               "probes": [PROBE], "round": 0} for x, share in ((1, 0.95), (2, 0.9), (4, 0.6), (8, 0.58))]
    lines.append({"metric": "start beyond mpirun", "model": "", "value": 0.7, "unit": "s", "detail": {"job": 0.8}, "probes": [PROBE], "round": 0})
    return lines + [{"id": "vllm-1", "model": MODEL, "failed": 3, "round": 0}]


class Work(unittest.TestCase):
    def test_parameters(self):
        dense, mixture = work.Weights(CONFIG), work.Weights(MIXTURE)
        self.assertEqual((dense.dense, dense.head), (968976384, 65536000))
        self.assertEqual((mixture.dense, mixture.expert * mixture.experts), (42107904, 1409286144))

    def test_passes(self):
        weights = work.Weights(MIXTURE)
        passes = weights.case([5, 7], [1, 4])
        self.assertEqual([times for _, _, times in passes], [1, 3])
        self.assertEqual(passes[1][:2], weights.step(1, 1))
        read = 2 * (weights.dense + weights.head + 2 * weights.expert)  # a token uses 2 of 8 experts
        self.assertAlmostEqual(passes[1][0], read, delta=1)


class Figures(unittest.TestCase):
    def setUp(self):
        self.found = results.Results(some_lines())

    def test_shares_and_ratios(self):
        ours = self.found.cases[MODEL, "decode1", "tpinfer-1"]
        self.assertAlmostEqual(results.Spread(results.by_round(ours, "share").values()).median, 0.93, places=9)
        self.assertAlmostEqual(results.Spread(results.by_round(ours, "decode_share").values()).low, 0.91, places=9)
        for ratio in results.ratios(ours, self.found.cases[MODEL, "decode1", "llamacpp-1"], "decode"):
            self.assertAlmostEqual(ratio, 2, places=9)
        self.assertAlmostEqual(results.FIGURES["with_loading"](ours[0]), 0.64, places=9)
        theirs = self.found.cases[MODEL, "decode1", "llamacpp-1"][0]
        self.assertAlmostEqual(results.FIGURES["with_loading"](theirs), 64 / (2 + theirs["seconds"]), places=9)

    def test_ratio_is_of_one_round(self):
        ours = [{"round": 0, "tokens_per_s": 10}, {"round": 1, "tokens_per_s": 40}]
        theirs = [{"round": 0, "tokens_per_s": 5}, {"round": 1, "tokens_per_s": 20}, {"round": 2, "tokens_per_s": 1}]
        self.assertEqual(results.ratios(ours, theirs, "output"), [2, 2])

    def test_report(self):
        text = tables.report(self.found)
        row = next(line for line in text.splitlines() if line.startswith("| decode, 1 sequence: share"))
        self.assertEqual(row, "| decode, 1 sequence: share of the read rate | >= 0.9 | 0.93 (0.91 .. 0.95) | 3 | yes |")
        self.assertIn("| quickstart job beyond mpirun's own start, s | <= 0.5 | 0.70 | 1 | **no** |", text)
        self.assertRegex(text, r"\| mixed job: share of the floor \| >= 0.88 \|  \|  \| not measured \|")
        self.assertIn("failed: vllm-1 on tinyllama-1.1b, exit status 3", text)
        self.assertIn("float32 products are faster", text)
        self.assertIn("1 of 24 figures were taken while others used more than 0.5 cores", text)
        self.assertEqual(re.findall(r"\| ([\d,]+) \|.*cliff", text), ["4"])

    def test_targets_are_told_apart(self):
        names = [target.what for target in targets.all_targets()]
        self.assertEqual(len(names), len(set(names)))
        off = next(t for t in targets.all_targets() if "full / off" in t.what and t.case == "decode1")
        lines = [line_of("tpinfer-1", "decode1", 0.80, 0), line_of("tpinfer-1-off", "decode1", 0.88, 0)]
        self.assertAlmostEqual(off.values(results.Results(lines))[0], 1.1, places=9)
        self.assertFalse(off.met(1.1))


class Measuring(unittest.TestCase):
    """What reads result files, on made-up steps."""

    def test_staggered(self):
        prompts = curves.staggered((1, 3, 8), 100)
        live = [sum(new > i for _, new in prompts) for i in range(1, max(new for _, new in prompts))]
        self.assertEqual(live, [8] * curves.STEPS + [3] * curves.STEPS + [1] * curves.STEPS)

    def test_steps(self):
        job = bench.Job.__new__(bench.Job)
        job.steps = {"t": [1.0, 1.5, 2.0, 2.7, 3.0], "sequences": [4, 4, 4, 4, 2], "tokens": [64, 4, 4, 4, 2]}
        self.assertAlmostEqual(job.step_seconds(4), 0.5)
        self.assertAlmostEqual(job.step_seconds(2), 0.3)
        self.assertIsNone(job.step_seconds(64))

    def test_sequences(self):
        job = bench.Job.__new__(bench.Job)
        job.answers = {"t_queued": [1.0, 1.0], "t_first_token": [6.0, 3.0], "t_finished": [8.0, 5.0]}
        job.steps = {"t": [2.0, 3.0, 3.5, 4.0, 5.0, 5.5, 6.0, 7.0, 8.0]}
        self.assertEqual(job.sequences(), [(2.0, 0.5), (1.0, 1.0)])

    def test_storage(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / name for name in "ab"]
            files[0].write_bytes(bytes(storage.PIECE + 12345))
            files[1].write_bytes(bytes(777))
            rates = storage.copy_rates(files)
            self.assertEqual(sorted(rates), ["fresh", "touched"])
            self.assertGreater(min(rates.values()), 0)
            try:
                self.assertGreater(storage.direct_rate(files, 2), 0)
            except OSError as e:  # some file systems have no such reads
                print(f"no O_DIRECT here: {e}")


class Programs(unittest.TestCase):
    def run_script(self, name, *words):
        return subprocess.run([sys.executable, str(BENCH / name), *map(str, words)], capture_output=True, text=True)

    def test_print_and_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            file, picture = pathlib.Path(folder) / "r.jsonl", pathlib.Path(folder) / "r.svg"
            file.write_text("".join(json.dumps(line) + "\n" for line in some_lines()))
            done = self.run_script("compare.py", "--print", file)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("## Targets", done.stdout)
            done = self.run_script("roofline.py", file, "-o", picture, "--curves")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            tree = ElementTree.parse(picture)
            hints = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}title")]
            self.assertIn("tpinfer-1, decode1, steps: 27.9 GFLOP/s, 93 % of the roof", hints)
            self.assertIn("llamacpp-1, batch16, steps: 139.5 GFLOP/s, 46 % of the roof", hints)
            self.assertEqual(sum(" rows:" in hint for hint in hints), 4)
            size = [float(v) for v in tree.getroot().get("viewBox").split()][2:]
            for circle in tree.iter("{http://www.w3.org/2000/svg}circle"):
                self.assertTrue(0 < float(circle.get("cx")) < size[0] and 0 < float(circle.get("cy")) < size[1])

    def test_complaints(self):
        with tempfile.TemporaryDirectory() as folder:
            cut = pathlib.Path(folder) / "cut.jsonl"
            cut.write_text('{"metric": "x", "value": 1}\n{"metric":')
            for words, part in ((("--print", cut), "cut.jsonl, line 2: no JSON"), (("--print", cut.with_name("none")), "none is missing"),
                                (("--peers", folder), "--peers: the peers kit is not there")):
                done = self.run_script("compare.py", *words)
                self.assertEqual(done.returncode, 1)
                self.assertIn(part, done.stderr)
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
