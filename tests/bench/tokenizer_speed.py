"""Speed of encoding beside Hugging Face's `tokenizers`, one thread each, in turns within one run.

    tokenizer_speed.py BENCH FOLDER...       BENCH: the program bench_tokenizer; FOLDER: holds a tokenizer.json

Needs the Python package `tokenizers`. The text, 10 MB unless told, is program sources, English documentation and messages in
many languages, as this machine has them, cut into documents of 1 to 8 kB. Each round encodes all of it once
with either, the order of the two alternating; medians of the rounds and their ratio are printed, in CPU time, which a
busy machine disturbs least (two threads against one: in wall time). The ids must agree.
"""
import argparse
import array
import gettext
import glob
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers  # noqa: E402

SOURCES = {  # share of the text: files
    0.30: ["/usr/lib/python3*/**/*.py", "/usr/include/**/*.h*"],
    0.40: ["/usr/share/doc/**/*", "/usr/share/perl/**/*.pod", "/usr/share/vim/**/doc/*.txt",
           os.path.dirname(os.__file__) + "/**/*.txt"],
}
LANGUAGES = "/usr/share/locale/*/LC_MESSAGES/*.mo"


def read(path):
    if not os.path.isfile(path) or os.path.getsize(path) > 2_000_000:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (UnicodeDecodeError, OSError):
        return ""


def take(texts, size):
    out = []
    for text in texts:
        size -= len(text.encode())
        out.append(text)
        if size <= 0:
            break
    return out


def messages(path):
    try:
        with open(path, "rb") as file:
            catalogue = gettext.GNUTranslations(file)._catalog
    except (OSError, UnicodeDecodeError, ValueError):
        return ""
    return "\n".join(value for key, value in catalogue.items() if key and isinstance(value, str))


def documents(size):
    rng = random.Random(5)

    def shuffled(patterns):
        paths = sorted({path for pattern in patterns for path in glob.glob(pattern, recursive=True)})
        rng.shuffle(paths)
        return paths

    whole = []
    for share, patterns in SOURCES.items():
        whole += take((text[:60_000] for text in map(read, shuffled(patterns)) if text), size * share)
    whole += take(filter(None, map(messages, shuffled([LANGUAGES]))), size * 0.30)
    parts = []
    for text in whole:
        at = 0
        while at < len(text):
            length = rng.randint(1000, 8000)
            parts.append(text[at:at + length])
            at += length
    rng.shuffle(parts)
    return take(parts, size)


class Ours:
    def __init__(self, bench, folder, texts_file):
        self.run = subprocess.Popen([bench, folder, texts_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_seconds = float(self.run.stdout.readline())

    def ask(self, command):
        self.run.stdin.write(command + "\n")
        self.run.stdin.flush()
        return [float(word) for word in self.run.stdout.readline().split()[:2]]

    def ids(self, folder):
        path = os.path.join(folder, "ids")
        self.ask(f"write {path}")
        with open(path, "rb") as file:
            return array.array("i", file.read())

    def close(self):
        self.run.stdin.close()
        self.run.wait()


def theirs_pass(tokenizer, texts):
    begin = time.process_time()
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)  # the fast one: without offsets
    return time.process_time() - begin, encodings


def measure(args, folder, texts, scratch, texts_file):
    begin = time.perf_counter()
    theirs = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    load = time.perf_counter() - begin
    ours = Ours(args.bench, folder, texts_file)
    same = ours.ids(scratch) == array.array("i", (i for e in theirs_pass(theirs, texts)[1] for i in e.ids))
    times = {"ours": [], "theirs": []}
    for turn in range(args.rounds):
        order = ["ours", "theirs"] if turn % 2 else ["theirs", "ours"]
        for who in order:
            seconds = ours.ask("pass 1")[1] if who == "ours" else theirs_pass(theirs, texts)[0]
            times[who].append(seconds)
    one, two = (statistics.median(ours.ask(f"pass {n}")[0] for _ in range(3)) for n in (1, 2))
    ours.close()
    mid = {who: statistics.median(values) for who, values in times.items()}
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(f"| {os.path.basename(folder.rstrip('/'))} | {size / mid['ours']:.1f} | {size / mid['theirs']:.1f} | "
          f"{mid['theirs'] / mid['ours']:.2f} | {one / two:.2f} | {ours.load_seconds:.2f} | {load:.2f} | "
          f"{'yes' if same else 'NO'} |", flush=True)
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("bench")
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    texts = documents(args.megabytes * 1e6)
    with tempfile.TemporaryDirectory() as scratch:
        texts_file = os.path.join(scratch, "texts.json")
        with open(texts_file, "w", encoding="utf-8") as file:
            json.dump(texts, file)
        print(f"tokenizers {tokenizers.__version__}; {len(texts)} documents, {args.rounds} rounds")
        print("| tokenizer | ours, MB/s | theirs, MB/s | ratio | 2 threads / 1 | load, s | their load, s | same ids |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        same = [measure(args, folder, texts, scratch, texts_file) for folder in args.folders]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
