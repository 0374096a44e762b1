#!/usr/bin/env python3
"""Runs tpinfer and other programs on the same cases in turn and prints a table with targets.

    compare.py --venvs VENVS --models MODELS --model tinyllama-1.1b,moe-1.6b --binary build/release/bin/tpinfer
    compare.py --print results.jsonl

The cases, the probe of the machine and the runners of other programs are those of the peers kit (--peers; its README
tells how programs are installed and models made). Rounds: each runs every program once, every second one backwards;
a program runs its cases in one process, with the probe right before and right after each. Figures are medians of the
rounds; ratios are taken within a round. --own and --curves measure tpinfer alone, on what the kit has no cases for.
Lines are appended to --out, so that a later call adds rounds. Needs h5py, numpy, g++.
"""
import argparse
import importlib.util
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from comparison import bench as benches
from comparison import curves, own_cases, programs, results, tables, targets  # noqa: E402

PROGRAMS = ("tpinfer-1", "tpinfer-2", "vllm-1", "llamacpp-1", "openvino-1", "transformers-1", "deepspeed-2")
CASES = ("decode1", "prefill512", "batch16", "batch32", "batch64", "job")


def words(text, all_of=()):
    return list(all_of) if text == "all" else [word for word in text.split(",") if word and word != "none"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", type=pathlib.Path, metavar="FILE", help="print the tables of this file and run nothing")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT.parent / "shared" / "peers", help="folder of the peers kit")
    parser.add_argument("--venvs", type=pathlib.Path, help="folder that the kit's setup_*.sh filled")
    parser.add_argument("--models", type=pathlib.Path, help="folder with MODEL/ (and MODEL.gguf, MODEL-ov where programs need them)")
    parser.add_argument("--model", default="tinyllama-1.1b", help="comma list")
    parser.add_argument("--binary", default=os.environ.get("TPINFER", str(ROOT / "build" / "release" / "bin" / "tpinfer")), help="of tpinfer")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help=f"comma list of {programs.HELP}")
    parser.add_argument("--cases", default=",".join(CASES), help=f"comma list of {', '.join(CASES)}, or none")
    parser.add_argument("--needed", action="store_true", help="of the cases, run only those that a target needs of the program")
    parser.add_argument("--own", default="none", help=f"all, or comma list of {', '.join(own_cases.CASES)}")
    parser.add_argument("--curves", default="none", help=f"all, or comma list of {', '.join(curves.CURVES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results.jsonl"), help="JSON lines, appended")
    parser.add_argument("--limit", type=float, default=1500, help="seconds allowed to one program's cases")
    parser.add_argument("--quiet-wait", type=float, default=60, help="seconds to wait for a quiet machine before each figure")
    return parser.parse_args()


def checked(args):
    """The arguments with paths made whole; SystemExit names what is missing."""
    for path, what in ((args.peers / "common.py", "--peers: the peers kit"), (pathlib.Path(args.binary), "--binary: tpinfer")):
        if not path.exists():
            raise SystemExit(f"{what} is not there: {path} is missing")
    needs_models = words(args.cases) or set(words(args.own, own_cases.CASES)) & set(own_cases.OF_A_MODEL)
    if needs_models and not args.models:
        raise SystemExit("--models is missing: the folder with the models of --model")
    for name in words(args.model) if needs_models else []:
        if not (args.models / name / "config.json").exists():
            raise SystemExit(f"--model: {args.models / name} is no model; the kit's make_model.py makes one")
    for option, known in (("cases", CASES), ("own", own_cases.CASES), ("curves", curves.CURVES)):
        unknown = set(words(getattr(args, option), known)) - set(known)
        if unknown:
            raise SystemExit(f"--{option}: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
    for name in ("peers", "venvs", "models", "out"):
        if getattr(args, name):
            setattr(args, name, getattr(args, name).resolve())
    if importlib.util.find_spec("h5py") is None:
        raise SystemExit(f"{sys.executable} has no h5py, which reads the result files; install it (Debian: python3-h5py) or take another python")
    args.binary = str(pathlib.Path(args.binary).resolve())
    return args


def measure(args, folder):
    os.environ.update(programs.MPI, PEERS_PROBE=str(programs.build_probe(args.peers, folder)), PEERS_QUIET_WAIT=str(args.quiet_wait))
    sys.path.insert(0, str(args.peers))
    common = importlib.import_module("common")
    done = [line.get("round", 0) for line in results.read(args.out)] if args.out.exists() else []
    writer = programs.Writer(args.out, max(done, default=-1) + 1)
    chosen = [programs.Program(name, args) for name in words(args.programs)] if words(args.cases) else []
    bench = benches.Bench(args, common, writer, pathlib.Path(folder))
    for turn in range(args.rounds):
        for model in words(args.model) if chosen else []:
            for program in chosen if turn % 2 == 0 else chosen[::-1]:
                cases = [c for c in words(args.cases) if not args.needed or c in targets.cases_of(model, program.name)]
                if cases:
                    programs.run_cases(program, model, cases, common, writer, args.limit)
        for name in words(args.own, own_cases.CASES):
            own_cases.CASES[name](bench)
        for name in words(args.curves, curves.CURVES):
            curves.CURVES[name](bench)
        writer.round += 1


def main():
    args = arguments()
    if args.print is None:
        args = checked(args)
        with tempfile.TemporaryDirectory() as folder:
            measure(args, folder)
    file = args.print or args.out
    if not file.exists():
        raise SystemExit(f"{file} is missing")
    print(tables.report(results.Results(results.read(file))))


if __name__ == "__main__":
    main()
