"""Rules about the source text: who may include whom, no family name outside its table, short files, headers alone."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CODE = {".cpp", ".hpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".txt", ".in"}
MOST_LINES = 420  # 400 is the aim

CORE_ONLY = "checkpoint model comm backend memory text job output".split()
MAY_INCLUDE = {"core": {"core"}, **{module: {"core", module} for module in CORE_ONLY}}
MAY_INCLUDE["shard"] = {"core", "model", "checkpoint", "shard"}
MAY_INCLUDE["report"] = {"core", "output", "report"}
MAY_INCLUDE["prompts"] = {"core", "job", "text", "output", "prompts"}
MAY_INCLUDE["runtime"] = {*MAY_INCLUDE, "runtime"} - {"report"}
# The header of a library that one module alone knows.
OWNERS = {"mpi.h": "comm", "hdf5.h": "output", "yaml-cpp/yaml.h": "job", "hwloc.h": "backend", "zlib.h": "prompts"}

FAMILIES = "Mixtral Qwen BigCode StarCoder Llama Mistral Falcon Bloom Gemma Phi".split()
# A name as a word of its own, or as a part of a CamelCase or snake_case word ("TinyLlama", "llama_row", not "philox").
FAMILY = re.compile("|".join(rf"(?:(?<![A-Za-z])(?i:{name})|{name})(?![a-z])" for name in FAMILIES))
# Hugging Face's own name of a way to scale rotary frequencies, which several families use.
ALLOWED_NAMES = {"lib/model/rope.hpp": "llama3", "lib/model/rope.cpp": "llama3"}

# Put together so that this file does not hold them.
FORBIDDEN = re.compile("|".join([r"\bTO" r"DO\b", r"\bFIX" r"ME\b", "/wo" "rk/"]))


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and path.suffix in CODE and not name.startswith("tests/data/"):
                yield name, path.read_text(encoding="utf-8")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def included(text):
    return re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, flags=re.M)


def is_module(word):
    return bool(word) and (ROOT / "lib" / word).is_dir()


class Layering(unittest.TestCase):
    def expect_nothing(self, faults):
        self.assertFalse(faults, "\n" + "\n".join(faults))

    def test_modules_are_known(self):
        modules = {path.name for path in (ROOT / "lib").iterdir() if path.is_dir()}
        self.assertEqual(modules, set(MAY_INCLUDE), "give a new module its place in MAY_INCLUDE")

    def test_includes_go_down(self):
        faults = []
        seen = 0
        for name, text in sources("lib"):
            module = name.split("/")[1]
            for header in included(text):
                target = header.split("/")[0] if "/" in header else ""
                if header in OWNERS and module != OWNERS[header]:
                    faults.append(f"{name} includes {header}, which belongs to {OWNERS[header]}")
                if target == "app" or (is_module(target) and target not in MAY_INCLUDE[module]):
                    faults.append(f"{name} includes {header}: {module} may not use {target}")
                seen += is_module(target)
        self.assertGreater(seen, 200)
        self.expect_nothing(faults)

    def test_links_go_down(self):
        faults = []
        for path in sorted((ROOT / "lib").glob("*/CMakeLists.txt")):
            module = path.parent.name
            for call in re.findall(r"tpinfer_library\(([^)]*)\)", path.read_text()):
                for target in re.findall(r"\btpinfer_(\w+)", call):
                    if is_module(target) and target not in MAY_INCLUDE[module]:
                        faults.append(f"{module} links {target}")
        self.expect_nothing(faults)

    def test_only_the_program_prints_and_aborts(self):
        pattern = re.compile(r"\bMPI_Abort\b|(?:\.|->)abort\(|\bstd::(?:cout|cerr|puts|printf|fprintf|exit|abort)\b|"
                             r"\bfmt::print\b")
        faults = []
        for name, text in sources("lib"):
            words = pattern.findall(without_comments(text))
            if name == "lib/comm/mpi_communicator.cpp":  # Communicator::abort itself, for the program to call
                self.assertEqual(words, ["MPI_Abort"])
                continue
            faults += [f"{name}: {word}" for word in words]
        self.expect_nothing(faults)

    def test_family_names_stay_in_their_tables(self):
        for word in ("llama", "TinyLlama", "LLAMA", "llama_rows", "LlamaForCausalLM", "qwen2", "GPTBigCode", "phi-2"):
            self.assertTrue(FAMILY.search(word), word)
        for word in ("philox", "Philox4x32", "delphi", "blooming"):
            self.assertFalse(FAMILY.search(word), word)
        faults = []
        for name, text in sources("lib", "app"):
            if name.startswith("lib/model/families"):
                continue
            text = text.replace(ALLOWED_NAMES.get(name, "\0"), "")
            for number, line in enumerate(text.splitlines(), 1):
                if FAMILY.search(line):
                    faults.append(f"{name}:{number}: {line.strip()}")
        self.expect_nothing(faults)

    def test_files_are_short_and_finished(self):
        faults = []
        for name, text in sources("lib", "app", "tests", "jobs", "configs", ".ci"):
            lines = text.count("\n")
            if lines > MOST_LINES:
                faults.append(f"{name} has {lines} lines, more than {MOST_LINES}")
            faults += [f"{name} holds \"{word}\"" for word in FORBIDDEN.findall(text)]
        self.expect_nothing(faults)


class HeadersAlone(unittest.TestCase):
    """A header stands alone when a source file of its module includes it before all else, or when it compiles so."""

    def setUp(self):
        self.flags = os.environ["TPINFER_HEADER_FLAGS"].split("\n")
        self.without = os.environ.get("TPINFER_WITHOUT", "").split()

    def skipped(self, name):
        cuda = name.startswith(("lib/backend/cuda/", "lib/comm/cuda_")) or name == "lib/core/cuda_handles.hpp"
        nccl = name.startswith("lib/comm/nccl_")
        return ("cuda" in self.without and (cuda or nccl)) or ("nccl" in self.without and nccl)

    def proven_by_the_build(self, name):
        source = ROOT / pathlib.Path(name).with_suffix(".cpp")
        module = "/".join(name.split("/")[:2])
        listed = source.exists() and source.name in (ROOT / module / "CMakeLists.txt").read_text()
        return listed and included(source.read_text())[0] == name.removeprefix("lib/")

    def complaint(self, name):
        isa = ["-march=x86-64-v4", "-mavx512bf16"] if "avx512" in name else ["-march=x86-64-v3"] if "avx2" in name else []
        command = [os.environ["TPINFER_CXX"], *self.flags, *isa, "-include", str(ROOT / name), "-x", "c++", "/dev/null"]
        run = subprocess.run(command, capture_output=True, text=True)
        return f"{name}:\n{run.stderr}" if run.returncode else ""

    def test_each_header(self):
        headers = [name for name, _ in sources("lib") if name.endswith(".hpp")]
        self.assertGreater(len(headers), 100)
        left = [name for name in headers if not self.skipped(name) and not self.proven_by_the_build(name)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            faults = [text for text in pool.map(self.complaint, left) if text]
        print(f"{len(headers)} headers, {len(left)} compiled alone, {sum(map(self.skipped, headers))} skipped")
        self.assertFalse(faults, "\n" + "\n".join(faults))


if __name__ == "__main__":
    unittest.main()
