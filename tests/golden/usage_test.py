#!/usr/bin/env python3
"""Mistakes on the command line: exit code 2 and one sentence that says what was meant, once for all ranks."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import jobs


class Usage(unittest.TestCase):
    def refused(self, *words, ranks=0):
        r = jobs.start(ranks, *words)
        self.assertEqual((r.returncode, r.stdout), (2, ""), words)
        return r.stderr

    def test_a_command_that_is_misspelt(self):
        for wrong, right in (("shwo", "show"), ("inof", "info"), ("verfy", "verify"), ("tokenise", "tokenize")):
            self.assertEqual(self.refused(wrong, "x"), f"tpinfer: error: {wrong} is neither a command nor a job file that is there "
                                                       f"(did you mean tpinfer {right}?)\n")
        self.assertIn("jbo.yaml: cannot be opened: No such file", self.refused("jbo.yaml"))  # a file, whatever it is like
        self.assertIn("weather: cannot be opened: No such file", self.refused("weather"))
        with tempfile.TemporaryDirectory() as folder:  # a job file may have any name
            job = pathlib.Path(folder) / "shwo"
            job.write_text("model: m\n")
            self.assertIn("prompts.file: is missing", self.refused(str(job)))

    def test_what_is_no_job(self):
        """A model folder, and a result: what one does with these instead."""
        folder = str(jobs.MODELS / "tiny-llama")
        self.assertEqual(self.refused(folder), f"tpinfer: error: {folder} is a folder, a job file is needed "
                                               f"(tpinfer plan {folder} shows what ranks would hold of a model)\n")
        with jobs.Workplace() as place:
            result = place.path / "a.h5"
            with jobs.h5py.File(result, "w"):
                pass
            told = f"{result}:1:1: error: is an HDF5 file, a job file is needed (tpinfer show FILE shows a result)\n"
            for ranks in (0, 3):  # all ranks have it, and it is said once
                self.assertIn(told, self.refused(str(result), ranks=ranks))
            job = place.path / "job.yaml"
            job.write_text("modell: m\nprompts: {file: p}\noutput: {file: o.h5}\n")
            alone = self.refused(str(job))
            self.assertEqual(alone.count("\n"), 2, alone)
            self.assertTrue(self.refused(str(job), ranks=3).startswith(alone))

    def test_an_option_that_is_misspelt(self):
        self.assertIn("(--st: did you mean --set? tpinfer run --help)", self.refused("run", "a.yaml", "--st", "a=b"))
        self.assertIn("(--tolerence: did you mean --tolerance? tpinfer diff --help)", self.refused("diff", "a", "b", "--tolerence=3"))
        self.assertIn("did you mean --progress? tpinfer run --help", self.refused("a.yaml", "--progres", "bar"))
        self.assertTrue(self.refused("show", "a.h5", "--xyzzy").endswith("(tpinfer show --help)\n"))

    def test_nothing_at_all_shows_help(self):
        text = self.refused()
        self.assertIn("Subcommands:", text)
        self.assertTrue(text.endswith("(tpinfer --help)\n"))
        self.assertIn("mpirun -np 4 tpinfer job.yaml", text)

    def test_one_rank_speaks(self):
        for words in (("run", "--bogus"), ("shwo",)):
            self.assertEqual(self.refused(*words, ranks=3).count("tpinfer: error:"), 1)

    def test_version(self):
        r = jobs.start(0, "--version")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stdout, r"^tpinfer \d+\.\d+\.\d+ \(commit \w+, \w+, .+\)\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
