"""Random combinations of a tokenizer.json's options beside Hugging Face's `tokenizers`: ids and decoded texts must agree.

    tokenizer_options.py [--first SEED] [--count N]      TPINFER: the program; needs the Python package `tokenizers`

Each round takes one of the small models of tests/data/tokenizers, gives it random normalizers, pre-tokenizers, decoders and
flags, and encodes texts of the reference data and texts full of added tokens. Left out, as the reference has no one answer or
an older table: added tokens that normalize to the same text (which one it finds differs from run to run), decoding of tokens
with normalized=true (a fault of 0.23), characters younger than Python's own Unicode, and Metaspace's scheme "first" behind
steps that change where a text begins.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

try:
    import tokenizers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "tokenizers"
TPINFER = os.environ.get("TPINFER", str(ROOT / "build" / "release" / "bin" / "tpinfer"))
MARK = "\u2581"
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
REGEXES = [r"\s+", r"\d{1,3}", "[A-Z]", r"\p{L}+|\p{N}", r" ?[^(\s|[.,!?…。，、।۔،])]+", "(?=a)", "x*", WORDS, r"\p{Han}|\p{Hiragana}",
           "[\r\n]", r"\p{L}+|\p{N}{1,3}"]
MOVES_THE_START = {"StripAccents", "Strip", "Prepend", "Replace"}


def coin(rng):
    return rng.random() < 0.5


def pattern(rng):
    return {"Regex": rng.choice(REGEXES)} if coin(rng) else {"String": rng.choice([" ", "a", MARK, "ll", ","])}


def normalizer(rng):
    kind = rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Prepend", "Replace", "Strip"])
    more = {"Prepend": lambda: {"prepend": rng.choice([MARK, "x", "é "])},
            "Replace": lambda: {"pattern": pattern(rng), "content": rng.choice([MARK, "", " ", "ab", "\u0301"])},
            "Strip": lambda: {"strip_left": coin(rng), "strip_right": coin(rng)}}
    return {"type": kind, **more.get(kind, dict)()}


def byte_level(rng):
    return {"add_prefix_space": coin(rng), "trim_offsets": True, "use_regex": coin(rng)}


def metaspace(rng, marks):
    return {"replacement": rng.choice(marks), "prepend_scheme": rng.choice(["always", "first", "never"]), "split": coin(rng)}


def pre_tokenizer(rng):
    kind = rng.choice(["ByteLevel", "Split", "Split", "Split", "Metaspace", "Metaspace", "Digits", "Whitespace", "WhitespaceSplit",
                       "Punctuation", "CharDelimiterSplit"])
    more = {"ByteLevel": lambda: byte_level(rng), "Metaspace": lambda: metaspace(rng, [MARK, MARK, "_"]),
            "Split": lambda: {"pattern": pattern(rng), "behavior": rng.choice(BEHAVIORS), "invert": coin(rng)},
            "Digits": lambda: {"individual_digits": coin(rng)}, "Punctuation": lambda: {"behavior": rng.choice(BEHAVIORS)},
            "CharDelimiterSplit": lambda: {"delimiter": rng.choice([" ", "a", MARK])}}
    return {"type": kind, **more.get(kind, dict)()}


def decoder(rng):
    kind = rng.choice(["ByteLevel", "Metaspace", "Replace", "Replace", "ByteFallback", "Fuse", "Strip", "Strip"])
    more = {"ByteLevel": lambda: byte_level(rng), "Metaspace": lambda: metaspace(rng, [MARK]),
            "Replace": lambda: {"pattern": pattern(rng), "content": rng.choice([" ", "", "--"])},
            "Strip": lambda: {"content": rng.choice([" ", "a", MARK]), "start": rng.randint(0, 2), "stop": rng.randint(0, 2)}}
    return {"type": kind, **more.get(kind, dict)()}


def sequence(rng, make, key, most):
    steps = [make(rng) for _ in range(rng.randint(0, most))]
    return {"type": "Sequence", key: steps} if len(steps) > 1 else steps[0] if steps else None


def steps_of(part):
    lists = [value for value in (part or {}).values() if isinstance(value, list)]
    return [step for steps in lists for step in steps] if lists else [part] if part else []


def random_document(rng, bases):
    document = json.loads(rng.choice(bases))
    for name, make, key, most in (("normalizer", normalizer, "normalizers", 3), ("pre_tokenizer", pre_tokenizer, "pretokenizers", 3),
                                  ("decoder", decoder, "decoders", 4)):
        if rng.random() < 0.8:
            document[name] = sequence(rng, make, key, most)
    cuts = steps_of(document["pre_tokenizer"])
    prefixed = [step for step in cuts if step["type"] in ("Metaspace", "ByteLevel")]
    if len(prefixed) > 1 or any(step["type"] in MOVES_THE_START for step in steps_of(document["normalizer"])):
        for step in cuts:
            if step.get("prepend_scheme") == "first":
                step["prepend_scheme"] = "always"
    model = document["model"]
    if model["type"] in ("BPE", "Unigram"):
        model["byte_fallback"] = coin(rng)
    if model["type"] == "BPE":
        model.update(fuse_unk=coin(rng), ignore_merges=coin(rng))
        if coin(rng):
            model["unk_token"] = rng.choice([None, *({"<unk>"} & set(model["vocab"]))])
    for token in document["added_tokens"]:
        for flag in ("lstrip", "rstrip", "single_word", "normalized", "special"):
            if rng.random() < 0.3:
                token[flag] = coin(rng)
    return document


def ask(folder, key, values, answer):
    lines = "".join(json.dumps({key: value}) + "\n" for value in values)
    run = subprocess.run([TPINFER, "tokenize", folder, "--jsonl", "-"], input=lines.encode(), capture_output=True)
    return run, [json.loads(line)[answer] for line in run.stdout.decode().splitlines()]


def collides(theirs, added):
    spelt = [t["content"] if not t["normalized"] or not theirs.normalizer else theirs.normalizer.normalize_str(t["content"])
             for t in added]
    return len(set(spelt)) < len(spelt) or "" in spelt


def compare(rng, folder, bases, texts):
    """-> "same", or what differs, beginning with one word."""
    document = random_document(rng, bases)
    added = document["added_tokens"]
    texts = rng.sample(texts, 40)
    bits = [t["content"] for t in added] * 2 + [" ", "  ", "a", "é", "\n"]
    texts += ["".join(rng.choice([rng.choice(bits), rng.choice(texts)[:12]]) for _ in range(8)) for _ in range(10)]
    pathlib.Path(folder, "tokenizer.json").write_text(json.dumps(document))
    try:
        theirs = tokenizers.Tokenizer.from_str(json.dumps(document))
        if collides(theirs, added):
            return "collision"
        want = [theirs.encode(text).ids for text in texts]
    except BaseException as error:  # it panics on some documents and texts
        return f"refused by the reference: {error}"
    run, ids = ask(folder, "text", texts, "ids")
    if run.returncode:
        return f"REFUSED {run.stderr.decode()}"
    for text, ours, ref in zip(texts, ids, want):
        if ours != ref:
            return f"IDS of {text!r}: {ours}, not {ref}"
    known = sorted(theirs.get_vocab().values())
    sequences = want[:25] + [[rng.choice(known) for _ in range(rng.randint(1, 12))] for _ in range(25)]
    run, decoded = ask(folder, "ids", sequences, "text")
    if run.returncode:
        return f"REFUSED {run.stderr.decode()}"
    spoilt = {t["id"] for t in added if t["normalized"] and document["normalizer"]}
    for sequence_ids, ours in zip(sequences, decoded):
        if spoilt & set(sequence_ids):
            continue
        try:
            ref = theirs.decode(sequence_ids, skip_special_tokens=False)
        except BaseException as error:
            return f"refused by the reference: {error}"
        if ours != ref:
            return f"TEXT of {sequence_ids}: {ours!r}, not {ref!r}"
    return "same"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    args = parser.parse_args()
    bases = [file.read_text() for file in sorted(DATA.glob("*/tokenizer.json"))]
    texts = {json.loads(line)["text"] for file in DATA.glob("*/golden.jsonl") for line in file.open()}
    texts = sorted(t for t in texts if len(t) < 400 and not any(unicodedata.category(c) == "Cn" for c in t))
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.first, args.first + args.count):
            found = compare(random.Random(seed), folder, bases, texts)
            counts[found.split()[0]] += 1
            if found.split()[0].isupper():
                print(f"seed {seed}: {found[:600]}", flush=True)
    print(dict(counts))
    return 1 if any(word.isupper() for word in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
