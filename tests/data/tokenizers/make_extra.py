#!/usr/bin/env python3
"""Writes the extra-* folders: pipelines that the other tokenizers here leave untried, and what the reference makes of
them. Needs: pip install tokenizers (made with 0.23.3).

    make_extra.py [FOLDER]           default: the folder of this script
"""
import json
import os
import sys

from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))


def read(name):
    with open(os.path.join(HERE, name, "tokenizer.json"), encoding="utf-8") as f:
        return json.load(f)


def words(suffix, prefix):
    """A small model over a to z with a mark on the last or on all but the first characters of a word."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + list("7.,'!-") + ["\u5b57"]
    tokens = ["<unk>"] + letters + [prefix + c + suffix for c in letters]
    merges = []
    for left, right in (("t", prefix + "h"), ("th", prefix + "e" + suffix), ("a", prefix + "n"), ("o", prefix + "r" + suffix),
                        ("an", prefix + "d" + suffix), ("l", prefix + "l")):
        merges.append([left, right])
        tokens.append(left + right[len(prefix):])
    return {"type": "BPE", "unk_token": "<unk>", "continuing_subword_prefix": prefix or None,
            "end_of_word_suffix": suffix or None, "vocab": {t: i for i, t in enumerate(dict.fromkeys(tokens))}, "merges": merges}


def build():
    base = {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None}
    yield "extra-word-suffix", base | {
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
            {"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "7"}, {"type": "Strip", "strip_left": True, "strip_right": True}]},
        "pre_tokenizer": {"type": "Whitespace"}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}, "model": words("</w>", "")}
    yield "extra-subword-prefix", base | {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "CharDelimiterSplit", "delimiter": "-"}]},
        "decoder": None, "model": words("", "##")}
    late = read("gemma-like")
    late["pre_tokenizer"] = {"type": "Split", "pattern": {"String": "ab"}, "behavior": "Contiguous", "invert": True}
    late["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "the"}, "content": "Z"},
        {"type": "Replace", "pattern": {"Regex": "\\s+$|b+"}, "content": "<>"}, {"type": "Strip", "content": "\u2581", "start": 2, "stop": 0}]}
    yield "extra-late-decoders", late
    marks = read("metaspace-always-split")
    marks["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "Digits", "individual_digits": True},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}]}
    marks["model"]["fuse_unk"] = False
    yield "extra-punctuation", marks
    first = read("metaspace-first-split")
    first["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"String": "e"}, "behavior": "MergedWithNext", "invert": False}, first["pre_tokenizer"]]}
    yield "extra-split-first", first


def main(out):
    texts = []
    with open(os.path.join(HERE, "flags-spm", "golden.jsonl")) as f:
        for line in f:
            texts.append(json.loads(line)["text"])
    for name, document in build():
        for token in document["added_tokens"]:  # 0.23 decodes normalized tokens to their normalized spelling
            token["normalized"] = False
        os.makedirs(os.path.join(out, name), exist_ok=True)
        with open(os.path.join(out, name, "tokenizer.json"), "w") as f:
            json.dump(document, f)
        tok = Tokenizer.from_str(json.dumps(document))
        with open(os.path.join(out, name, "golden.jsonl"), "w") as f:
            for text in texts[::2]:
                ids, plain = tok.encode(text).ids, tok.encode(text, add_special_tokens=False).ids
                f.write(json.dumps({"text": text, "ids": ids, "ids_no_special": plain,
                                    "decoded": tok.decode(plain, skip_special_tokens=False),
                                    "decoded_skip": tok.decode(ids, skip_special_tokens=True)}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else HERE)
