"""Runs one job for the benchmarks, outside of their measuring."""
import json
import os
import subprocess
import sys


def run_job(args, model, prompts, engine, folder, **model_keys):
    """The answers of (ids, new tokens) pairs into the result file that it returns. `args`: tpinfer, ranks, threads (of all ranks)."""
    with open(folder / "prompts.jsonl", "w") as f:
        for i, (ids, new) in enumerate(prompts):
            f.write(json.dumps({"id": str(i), "token_ids": ids, "params": {"max_new_tokens": new}}) + "\n")
    job = {"model": {"path": str(model), "generation_config": "none", **model_keys}, "prompts": {"file": "prompts.jsonl"},
           "sampling": {"temperature": 0, "ignore_eos": True}, "engine": engine, "parallel": {"threads": max(1, args.threads // args.ranks)},
           "output": {"file": "answers.h5", "if_exists": "overwrite"}, "run": {"log_level": "warning"}}
    (folder / "job.json").write_text(json.dumps(job))
    command = [args.tpinfer, "run", str(folder / "job.json"), "--progress", "none"]
    if args.ranks > 1:
        bind = "core" if args.ranks <= (os.cpu_count() or 1) else "none"
        command = ["mpirun", "-np", str(args.ranks), "--oversubscribe", "--bind-to", bind] + command
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr[-500:]}")
    return folder / "answers.h5"
