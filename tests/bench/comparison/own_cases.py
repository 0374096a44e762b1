"""Figures of tpinfer alone, on what the kit has no cases for: each function measures once and writes lines."""
import json
import os
import pathlib
import re
import statistics
import time

from . import storage
from .bench import MIDDLE, prompts_of, run, shape
from .programs import say
from .results import peak
from .work import Weights

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONTEXTS = (128, 4096, 16384)


def built(bench, name):
    """A benchmark program beside the binary's build folder; None (and a word) where it was not built."""
    for folder in (pathlib.Path(bench.args.binary).parent, pathlib.Path(bench.args.binary).parents[1] / "tests" / "bench"):
        if (folder / name).exists():
            return folder / name
    say(f"{name} is left out: not beside {bench.args.binary}; configure with -DTPINFER_BENCH=ON")
    return None


def load(bench):
    """Loading, cold against reading the file past the cache and warm against copying it out of the cache; the memory was
    used just before, so that the host of a virtual machine need not find it."""
    for name in bench.model_names():
        files = sorted(bench.model(name).glob("*.safetensors"))
        size = sum(f.stat().st_size for f in files)
        for ranks in (1, 2):
            kinds = ("cold", "warm") if os.geteuid() == 0 else ("warm",)
            for kind in kinds:
                measure_load(bench, name, files, size, ranks, kind)
        if len(kinds) == 1:
            say("cold loading is left out: only root may drop the page cache")


