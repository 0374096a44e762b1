#!/usr/bin/env python3
"""Reads what ptxas says of the kernels: none may spill registers.

usage: check_spills.py --words FOLDER                       what the build kept of it (keep_words.sh)
       check_spills.py NVCC LIB_FOLDER ARCHITECTURE...      compiles anew, with warnings as errors (architectures as 80, 90, 100);
                                                            a long test: TPINFER_LONG_TESTS=1
The last architecture is also compiled to PTX, as the build does for newer GPUs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++20", "--fmad=false", "-O3", "-Xcompiler=-Wall,-Wextra,-Werror", "--Werror=all-warnings",
         "--ptxas-options=-v"]
KERNEL = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def readable(names):
    """Demangled, without arguments and namespaces."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    clean = [re.sub(r"\(anonymous namespace\)::|tpinfer::|cuda::|^void ", "", line) for line in text.splitlines()]
    return [re.sub(r"\(.*", "", line) for line in clean]


def report(output):
    """-> [(kernel, architecture, registers, spilled bytes)]"""
    found, current, spilled = [], None, 0
    for line in output.splitlines():
        if match := KERNEL.search(line):
            current = match.groups()
        elif match := SPILLS.search(line):
            spilled = int(match[2]) + int(match[3])
        elif (match := REGISTERS.search(line)) and current:
            found.append((*current, int(match[1]), spilled))
            current, spilled = None, 0
    return found


def judge(rows):
    if len(rows) < 10:
        sys.exit(f"only {len(rows)} kernels found: has ptxas changed its words?")
    for row, name in zip(rows, readable([row[1] for row in rows])):
        print(f"{row[0]:24} {row[2]:7} {row[3]:4} registers {row[4]:5} bytes spilled  {name}")
    spilled = [row for row in rows if row[4]]
    sys.exit(f"{len(spilled)} kernels spill registers" if spilled else 0)


def kept(folder):
    judge([(file.name.removesuffix(".o.words"), *row) for file in sorted(pathlib.Path(folder).rglob("*.cu.o.words")) for row in report(file.read_text())])


def compiled(nvcc, lib, *architectures):
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    targets.append(f"-gencode=arch=compute_{architectures[-1]},code=compute_{architectures[-1]}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(pathlib.Path(lib).glob("backend/cuda/*.cu")):
            run = subprocess.run([nvcc, *FLAGS, *targets, f"-I{lib}", "-c", "-o", f"{folder}/out.o", str(source)],
                                 capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"{source}: nvcc fails\n{run.stdout}{run.stderr}")
            rows += [(source.name, *row) for row in report(run.stdout + run.stderr)]
    judge(rows)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--words":
        kept(sys.argv[2])
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    if os.environ.get("TPINFER_LONG_TESTS") != "1":
        print("skipped: a long test, TPINFER_LONG_TESTS=1")
        sys.exit(77)
    compiled(*sys.argv[1:])
