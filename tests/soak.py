#!/usr/bin/env python3
"""A long job on a tiny model: memory stays flat, no descriptor and no segment of shared memory is left, also after kills.

soak.py [--prompts N] [--ranks 2,4] [--kills N]; TPINFER names the program. Needs h5py, numpy and /proc."""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import jobs

MODEL = "rand-llama-tied"
MOST_GROWTH = 0.02  # of a rank's anonymous memory, between a quarter and the end of the run


def records(count, seed):
    rng = random.Random(seed)
    prefixes = [[rng.randrange(3, 300) for _ in range(n)] for n in (8, 40, 90)]
    for i in range(count):
        start = rng.choice(prefixes) if rng.random() < 0.5 else []
        params = {"max_new_tokens": rng.randint(1, 40)}
        if rng.random() < 0.5:
            params.update(temperature=1.0, seed=i, top_p=0.9)
        yield {"id": f"p{i}", "token_ids": start + [rng.randrange(3, 300) for _ in range(rng.randint(1, 60))], "params": params}


def job(place, count, name="a.h5", **more):
    return place.job(MODEL, records(count, 1), output={"file": name, "if_exists": "resume", "flush_every": {"prompts": 64, "seconds": 1}},
                     parallel={"threads": 1}, engine={"max_num_seqs": 64, "max_num_batched_tokens": 512}, memory={"kv_cache": "4096 tokens"}, **more)


def ranks_of(process):
    return [int(p) for p in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()]


def anonymous(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return 0


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def job_number(pid):
    """Open MPI's number of the job that this rank belongs to, as it stands in the names of its shared memory; None when it has ended."""
    try:
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [w.split(b"=")[1] for w in words if w.startswith(b"PMIX_NAMESPACE=")]
    return f"{int(found[0]):x}" if found and found[0].isdigit() else None


def segments(numbers):
    """What runs with these job numbers have left in shared memory; other programs' names are their own affair."""
    return {p.name for p in pathlib.Path("/dev/shm").iterdir() if any(f".{n}." in p.name for n in numbers)}


def start(file, ranks):
    return subprocess.Popen(jobs.command(ranks, "run", file, "--progress", "lines"), env=jobs.ENV, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                            text=True, start_new_session=True)


class Watch:
    """Memory and descriptors of each rank of a run, from the first prompt's end to the last one's."""

    def __init__(self, process):
        self.process, self.samples, self.begin, self.end, self.numbers = process, [], 0.0, 0.0, set()
        self.ended = threading.Event()

    def run(self):
        """-> what the program said."""
        looking, text = None, []
        for line in self.process.stderr:
            text.append(line)
            if "prompts |" not in line:
                continue
            self.end = time.monotonic()
            if looking is None:
                self.begin = self.end
                pids = sorted(ranks_of(self.process))
                self.numbers = set(map(job_number, pids)) - {None}
                looking = threading.Thread(target=self.look, args=(pids,))
                looking.start()
        self.ended.set()
        if looking:
            looking.join()
        self.process.wait()
        return "".join(text)

    def look(self, pids):
        while not self.ended.wait(0.1):
            try:
                self.samples.append((time.monotonic(), [anonymous(p) for p in pids], [descriptors(p) for p in pids]))
            except OSError:  # the end
                return

    def late(self):
        """From a quarter of the run on."""
        return [s for s in self.samples if self.begin + 0.25 * (self.end - self.begin) <= s[0] <= self.end]


def check_flat(watch, ranks):
    late = watch.late()
    assert len(late) >= 10, f"only {len(late)} looks at the memory"
    for rank in range(ranks):
        memory, files = ([s[kind][rank] for s in late] for kind in (1, 2))
        growth = max(memory[-5:]) - memory[0]
        print(f"rank {rank} of {ranks}: anonymous {memory[0] / 1e6:.2f} MB at 25 %, {memory[-1] / 1e6:.2f} MB at the end ({growth / memory[0]:+.2%}), "
              f"descriptors {files[0]} and {files[-1]}; {len(late)} looks", flush=True)
        assert growth <= MOST_GROWTH * memory[0], f"rank {rank} grows"
        assert files[-1] <= files[0], f"rank {rank} opens more and more files"


def soak(count, ranks):
    with jobs.Workplace() as place:
        process = start(job(place, count), ranks)
        watch = Watch(process)
        text = watch.run()
        assert process.returncode == 0, text
        check_flat(watch, ranks)
        got = jobs.read(place.path / "a.h5")
        assert got["status"] == [0] * count and sorted(got["index"]) == list(range(count))
    assert watch.numbers, "the job's number is not known"
    assert not segments(watch.numbers), f"left in shared memory: {segments(watch.numbers)}"


def kill_and_go_on(count, kills, ranks):
    """Killed again and again at any moment, the job ends with all answers, and leaves nothing behind."""
    numbers, rng = set(), random.Random(7)
    with jobs.Workplace() as place:
        file = job(place, count)
        for _ in range(kills):
            process = start(file, ranks)
            deadline = time.monotonic() + 20
            while not ranks_of(process) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.2)
            numbers |= set(map(job_number, ranks_of(process))) - {None}
            time.sleep(rng.uniform(0, 4))
            pids = ranks_of(process)
            victim = rng.choice(pids) if pids else process.pid
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate(timeout=120)
            deadline = time.monotonic() + 10
            while any(pathlib.Path(f"/proc/{p}").exists() for p in pids) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not any(pathlib.Path(f"/proc/{p}").exists() for p in pids), "ranks are left behind"
        r = jobs.start(ranks, "run", file, "--progress", "none", timeout=3600)
        assert r.returncode == 0, r.stderr
        once = job(place, count, "once.h5")
        r = jobs.start(1, "run", once, "--progress", "none", timeout=3600)
        assert r.returncode == 0, r.stderr
        r = jobs.start(0, "diff", str(place.path / "a.h5"), str(place.path / "once.h5"))
        assert r.returncode == 0, r.stdout
    left = segments(numbers)
    assert numbers, "no job's number is known"
    print(f"{kills} kills on {ranks} ranks: the same answers, {len(left)} names left in /dev/shm")
    assert not left, left


def main():
    if len(sys.argv) == 1 and os.environ.get("TPINFER_LONG_TESTS") != "1":
        print("skipped: TPINFER_LONG_TESTS is not set")
        sys.exit(77)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=20000)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    for ranks in map(int, options.ranks.split(",")):
        soak(options.prompts, ranks)
        kill_and_go_on(max(1000, options.prompts // 10), options.kills, ranks)


if __name__ == "__main__":
    main()