def measure_load(bench, name, files, size, ranks, kind):
    def job():
        if kind == "cold":
            bench.common.drop_cache()
        storage.back_memory(size + size // 4)
        return bench.job(bench.model(name), [([5], 1)], ranks)

    if kind == "warm":
        storage.copy_rates(files)  # the files are in the cache now
    rates = (lambda: {"O_DIRECT": storage.direct_rate(files)}) if kind == "cold" else (lambda: storage.copy_rates(files))
    before = rates()
    done, measured = bench.beside(job)
    after = rates()
    best = {f"{name} GB/s": max(value, after[name]) for name, value in before.items()}
    seconds = float(done.weights["load_seconds"].max())
    beside, rate = max(best.values()), size / seconds / 1e9  # of copies: to memory that was used before, the faster kind
    suffix = "" if ranks == 1 else f", {ranks} ranks"
    detail = {"GB/s": rate, **best, "seconds": seconds, "GB": size / 1e9}
    bench.metric(f"load {kind} / {'O_DIRECT' if kind == 'cold' else 'copy'}{suffix}", rate / beside, "", detail, measured, name)
    if kind == "warm":
        owned = max(float(o) / float(p) for o, p in zip(done.weights["bytes_owned"], done.weights["bytes_planned"]))
        read = float(max(done.weights["bytes_read"].sum(), done.weights["bytes_touched"].sum()))
        bench.metric(f"bytes owned / planned{suffix}", owned, "", {}, measured, name)
        bench.metric(f"bytes read / file{suffix}", read / size, "", {"GB": read / 1e9}, measured, name)


def start(bench):
    """The quickstart job on 2 ranks, less what mpirun takes to start a program that does nothing."""
    mpirun = ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none"]
    job = [bench.args.binary, "run", ROOT / "jobs" / "quickstart.yaml", "--progress", "none", "--set", f"output.file={bench.folder / 'quick.h5'}"]
    times = {"nothing": [], "job": []}

    def all_of_them():
        for turn in range(6):
            for name, words in (("nothing", ["true"]), ("job", job)):
                begin = time.perf_counter()
                run([*mpirun, *words])
                if turn:
                    times[name].append(time.perf_counter() - begin)

    _, measured = bench.beside(all_of_them)
    nothing, whole = (statistics.median(times[name]) for name in ("nothing", "job"))
    bench.metric("start beyond mpirun", whole - nothing, "s", {"mpirun": nothing, "job": whole}, measured)


def steps(bench):
    """What a step of 64 sequences takes beside the model: the same step of a model that computes next to nothing, as a
    share of that of one of 1.1 billion parameters. Its own little computing counts, so the truth is a bit lower."""
    for vocab in (32000, 152000):
        def both(vocab=vocab):
            prompts = prompts_of([4] * 64, [12] * 64, vocab)
            nothing = bench.job(shape(32, 1, 1, 1, 32, vocab), prompts)
            return nothing, bench.job({**MIDDLE, "vocab_size": vocab}, prompts)

        (nothing, whole), measured = bench.beside(both)
        mine, step = nothing.step_seconds(64), whole.step_seconds(64)
        detail = {"ms": 1e3 * mine, "whole step, ms": 1e3 * step,
                  "of it sampling, ms": 1e3 * float(nothing.time["sampling"][0]) / len(nothing.steps["t"])}
        bench.metric(f"step beside compute, {vocab}", mine / step, "", detail, measured)


def context(bench):
    """Attention over long contexts, of a model whose cache is far larger than its weights."""
    config = shape(2048, 4, 32, 32, 512, 2048)
    model = Weights(config)
    prompts = prompts_of(CONTEXTS, [17] * len(CONTEXTS), 2048)
    done, measured = bench.beside(lambda: bench.job(config, prompts, max_num_seqs=1, max_model_len=max(CONTEXTS) + 32))
    read_rate, compute = peak(measured)
    ran = dict(zip(sorted(CONTEXTS, reverse=True), done.sequences()))  # the longest first
    for n in CONTEXTS[1:]:
        more = ran[n][1] - ran[CONTEXTS[0]][1]  # of a step, beyond one over few positions
        rate = (n - CONTEXTS[0]) * model.kv_position / more / 1e9
        plausible(bench, f"cache read at {n}", rate / read_rate, "", {"GB/s": rate, "ms a token": 1e3 * ran[n][1]}, measured)
    # four prompts of a quarter have the same products, and a quarter of the pairs
    flop = (CONTEXTS[2] ** 2 - 4 * CONTEXTS[1] ** 2) / 2 * model.attention_pair
    seconds = ran[CONTEXTS[2]][0] - 4 * ran[CONTEXTS[1]][0]
    plausible(bench, "prefill attention / peak", flop / seconds / 1e9 / compute, "", {"GFLOP/s": flop / seconds / 1e9, "s": seconds}, measured)


def plausible(bench, name, value, *rest):
    """A metric that is a difference of times: on a busy machine it may come out as nonsense."""
    if value > 0:
        bench.metric(name, value, *rest)
    else:
        say(f"{name}: left out, the longer one took less time than the shorter one; is the machine busy?")


def allreduce(bench):
    """The program's reduce against MPI_Allreduce of the same sums."""
    program = built(bench, "bench_allreduce")
    for ranks in (2, 4) if program else ():
        bind = ["--bind-to", "core"] if ranks <= (os.cpu_count() or 1) else ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        text, measured = bench.beside(lambda: run(["mpirun", "-np", ranks, "--oversubscribe", *bind, program]))  # noqa: B023
        for line in map(json.loads, text.splitlines()):
            kind = "" if line["sums"] == "float64" else ", float32 sums"
            size = f"{line['bytes'] >> 10} KB" if line["bytes"] >= 1024 else f"{line['bytes']} B"
            bench.metric(f"all-reduce {size}, {ranks} ranks{kind}", line["ratio"], "", {"own us": line["own_us"], "MPI us": line["mpi_us"]}, measured)


def matmul(bench):
    """The products of 128 rows alone on one thread, of the best kernels, against the peak of one thread."""
    program = built(bench, "bench_matmul")
    if program is None:
        return
    text, measured = bench.beside(lambda: run([program, "--benchmark_filter=/bfloat16/[a-z0-9_]+/128/"]))
    best = {}
    for name, rate in re.findall(r"^(\d+x\d+)/bfloat16/\S+\s+exact / plain\s+\S+\s+([\d.]+) GFLOP/s", text, re.M):
        best[name] = max(best.get(name, 0), float(rate))
    if not best:
        raise SystemExit(f"{program} printed no product of 128 rows")
    limit = max(max(p["bf16_gflops_1"], p["fp32_gflops_1"]) for p in measured["probes"])
    bench.metric("matmul 128 rows / peak", min(best.values()) / limit, "", {f"{k} GFLOP/s": v for k, v in best.items()}, measured)


CASES = {f.__name__: f for f in (load, start, steps, context, allreduce, matmul)}
OF_A_MODEL = ("load",)
