"""Find out which prompts of a stage begin like prompts that were sent before.

This is not measured, but computed from the spec: from the generator and seed of random datasets,
and from test requests. It assumes that only the run sent prompts, and that the server kept
everything in its cache. So the result is the most that a prefix cache can find. It is shown beside
what the server found.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchrun_client.contract import length_range
from benchrun_client.contract.datasets import RandomData
from benchrun_client.engines import Engine, EngineSetting

from benchrun.api import (
    BenchmarkRunSpec,
    Explanation,
    Result,
    ServerStatus,
    Workload,
)
from benchrun.judge.rules.rule import Evidence, in_words
from benchrun.measure import ratio, rounded
from benchrun.plan import planned_stages, shared_seed
from benchrun.plan.old_vllm_stream import old_draws
from benchrun.plan.stages import PlannedStage

Family = tuple[str | int, ...]
"""Key of stages whose prompts begin alike: the n-th prompt of one like the n-th prompt of the
others."""


class Beginnings(NamedTuple):
    """How the prompts of one stage begin."""

    # Name of the generator; None if the prompts are no random words.
    generator: str | None
    requests: int
    test_request: bool
    sent_before: tuple[str, ...]
    """Earlier stages with prompts that begin alike, in order of sending."""
    # Percent of the prompt tokens that are in whole blocks sent before.
    percent: float | None


class _Prompts(NamedTuple):
    """The prompts of one stage, in order of sending."""

    family: Family | None  # None if the prompts of no other stage begin alike.
    tokens: Sequence[int]


class _Sent(NamedTuple):
    """The prompts that the stages of a family have sent so far."""

    stages: list[str]
    tokens: list[int]  # Longest prompt sent in tokens, by the number of the prompt.


def beginnings(
    spec: BenchmarkRunSpec, *, last: str, block_tokens: int
) -> dict[str, Beginnings]:
    """Return how the prompts of each stage begin, by stage id, up to the `last` measured stage.

    Stages are in the order of the plan. A stage without random prompts and without a test request
    is left out, because nothing is known of it.
    """
    sent: dict[Family, _Sent] = {}
    found: dict[str, Beginnings] = {}
    for stage in planned_stages(spec, run_uid=""):
        if spec.measurement.cache_policy == "Reset":
            sent.clear()
        if (data := _random(stage.workload)) is not None:
            found[stage.id] = _of_stage(spec, stage, data, sent, block_tokens)
        elif stage.workload.test_request:
            found[stage.id] = Beginnings(None, stage.requests, True, (), None)
        if stage.id == last:
            break
    return found


def _of_stage(
    spec: BenchmarkRunSpec,
    stage: PlannedStage,
    data: RandomData,
    sent: dict[Family, _Sent],
    block_tokens: int,
) -> Beginnings:
    """Return how the prompts of one stage begin, and add its prompts to `sent`."""
    prompts = _prompts(spec, stage, data)
    before = sent.get(prompts.family) if prompts.family is not None else None
    known = [] if before is None else before.tokens[: len(prompts.tokens)]
    cached = [*known, *([0] * (len(prompts.tokens) - len(known)))]
    if stage.workload.test_request:
        cached[0] = prompts.tokens[0]
    found = Beginnings(
        generator=_name(data),
        requests=stage.requests,
        test_request=stage.workload.test_request,
        sent_before=() if before is None else tuple(before.stages),
        percent=_percent(prompts.tokens, cached, block_tokens),
    )
    if prompts.family is not None:
        _remember(
            sent.setdefault(prompts.family, _Sent([], [])), stage.id, prompts.tokens
        )
    return found


def _random(workload: Workload) -> RandomData | None:
    data = workload.dataset.single  # None for a mix.
    return data if isinstance(data, RandomData) else None


def _name(data: RandomData) -> str:
    return (
        "benchrun"
        if data.generator == "Distinct"
        else f"vLLM {data.version or '0.32'}"
    )


def _prompts(
    spec: BenchmarkRunSpec, stage: PlannedStage, data: RandomData
) -> _Prompts:
    workload = stage.workload.name
    seed = data.seed if data.generator == "VLLM" else None
    if seed is None and spec.measurement.cache_policy == "Share":
        seed = shared_seed(base=spec.measurement.seed, workload=workload)
    fixed = _Prompts(None, [data.input.mean] * stage.requests)
    if data.generator == "Distinct":
        family: Family = ("Distinct", workload)
        return fixed if seed is None else fixed._replace(family=family)
    if data.version != "0.9":
        return fixed if seed is None else fixed._replace(family=("0.32", seed))
    if seed is None:
        return fixed  # The mean of the lengths drawn.
    ranges = (
        length_range(tokens or 1, data.range_ratio)
        for tokens in (data.input_tokens, data.output_tokens)
    )
    drawn = old_draws(*ranges, seed=seed, requests=stage.requests)
    return _Prompts(("0.9", seed, drawn.place), drawn.inputs)


def _percent(
    tokens: Sequence[int], cached: Sequence[int], block: int
) -> float | None:
    """Return the percentage of the tokens that a cache may hold, in whole blocks.

    The last block of a prompt never counts, because the last token is always computed.
    """
    whole = sum(tokens)
    found = sum(
        max(0, min(known, own - 1)) // block * block
        for own, known in zip(tokens, cached, strict=True)
    )
    return 100 * found / whole if whole else None


def _remember(sent: _Sent, stage: str, tokens: Sequence[int]) -> None:
    sent.stages.append(stage)
    kept = len(sent.tokens)
    for place, length in enumerate(tokens[:kept]):
        sent.tokens[place] = max(sent.tokens[place], length)
    sent.tokens.extend(tokens[kept:])


def block_tokens_of(engine: Engine, servers: Sequence[ServerStatus]) -> int:
    """Return the block size that the servers report, else the engine's default."""
    texts = [
        engine.reported(EngineSetting.BLOCK_TOKENS, server.reported) or ""
        for server in servers
    ]
    sizes = [int(text) for text in texts if text.isdecimal() and len(text) < 6]
    return max(1, *sizes) if sizes else engine.default_block_tokens


