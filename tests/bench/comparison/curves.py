"""How cost grows: each function measures all places of its curves once and writes a line for each."""
from .bench import SMALL, prompts_of, shape
from .work import Weights

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 128, 129, 192, 256, 384, 512)
CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
STEPS = 5  # of each number of rows


def staggered(counts, vocab):
    """Prompts of 4 ids, so many that steps have each of the counts of rows, a few steps each."""
    new, count_before = [], 0
    for i, count in enumerate(counts):
        new += [STEPS * (len(counts) - i) + 1] * (count - count_before)
        count_before = count
    return prompts_of([4] * len(new), new, vocab)


def rows_points(bench, config, counts, curve, x_of, note, ranks=1):
    """One job whose sequences end a few at a time: a point for each number of rows. `x_of`: rows -> place."""
    prompts = staggered(counts, config["vocab_size"])
    done, measured = bench.beside(lambda: bench.job(config, prompts, ranks, max_num_seqs=max(512, counts[-1]), max_model_len=256))
    model = Weights(config)
    for count in counts:
        seconds = done.step_seconds(count)
        if seconds:
            bench.point(curve(count), x_of(count), seconds, count, [[*model.step(count, count), 1]], measured, note)


def rows(bench):
    rows_points(bench, SMALL, ROWS, lambda n: "rows", lambda n: n, "decode steps, 0.35 billion parameters")


def context(bench):
    config = shape(1024, 8, 16, 4, 2816, 8192)
    model = Weights(config)
    prompts = prompts_of(CONTEXTS, [17] * len(CONTEXTS), 8192)
    done, measured = bench.beside(lambda: bench.job(config, prompts, max_num_seqs=1, max_model_len=max(CONTEXTS) + 32))
    for n, (prompt, token) in zip(sorted(CONTEXTS, reverse=True), done.sequences()):
        bench.point("context of a decode step", n, token, 1, [[*model.step(1, 1, n), 1]], measured,
                    "0.1 billion parameters, 4 of 16 heads in the cache")
        read, flop = model.step(n, 1)
        bench.point("length of a prompt", n, prompt, n, [[read, flop + n * n / 2 * model.attention_pair, 1]], measured,
                    "its first token; tokens are those of the prompt; attention counted in the floor")


def ranks(bench):
    for count in (1, 2, 4):
        rows_points(bench, SMALL, (1, 16, 64), lambda n: f"ranks, {n} rows", lambda n: count,  # noqa: B023
                    "decode steps, 0.35 billion parameters, 2 threads on 1 rank, else 1 on each", count)


def layers(bench):
    for count in (1, 2, 4, 8, 16, 32):
        rows_points(bench, {**SMALL, "num_hidden_layers": count}, (1, 16, 64), lambda n: f"layers, {n} rows", lambda n: count,  # noqa: B023
                    "decode steps, hidden size 1,024; small ones lie in the processor's cache")


def vocabulary(bench):
    for count in (1000, 4000, 16000, 32000, 64000, 128000, 256000):
        rows_points(bench, shape(1024, 4, 16, 4, 2816, count), (1, 16, 64), lambda n: f"vocabulary, {n} rows", lambda n: count,  # noqa: B023
                    "decode steps, 4 layers, hidden size 1,024; small ones lie in the processor's cache")


CURVES = {f.__name__: f for f in (rows, context, ranks, layers, vocabulary)}
