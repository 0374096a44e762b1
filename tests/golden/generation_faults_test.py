#!/usr/bin/env python3
"""Faults of generation, tokenizing, running and output that users of other programs met, each provoked by a whole job."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs
import numpy as np
from variants import LLAMA, MULTI_QUERY, PROMPTS, TIED, UNEVEN, Variants

STOP, LENGTH, CONTEXT = 0, 2, 3
AUTO = {"generation_config": "auto"}


def forced(id, name, **params):
    """A record whose answer is one id again and again."""
    return {"id": name, "token_ids": [5, 6, 7], "params": {"logit_bias": {str(id): 1000}, "max_new_tokens": 4, **params}}


class Ends(Variants):
    def test_end_ids_are_those_of_all_three_files(self):
        """generation_config.json, config.json and the tokenizer each name another one; ignore_eos holds against all."""
        folder = self.place.path / "model"
        shutil.copytree(jobs.MODELS / LLAMA, folder)
        vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        word = next(t for t, i in vocabulary.items() if i == 400)
        for name, changes in (("config.json", {"eos_token_id": 6}), ("generation_config.json", {"eos_token_id": [2, 5], "max_length": 20}),
                              ("tokenizer_config.json", {"eos_token": word})):
            file = folder / name
            file.write_text(json.dumps(dict(json.loads(file.read_text()), **changes)))
        (folder / "special_tokens_map.json").unlink(missing_ok=True)
        ends = [2, 5, 6, 400]
        records = [forced(i, f"end {i}", ignore_eos=False) for i in ends + [401]] + [forced(i, f"on {i}", ignore_eos=True) for i in ends]
        records.append({"id": "long", "token_ids": list(range(10, 40)), "params": {"max_new_tokens": 10}})  # max_length of the model is no limit
        got = self.place.run(2, str(folder), records, model=AUTO)
        answers = [ids.tolist() for ids in got["ids"]]
        self.assertEqual(answers[:9], [[i] for i in ends] + [[401] * 4] + [[i] * 4 for i in ends])
        self.assertEqual(got["reason"], [STOP] * 4 + [LENGTH] * 6)
        self.assertEqual(len(answers[9]), 10)

    def test_positions_end_where_the_table_ends(self):
        model = self.model(MULTI_QUERY)  # learned positions
        model.config["n_positions"] = 64
        model.change("wpe.weight", lambda v: v[:64])
        records = [{"id": str(n), "token_ids": [3 + i % 300 for i in range(n)], "params": {"max_new_tokens": 10}} for n in (60, 63, 64, 70, 20)]
        folder = self.write(model)
        for ranks in (1, 3):
            got = self.place.run(ranks, folder, records, want=5)
            self.assertEqual(got["status"], [0, 0, 1, 1, 0])
            self.assertEqual([len(i) for i in got["ids"]], [4, 1, 10])
            self.assertEqual(got["reason"], [CONTEXT, CONTEXT, LENGTH])
            for row, tokens in ((2, 64), (3, 70)):
                self.assertIn(f"the prompt has {tokens} tokens, the model takes 64", got["error"][row])

    def test_drawn_ends_end_all_ranks(self):
        """About a third of all ids end an answer: prompts leave the batch at all times."""
        records = [{"id": str(i), "token_ids": [7, i], "params": {"max_new_tokens": 60, "temperature": 5.0, "seed": i, "stop_token_ids": list(range(0, 321, 3))}}
                   for i in range(20)]
        one, four = (self.place.run(n, UNEVEN, records) for n in (1, 4))
        self.assertTrue(jobs.same_bits(one, four))
        lengths = [len(i) for i in four["ids"]]
        self.assertGreater(len(set(lengths)), 3)
        self.assertEqual({r for r, n in zip(four["reason"], lengths) if n < 60}, {STOP})
        for ids in four["ids"]:
            self.assertTrue(all(i % 3 for i in ids[:-1]))


class Choices(Variants):
    def test_of_equal_rows_the_lower_id_wins(self):
        """Two rows of the head are the same, and lie on different ranks."""
        first = int(self.reference(UNEVEN)["ids"][0][0])
        for other in ((first + 160) % 321, (first + 80) % 321):
            model = self.model(UNEVEN)
            head = model.floats("lm_head.weight")
            head[other] = head[first]
            model.put("lm_head.weight", head)
            got = self.parity(self.write(model, str(other)), prompts=[PROMPTS[0]], ranks=(1, 2, 4), new=1)
            self.assertEqual(got["ids"][0].tolist(), [min(first, other)])
            best = got["top_logprobs"][0][0]
            self.assertEqual(best[0], best[1], "the tie is exact")
            self.assertEqual(got["top_ids"][0][0][:2].tolist(), sorted([first, other]))

    def test_a_seed_does_not_see_its_company(self):
        rows = [("a", {"seed": 42}), ("b", {}), ("c", {"seed": 7}), ("d", {"seed": 1, "n": 3})]
        records = [{"id": i, "token_ids": [9, 8, 7], "params": {"temperature": 1.5, "max_new_tokens": 12, **p}} for i, p in rows]
        runs = [self.place.run(2, LLAMA, records, engine={"max_num_seqs": batch}) for batch in (1, 2, 3)]
        for run in runs[1:]:
            self.assertTrue(jobs.same_bits(runs[0], run))
        texts = [ids.tobytes() for ids in runs[0]["ids"]]
        self.assertEqual(len(set(texts)), 6, "seeds and samples draw different answers")

    def test_ids_that_no_token_has_come_only_when_allowed(self):
        """The head has more rows than the tokenizer ids: one of them is made the best."""
        folder = jobs.MODELS / "tiny-qwen2-moe"
        known = json.loads((folder / "tokenizer.json").read_text())
        ids = set(known["model"]["vocab"].values()) | {t["id"] for t in known["added_tokens"]}
        unknown = max(set(range(json.loads((folder / "config.json").read_text())["vocab_size"])) - ids)
        records = [forced(unknown, "masked", allow_unknown_ids=False), forced(unknown, "allowed", allow_unknown_ids=True),
                   forced(unknown, "drawn", allow_unknown_ids=False, temperature=2.0, max_new_tokens=40)]
        for ranks in (1, 4):
            got = self.place.run(ranks, "tiny-qwen2-moe", records)
            self.assertEqual(got["ids"][1].tolist(), [unknown] * 4)
            self.assertEqual(got["text"][1], "")
            for row in (0, 2):
                self.assertLessEqual(set(got["ids"][row].tolist()), ids)

    def test_the_pad_id_is_never_looked_at(self):
        want = self.reference(TIED)
        for pad in (0, 17, None):
            model = self.model(TIED)
            model.config["pad_token_id"] = pad
            self.assertTrue(jobs.same_bits(want, self.run_it(2, self.write(model, f"pad {pad}"))))


class Texts(Variants):
    def byte_answer(self, text, most=None):
        """The answer that consists of the byte tokens of the text, in this order."""
        vocabulary = json.loads((jobs.MODELS / LLAMA / "tokenizer.json").read_text())["model"]["vocab"]
        ids = [vocabulary[f"<0x{b:02X}>"] for b in text.encode()]
        self.assertEqual(len(set(ids)), len(ids))
        params = {"logit_bias": {str(i): 5000 - 300 * k for k, i in enumerate(ids)}, "no_repeat_ngram_size": 1, "max_new_tokens": most or len(ids)}
        got = self.place.run(2, LLAMA, [{"id": "0", "prompt": "Hi", "params": params}])
        self.assertEqual(got["ids"][0].tolist(), ids[:most])
        with self.result() as h:
            lossy = bool(h["results/text_lossy"][0])
        return got["text"][0], lossy, got["reason"][0]

    def test_characters_of_several_tokens_are_whole(self):
        self.assertEqual(self.byte_answer("🦙語"), ("🦙語", False, LENGTH))

    def test_a_limit_inside_a_character_is_no_error(self):
        text, lossy, reason = self.byte_answer("🦙語", most=2)
        self.assertEqual((set(text), lossy, reason), ({"\ufffd"}, True, LENGTH))
        # one bad byte spoils a run of byte tokens, as in the reference; the ids are the truth
        text, lossy, reason = self.byte_answer("🦙語", most=5)
        self.assertEqual((text, lossy), ("\ufffd" * 5, True))

    def test_a_begin_token_that_is_written_out_is_told(self):
        records = [{"id": "a", "prompt": "<s>Hi"}, {"id": "b", "prompt": "Hi"}]
        for special, first in ((True, [1, 1]), (False, [1])):
            job = self.place.job(LLAMA, records, prompts={"add_special_tokens": special}, sampling={"max_new_tokens": 1})
            r = jobs.start(0, "run", job, "--progress", "none")
            self.assertEqual(r.returncode, 0, r.stderr)
            with self.result() as h:
                ids = jobs.ragged(h["prompts"], "token_ids")
            self.assertEqual((ids[0][:len(first)].tolist(), ids[0].tolist().count(1)), (first, len(first)))
            self.assertEqual("1 of 2 prompts have the begin token already" in r.stderr, special, r.stderr)


class Ranks(Variants):
    def test_several_ranks_write_one_row_and_one_line_each(self):
        records = [{"id": str(i), "token_ids": [5, 6, i], "params": {"max_new_tokens": 3}} for i in range(3)]
        job = self.place.job(LLAMA, records)
        r = jobs.start(4, "run", job, "--progress", "lines")
        self.assertEqual(r.returncode, 0, r.stderr)
        got = jobs.read(self.place.path / "a.h5")
        self.assertEqual((got["index"], got["id"]), ([0, 1, 2], ["0", "1", "2"]))
        lines = [line for line in r.stderr.splitlines() if line.startswith("tpinfer:")]
        self.assertEqual(len(lines), len(set(lines)), r.stderr)

    def test_fewer_prompts_than_ranks(self):
        records = [{"id": "0", "token_ids": [5, 6], "params": {"max_new_tokens": 3}}]
        one = self.place.run(1, LLAMA, records)
        for replicas in (1, 2, 4):
            self.assertTrue(jobs.same_bits(one, self.place.run(4, LLAMA, records, parallel={"data_parallel_size": replicas})))
            with self.result() as h:
                groups = h["ranks/replica"][:].tolist()
                counts = h["ranks/time/collectives"][:].tolist()
            for replica in set(groups):
                self.assertEqual(len({c for c, g in zip(counts, groups) if g == replica}), 1, "ranks of a replica take the same steps")

    def test_only_rank_0_opens_the_output(self):
        records = [{"id": str(i), "token_ids": [1], "params": {"max_new_tokens": 1000}} for i in range(60)]
        job = self.place.job(LLAMA, records, engine={"max_num_seqs": 4})
        process = subprocess.Popen(jobs.command(3, "run", job, "--progress", "lines"), env=jobs.ENV, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            for line in process.stderr:
                if "prompts |" in line:
                    break
            pids = sorted(int(p) for p in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split())
            self.assertEqual(len(pids), 3)
            holders = [p for p in pids if any("a.h5" in target for target in self.open_files(p))]
            self.assertEqual(holders, pids[:1])
        finally:
            process.terminate()
            process.communicate(timeout=30)

    @staticmethod
    def open_files(pid):
        folder, out = pathlib.Path(f"/proc/{pid}/fd"), []
        for entry in folder.iterdir():
            try:
                out.append(os.readlink(entry))
            except OSError:  # closed meanwhile
                pass
        return out

    def test_a_network_interface_that_is_not_there(self):
        job = self.place.job(LLAMA, [{"id": "0", "token_ids": [5]}])
        words = jobs.command(2, "run", job, "--progress", "none")
        begin = time.monotonic()
        r = subprocess.run([words[0], "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "no_such_interface", *words[1:]], env=jobs.ENV,
                           capture_output=True, text=True, timeout=120)
        self.assertNotEqual(r.returncode, 0)
        self.assertLess(time.monotonic() - begin, 75)
        # MPI itself ends it, inside MPI_Init. Open MPI's long explanation, which has the name, now and then gets lost between its own processes
        # and leaves its "show_help" errors instead.
        said = r.stderr + r.stdout
        self.assertIn("MPI_Init", said)
        self.assertRegex(said, "no_such_interface|show_help")
        self.assertFalse((self.place.path / "a.h5").exists())

    def test_cores_that_a_binding_leaves_idle_are_told(self):
        cores = len(os.sched_getaffinity(0))
        if cores < 2:
            self.skipTest("one core alone")
        job = self.place.job(LLAMA, [{"id": "0", "token_ids": [5], "params": {"max_new_tokens": 1}}])
        bound = ["mpirun", "-np", "1", "--bind-to", "hwthread", jobs.TPINFER, "run", job, "--progress", "none"]
        r = subprocess.run(bound, env=jobs.ENV, capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stderr, rf"warning: mpirun lets the 1 rank on \S+ use \d+ of {cores} cores only.*--bind-to none")
        with self.result() as h:
            self.assertTrue(h["ranks/cpu_list"].asstr()[0].isdigit())
        r = jobs.start(1, "run", job, "--progress", "none")
        self.assertNotIn("cores", r.stderr)
        r = jobs.start(1, "run", job, "--progress", "none", "--set", f"parallel.threads={cores + 1}")
        self.assertIn(f"{cores + 1} threads together, but may use {cores} cores (leave parallel.threads out", r.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