_GENERATORS: Mapping[str, str] = {
    "vLLM 0.9": "how they begin depends on both lengths and on their number",
    "vLLM 0.32": "with one seed they begin alike at every length",
    "benchrun": "none begins like another",
}
_SENTENCE = (
    "[Prompts by the random generator of {generator}: {begins}.][ {tested}.][ "
    "Prompts that begin alike were sent before by {earlierLoadPoint}.][ Of the "
    "prompt tokens {computedPercent} % were sent before.][ In the last repeat "
    "{laterPercent} % were.][ The server found {hitPercent} % in its cache.][ "
    "{off}.][ {means}.]"
)
_OWN = "benchrun"
_MEANS: Mapping[str, str] = {
    "SentBefore": "A server with a prefix cache need not compute beginnings that "
    "were sent before",
    "TestRequest": "The other prompts are new: they are computed",
    "NewPrompts": "All are new: they are computed",
}


def with_beginnings(
    rows: Sequence[Result],
    found: Mapping[str, Beginnings],
    stages: Mapping[str, Sequence[str]],
) -> list[Result]:
    """Return the rows, with an explanation of whether prompts began like earlier ones.

    A row gets one if vLLM's generator made its prompts, or if a test request was sent. `stages` has
    the measured stages of each load point, in the order of repeats.
    """
    return [
        _explained(row, [found[s] for s in stages[row.load_point] if s in found])
        for row in rows
    ]


def _explained(row: Result, repeats: Sequence[Beginnings]) -> Result:
    if not repeats or (
        repeats[0].generator in (None, _OWN) and not repeats[0].test_request
    ):
        return row
    first, *later = repeats
    hits = row.by_repeat.get("prefix_hit_tokens", [0.0])[0]
    queries = row.by_repeat.get("prefix_query_tokens", [None])[0]
    evidence: Evidence = {
        "generator": first.generator,
        "testRequest": "true" if first.test_request else "false",
        "requests": first.requests,
        "earlierLoadPoint": _earlier_load_point(first),
        "computedPercent": rounded(first.percent),
        "laterPercent": rounded(later[-1].percent) if later else None,
        "hitPercent": rounded(ratio(hits, queries, 100)),
    }
    answer = (
        "SentBefore"
        if first.sent_before
        else "TestRequest"
        if first.test_request
        else "NewPrompts"
    )
    known = {name: value for name, value in evidence.items() if value is not None}
    made = Explanation.model_validate(
        {
            "question": "Beginnings",
            "answer": answer,
            "sentence": _sentence(first, answer, known, is_off=queries == 0),
            "evidence": known,
        }
    )
    return row.model_copy(update={"explanations": [made, *row.explanations]})


def _earlier_load_point(of: Beginnings) -> str | None:
    """Return the last earlier load point whose prompts begin alike; None if there is none."""
    return of.sent_before[-1].rpartition("/")[0] if of.sent_before else None


def earlier_load_points(
    found: Mapping[str, Beginnings], stages: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Return for each load point an earlier one whose prompts began alike.

    Load points without such an earlier one are left out.
    """
    first = {
        load_point: found[ids[0]]
        for load_point, ids in stages.items()
        if ids and ids[0] in found
    }
    return {
        load_point: earlier
        for load_point, of in first.items()
        if (earlier := _earlier_load_point(of)) is not None
    }


def _sentence(
    of: Beginnings, answer: str, evidence: Evidence, *, is_off: bool
) -> str:
    words = dict(evidence)
    if of.generator is not None:
        words["begins"] = _GENERATORS[of.generator]
        words["means"] = _MEANS[answer]
    which = "the only prompt" if of.requests == 1 else "prompt 1"
    if of.test_request:
        words["tested"] = (
            f"A test request, which is not counted, sent {which} before each stage"
        )
    if of.test_request and of.requests == 1:
        words["means"] = "Its TTFT is that of a cached prompt"
    if is_off:
        words["off"] = (
            "The server looked nothing up, because its prefix cache is off"
        )
        words.pop("means", None)
    return in_words(_SENTENCE, words)
