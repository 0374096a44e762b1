"""Runs the programs of the peers kit and keeps their JSON lines."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from . import work

# of tpinfer, behind its ranks: what the job or the environment has besides
VARIANTS = {"off": ["--set", "engine.reproducible=off"], "full": ["--set", "engine.reproducible=full"], "avx2": [],
            "float16": ["--set", "model.dtype=float16"], "float32": ["--set", "model.dtype=float32"]}
BYTES = {"float32": 4}
PEERS = {"transformers": "", "deepspeed": "", "vllm": "", "vllm-eager": "--eager", "llamacpp": "", "llamacpp-mmap": "--load mmap", "openvino": ""}
SUFFIX = {"llamacpp": ".gguf", "openvino": "-ov"}
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
HELP = f"""PROGRAM-RANKS, and of tpinfer -VARIANT behind it. Programs: tpinfer, {', '.join(PEERS)}; variants: {', '.join(VARIANTS)}"""


class Program:
    """One entry of --programs, checked. `args`: peers, venvs, models, binary."""

    def __init__(self, name, args):
        self.name, self.args = name, args
        parts = name.split("-")
        self.variant = parts.pop() if parts[-1] in VARIANTS else ""
        ranks = parts.pop()
        self.kind = "-".join(parts)
        self.ours = self.kind == "tpinfer"
        if not ranks.isdigit() or not (self.ours or (self.kind in PEERS and not self.variant)):
            raise SystemExit(f"--programs: {name} is none; wanted: {HELP}")
        self.ranks = int(ranks)
        self.folder = self.kind.split("-")[0]
        if not self.ours and not args.venvs:
            raise SystemExit(f"--programs: {name} needs --venvs, the folder that the kit's setup_{self.folder}.sh filled")
        self.python = pathlib.Path(sys.executable) if self.ours else args.venvs / self.folder / "bin" / "python"
        if not self.python.exists():
            raise SystemExit(f"--programs: {name} is not installed: {self.python} is missing; {args.peers}/setup_{self.folder}.sh makes it")

    def model(self, name):
        path = self.args.models / name
        return path if self.ours else pathlib.Path(str(path) + SUFFIX.get(self.folder, ""))

    def command(self, model, cases):
        words = [str(self.python), str(self.args.peers / f"run_{self.folder}.py"), str(self.model(model)), "--name", model, "--tp", str(self.ranks),
                 "--cases", ",".join(cases), "--repeat", str(0 if self.ours else 1)]
        if self.ours:  # every one of its cases is a job of its own, so nothing is gained by a first one
            return [*words, "--binary", self.args.binary, *VARIANTS.get(self.variant, [])]
        return words + PEERS[self.kind].split()

    def environment(self):
        env = dict(os.environ, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", KMP_BLOCKTIME="1")
        if self.ours:
            env.update(MPI)
            if self.variant == "avx2":
                env["TPINFER_ISA"] = "avx2"
        elif self.folder in ("transformers", "deepspeed", "vllm"):
            preload = [tcmalloc(), str(self.args.venvs / self.folder / "lib" / "libiomp5.so")]
            env["LD_PRELOAD"] = ":".join(p for p in preload if p and pathlib.Path(p).exists())
            if self.folder != "vllm":
                env["KMP_AFFINITY"] = "granularity=fine,compact,1,0"
        return env


def tcmalloc():
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    return next((line.split()[-1] for line in listed.splitlines() if "libtcmalloc_minimal.so.4" in line), "")


def build_probe(peers, folder):
    """Path of the kit's probe, built for this processor."""
    out = pathlib.Path(folder) / "probe"
    done = subprocess.run(["g++", "-O3", "-march=native", "-std=c++20", "-pthread", str(peers / "probe.cpp"), "-o", str(out)],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{peers}/probe.cpp does not build: {done.stderr[-400:]}")
    return out


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def this_machine():
    with open("/proc/cpuinfo") as f:
        name = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "processor without a name")
    return f"{name}, {os.cpu_count()} cores"


class Writer:
    """Appends lines to the results, each with the round that it belongs to."""

    def __init__(self, path, first_round):
        self.path, self.round, self.machine = path, first_round, this_machine()

    def add(self, line):
        line = {**line, "round": self.round, "machine": self.machine, "taken": time.strftime("%Y-%m-%dT%H:%M:%S")}
        with open(self.path, "a") as f:
            f.write(json.dumps(line) + "\n")
        if line.get("other_load", 0) > 0.5:
            say(f"warning: others used {line['other_load']} cores beside {line.get('case') or line.get('metric') or line.get('curve')}")


def run_cases(program, model, cases, common, writer, limit):
    """Runs the cases in one process, as the kit does, and keeps its lines with the work that they stand for."""
    weights = work.weights_of(program.args.models / model, BYTES.get(program.variant, 2))
    if not program.model(model).exists():
        say(f"{program.name}: {program.model(model)} is missing, left out (the kit's README says how it is made)")
        return
    say(f"round {writer.round}: {program.name}, {model}: {','.join(cases)}")
    with tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(program.command(model, cases), env=program.environment(), stdout=subprocess.PIPE, stderr=err, text=True,
                                   cwd=program.args.peers, start_new_session=True)
        status = collect(process, program, model, weights, common, writer, limit)
        if status:
            err.seek(0)
            writer.add({"id": program.name, "model": model, "failed": status})
            why = f"ended after {limit:.0f} s (--limit)" if status == 124 else f"failed, exit status {status}"
            say(f"{program.name} on {model} {why}: {err.read()[-1500:].strip()}")


def collect(process, program, model, weights, common, writer, limit):
    """-> exit status; 124 when the time was over."""
    over = False
    try:
        text = process.communicate(timeout=limit)[0]
    except BaseException as reason:  # also when the user ends this program: the other one must not go on
        os.killpg(process.pid, signal.SIGTERM)  # its own session: nothing but this run is in it
        over = isinstance(reason, subprocess.TimeoutExpired)
        if not over:
            raise
        try:
            text = process.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text = process.communicate()[0]
    for line in [json.loads(part) for part in text.splitlines() if part.startswith("{") and part.endswith("}")]:
        prompts, new = common.case(line["case"], weights.vocab)
        line["work"] = weights.case([len(p) for p in prompts], new)
        line["decode_work"] = [*weights.step(len(new), len(new)), 1 / len(new)] if line.get("decode_tokens_per_s") else None
        writer.add({**line, "id": program.name, "model": model})
    return 124 if over else process.returncode
