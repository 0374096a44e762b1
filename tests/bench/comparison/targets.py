"""What the program is to reach, as data, and whether it does."""
import dataclasses

from . import results

LLAMA, MIXTURE, SHARED_EXPERT = "tinyllama-1.1b", "moe-1.6b", "qwen2moe-1b"
OURS = "tpinfer-1"


@dataclasses.dataclass(frozen=True)
class Target:
    """`figure` of a case, or of a metric; where `than` names a program, its ratio to that program in the same round."""
    what: str
    limit: float
    model: str = ""
    case: str = ""
    metric: str = ""
    figure: str = "share"
    than: str = ""
    program: str = OURS
    at_most: bool = False
    upside_down: bool = False  # the ratio of times rather than of rates

    def values(self, found):
        if self.metric:
            return list(results.by_round(found.metrics.get((self.metric, self.model), []), "value").values())
        ours = found.cases.get((self.model, self.case, self.program), [])
        if not self.than:
            return list(results.by_round(ours, self.figure).values())
        ratios = results.ratios(ours, found.cases.get((self.model, self.case, self.than), []), self.figure)
        return [1 / r for r in ratios] if self.upside_down else ratios

    def met(self, median):
        return median <= self.limit if self.at_most else median >= self.limit

    def bound(self):
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


def against(what, model, case, figure, **limits):
    """One target for each program."""
    return [Target(f"{what} / {program}", limit, model, case, figure=figure, than=f"{program}-{2 if program == 'deepspeed' else 1}",
                   program="tpinfer-2" if program == "deepspeed" else OURS) for program, limit in limits.items()]


def dense():
    model = LLAMA
    rows = [Target("decode, 1 sequence: share of the read rate", 0.90, model, "decode1", figure="decode_share"),
            *against("decode, 1 sequence", model, "decode1", "decode", llamacpp=1.1, vllm=1.3, openvino=1.3),
            Target("product of 128 rows alone, one thread: share of the peak", 0.93, metric="matmul 128 rows / peak"),
            Target("prefill of 512 tokens: share of the floor", 0.90, model, "prefill512"),
            *against("prefill of 512 tokens", model, "prefill512", "prefill", vllm=1.03, llamacpp=1.35)]
    for count, part, vllm in ((16, 0.80, 1.1), (32, 0.86, 1.08), (64, 0.90, 1.08)):
        rows += [Target(f"{count} sequences: share of the floor", part, model, f"batch{count}"),
                 *against(f"{count} sequences", model, f"batch{count}", "output", vllm=vllm)]
    rows += [Target("mixed job: share of the floor", 0.88, model, "job"), *against("mixed job after loading", model, "job", "output", vllm=1.08),
             *against("mixed job with loading", model, "job", "with_loading", openvino=1.1, vllm=1.9, deepspeed=3, transformers=2)]
    for case, figure, name in (("decode1", "decode", "decode"), ("prefill512", "prefill", "prefill"), ("job", "output", "mixed job")):
        rows += [Target(f"{name}: 2 ranks x 1 thread / 1 rank x 2 threads", 0.97, model, case, figure=figure, program="tpinfer-2", than=OURS),
                 Target(f"{name}: time with reproducible full / off", 1.05, model, case, figure=figure, than="tpinfer-1-off", at_most=True,
                        upside_down=True)]
    return rows + [Target(f"decode with {dtype} weights: share of the read rate", 0.85, model, "decode1", figure="decode_share",
                          program=f"tpinfer-1-{dtype}") for dtype in ("float16", "float32")]


def mixture(model, name):
    return [Target(f"{name}, decode: share of the read rate", 0.80, model, "decode1", figure="decode_share"),
            *against(f"{name}, decode", model, "decode1", "decode", llamacpp=1.3),
            Target(f"{name}, prefill: share of the floor", 0.80, model, "prefill512"),
            *against(f"{name}, prefill", model, "prefill512", "prefill", transformers=1.3),
            Target(f"{name}, 16 sequences: share of the floor", 0.70, model, "batch16"),
            *against(f"{name}, 16 sequences", model, "batch16", "output", vllm=1.3),
            Target(f"{name}, mixed job: share of the floor", 0.70, model, "job"),
            *against(f"{name}, mixed job", model, "job", "output", vllm=1.7, deepspeed=3.5)]


def others():
    rows = [Target(f"all-reduce of {size} KB, {ranks} ranks: time / MPI_Allreduce{' that yields' if ranks > 2 else ''}",
                   0.8 if size == 64 and ranks == 2 else 0.5, metric=f"all-reduce {size} KB, {ranks} ranks", at_most=True)
            for ranks in (2, 4) for size in (4, 16, 64)]
    rows += [Target("load, cold / O_DIRECT read of the file", 0.90, LLAMA, metric="load cold / O_DIRECT"),
             Target("load, warm / copy rate", 0.85, LLAMA, metric="load warm / copy"),
             Target("bytes owned by a rank / of its slice", 1.02, LLAMA, metric="bytes owned / planned", at_most=True),
             Target("bytes read by the host / of the file", 1.05, LLAMA, metric="bytes read / file", at_most=True)]
    rows += [Target(f"decode at {n:,} tokens: cache bytes read / read rate", 0.80, metric=f"cache read at {n}") for n in (4096, 16384)]
    return rows + [Target("attention of long prompts / peak", 0.6, metric="prefill attention / peak"),
                   Target("quickstart job beyond mpirun's own start, s", 0.5, metric="start beyond mpirun", at_most=True),
                   *(Target(f"sampling, scheduling, output of a step of 64, vocabulary {vocab:,}", limit, at_most=True,
                            metric=f"step beside compute, {vocab}") for vocab, limit in ((32000, 0.03), (152000, 0.06)))]


def all_targets():
    return dense() + mixture(MIXTURE, "8 experts") + mixture(SHARED_EXPERT, "60 experts") + others()


def cases_of(model, program):
    """Those that a target needs of a program; of tpinfer without one, the two short ones."""
    needed = {target.case for target in all_targets() if target.model == model and target.case and program in (target.program, target.than)}
    return needed or ({"decode1", "prefill512"} if program.startswith("tpinfer") else set())
