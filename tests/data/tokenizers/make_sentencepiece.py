#!/usr/bin/env python3
"""Writes the sentencepiece-* folders (a small tokenizer.model with its settings and no tokenizer.json) and the unigram-*
folders (a tokenizer.json), and what the reference makes of some strings. Needs: pip install transformers==4.46.3
sentencepiece protobuf (made with 0.2.3 and tokenizers 0.20.3).

    make_sentencepiece.py [FOLDER]           default: the folder of this script
"""
import json
import os
import shutil
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as protobuf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = """the quick brown fox jumps over the lazy dog and the cat sat on the mat while it rained all day in the town
a tokenizer cuts text into pieces that a model knows and joins them again without losing anything
hello world this is a small text for a small model with numbers 1 2 3 10 20 300 and words words words
def function(argument): return argument + 1 # code has brackets { } [ ] ( ) and signs == != <= >=
le petit chat est sur la table et il mange du pain avec du beurre d\u00e9j\u00e0 vu \u00e0 la carte
der kleine Hund l\u00e4uft \u00fcber die Stra\u00dfe und sieht einen gro\u00dfen Baum mit gr\u00fcnen Bl\u00e4ttern"""
STRINGS = ["<s>Hi", "a</s> b", " <s> x", "<tool> y<tool>z", "the<tool>", "\u2581\u2581", "  ", "   a", "a\tb", "\t\t",
           "a<unk>b", "<unk><unk>x", "x\u0301", "<0x41>", "[MASK] tok", "q<extra>q", "hi<end_of_turn>", "\u65e5\u672c",
           "<pad>"]
# what the made-up table of characters turns into what: hexadecimal code points
RULES = ["FB01\t66 69", "2103\tB0 43", "BD\t31 2044 32", "65 301\tE9", "78 301\t78", "A0\t20", "9\t20", "200B\t",
         "1F984\t75 6E 69", "D A\t20", "4D\t6D"]
CHARSMAP_STRINGS = ["e\u0301e\u0301", "\r\n\r\na", "x\u0301\u0323", "M\u0301M", "\U0001f984\u00bd\u00bd", "a\u200bb",
                    "\ufb01\ufb01n", " <extra_1> <extra_0>", "\u2103 x\u0301 e\u0301\u0323"]
PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True}
MARKS = dict(PLAIN, byte_fallback=True, user_defined_symbols=["<tool>", "\u2581\u2581"], control_symbols=["<ctl>"])
BARE = dict(PLAIN, byte_fallback=True, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>",
            bos_piece="<bos>", eos_piece="<eos>", user_defined_symbols=["<start_of_turn>", "<end_of_turn>", "\u2581\u2581"])
NAMES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def train(file, scratch, **options):
    corpus, rules = os.path.join(scratch, "corpus"), os.path.join(scratch, "rules")
    with open(corpus, "w", encoding="utf-8") as f:
        f.write((CORPUS + "\n") * 8)
    with open(rules, "w", encoding="utf-8") as f:
        f.write("".join(rule + "\n" for rule in RULES))
    if "normalization_rule_name" not in options:
        options["normalization_rule_tsv"] = rules
    sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=os.path.join(scratch, "m"), hard_vocab_limit=False,
                                             minloglevel=2, num_threads=1, **options)
    shutil.move(os.path.join(scratch, "m.model"), file)


def pieces(file):
    model = protobuf.ModelProto()
    with open(file, "rb") as f:
        model.ParseFromString(f.read())
    return [(piece.piece, piece.score) for piece in model.pieces], model.normalizer_spec.precompiled_charsmap


def texts(more, count):
    with open(os.path.join(HERE, "flags-spm", "golden.jsonl")) as f:
        short = [text for text in (json.loads(line)["text"] for line in f) if len(text.encode()) <= 40]
    return STRINGS + more + short[::max(1, len(short) // count)][:count]


def golden(folder, tok, more=(), count=22):
    with open(os.path.join(folder, "golden.jsonl"), "w") as f:
        for text in texts(list(more), count):
            ids, plain = tok.encode(text).ids, tok.encode(text, add_special_tokens=False).ids
            f.write(json.dumps({"text": text, "ids": ids, "ids_no_special": plain,
                                "decoded": tok.decode(plain, skip_special_tokens=False),
                                "decoded_skip": tok.decode(ids, skip_special_tokens=True)}, separators=(",", ":")) + "\n")


def converted(out, scratch, name, options, files, model=None):
    folder = os.path.join(out, "sentencepiece-" + name)
    os.makedirs(folder, exist_ok=True)
    file = os.path.join(folder, "tokenizer.model")
    if model:
        shutil.copyfile(model, file)
    else:
        train(file, scratch, **options)
    for key, value in files.items():
        with open(os.path.join(folder, key + ".json"), "w") as f:
            json.dump(value, f)
    golden(folder, AutoTokenizer.from_pretrained(folder).backend_tokenizer)
    return file


def unigram(out, scratch, name, options, build, more):
    folder = os.path.join(out, "unigram-" + name)
    os.makedirs(folder, exist_ok=True)
    file = os.path.join(scratch, "tokenizer.model")
    train(file, scratch, model_type="unigram", **options)
    tok = build(*pieces(file))
    tok.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    golden(folder, tok, more)


def with_charsmap(vocab, charsmap):
    tok = Tokenizer(models.Unigram(vocab, 2, False))
    tok.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True),
                                           normalizers.Replace(Regex(" {2,}"), "\u2581")])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tok.decoder = decoders.Metaspace()
    tok.add_special_tokens(["<pad>", "</s>", "<unk>", "<extra_0>", "<extra_1>"])
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tok


def both_ends(vocab, _):
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + vocab[3:] + [("[MASK]", 0.0)]
    tok = Tokenizer(models.Unigram(vocab, 3, False))
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tok.decoder = decoders.Metaspace(prepend_scheme="always")
    tok.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("[MASK]", lstrip=True, special=True)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tok


def main(out):
    with tempfile.TemporaryDirectory() as scratch:
        config = dict(NAMES, tokenizer_class="LlamaTokenizer")
        model = converted(out, scratch, "bpe", dict(MARKS, model_type="bpe", vocab_size=420),
                          {"tokenizer_config": dict(config, legacy=True)})
        converted(out, scratch, "bpe-added", None, {
            "tokenizer_config": dict(config, tokenizer_class="LlamaTokenizerFast", legacy=False, add_eos_token=True),
            "added_tokens": {"[MASK]": 421, "<extra>": 420},
            "special_tokens_map": {"bos_token": "<s>", "mask_token": {"content": "[MASK]", "lstrip": True, "normalized": False,
                                                                      "rstrip": False, "single_word": False},
                                   "additional_special_tokens": ["<tool>"]}}, model)
        converted(out, scratch, "bare", dict(BARE, model_type="bpe", vocab_size=420), {"tokenizer_config": dict(
            tokenizer_class="GemmaTokenizer", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>")})
        converted(out, scratch, "unigram", dict(MARKS, model_type="unigram", vocab_size=420),
                  {"tokenizer_config": dict(config, add_bos_token=False, add_prefix_space=False)})
        unigram(out, scratch, "charsmap", dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, vocab_size=300), with_charsmap,
                CHARSMAP_STRINGS)
        unigram(out, scratch, "both-ends", dict(normalization_rule_name="identity", vocab_size=250), both_ends,
                ["the [MASK] is", "the  [MASK][MASK]"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else HERE)
