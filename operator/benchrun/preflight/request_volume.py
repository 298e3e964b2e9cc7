"""The volume of a run: its requests, their lengths, and how long it takes.

Also whether the requests are enough for the requested percentiles.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from benchrun_client import contract
from benchrun_client.contract import WHOLE_ANSWERS

from benchrun.api import (
    MIN_SERVERS_OF_PERCENTILES,
    BenchmarkRunSpec,
    Dataset,
    Workload,
    datasets_of,
)
from benchrun.measure import detectable_percent, power_sentence
from benchrun.plan import (
    certain_stages,
    estimate,
    gpus,
    load_points,
    most_probe_stages,
)
from benchrun.preflight.prices import gate_price, percentile_price, repeats_price
from benchrun.preflight.remark import Remark, error, not_checked, note, warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """How many stages, requests and GPU seconds a spec takes."""

    runs: int = 1
    """Number of runs, above 1 for a sweep; the other figures then add up all its runs."""
    stages: int
    requests: int
    # The stages that searches take at most; with them `stages` and `requests` are upper bounds.
    probe_stages: int
    # The same of `repeats: Auto`: the stages beyond the first repeat.
    repeated_stages: int = 0
    gpus: int  # GPUs of one run; for a sweep, of the run that has the most.
    open_stages: (
        int  # Stages at a finite rate, whose duration follows from the spec.
    )
    least_seconds: int  # Seconds of these stages together.
    warmup_seconds: int  # Most seconds that warming up takes.
    gpu_seconds: int | None
    """Least GPU seconds that measuring takes; None if no load's duration is known, or there is no
    GPU."""


def volume_of(spec: BenchmarkRunSpec) -> Volume:
    estimated = estimate(spec)
    timed = [
        seconds
        for stage in certain_stages(spec)
        if (seconds := stage.load.least_seconds(stage.requests)) is not None
    ]
    warmup = spec.measurement.warmup.auto
    return Volume(
        stages=estimated.stages,
        requests=estimated.requests,
        probe_stages=most_probe_stages(spec),
        repeated_stages=estimated.stages - len(certain_stages(spec))
        if spec.until_decided
        else 0,
        gpus=gpus(spec),
        open_stages=len(timed),
        least_seconds=math.ceil(sum(timed, Decimal(0))),
        warmup_seconds=warmup.max_seconds
        * sum(w.is_measured for w in spec.workloads)
        if warmup is not None
        else 0,
        gpu_seconds=estimated.gpu_seconds,
    )


def volume_remarks(spec: BenchmarkRunSpec, volume: Volume) -> list[Remark]:
    """Return a remark if the run may not end before its deadline (spec.runDeadlineSeconds)."""
    deadline = spec.run_deadline_seconds
    least = volume.least_seconds
    field = "spec.runDeadlineSeconds"
    if deadline == 0 or least == 0:
        return []
    if least > deadline:
        return [
            error(
                field,
                f"{deadline} s are too short: the stages take at least {least} s, so the run "
                "would end before everything is measured. Raise the deadline",
            )
        ]
    if least + volume.warmup_seconds > deadline:
        text = (
            f"{deadline} s may be too short: the stages take at least {least} s, and "
            f"the warm-up up to {volume.warmup_seconds} s. Raise the deadline"
        )
        return [warning(field, text)]
    return []


# Tokens for a chat template: more than most add to one turn.
CHAT_TEMPLATE_TOKENS = 64


@dataclass(frozen=True, slots=True)
class LongestRequest:
    """The longest request of a dataset, in tokens; a length is None if it depends on the data."""

    prompt: int | None
    output: int | None
    drops_long_rows: (
        bool  # Whether rows that are too long for the model are left out.
    )

    @property
    def total(self) -> int | None:
        """Return the tokens that the longest request takes of the context and of the KV cache.

        Returns None if that depends on the data.
        """
        return (
            None
            if self.prompt is None or self.output is None
            else self.prompt + self.output
        )


def lengths_of(dataset: Dataset, workload: Workload) -> LongestRequest:
    """Return the lengths of the longest request of a workload that a dataset can make.

    Embeddings are answers without tokens.
    """
    if (data := dataset.single) is None:
        return LongestRequest(None, None, drops_long_rows=True)
    prompt, output = data.longest
    if workload.api in WHOLE_ANSWERS:
        output = 0
    return LongestRequest(prompt, output, drops_long_rows=data.drops_long_rows)


def longest_request(
    workload: Workload, workloads: Sequence[Workload], *, max_tokens: int | None
) -> int | None:
    """Return the tokens of a workload's longest request that the model accepts.

    Returns None if that depends on the data. `workloads` are all workloads of the spec, in which a
    mix finds its parts.
    """
    totals = [
        lengths_of(part, workload).total
        for part in datasets_of(workload, workloads)
    ]
    known = [total for total in totals if total is not None]
    return (
        min(max(known), max_tokens or max(known))
        if len(known) == len(totals)
        else None
    )


def length_remarks(
    spec: BenchmarkRunSpec, *, max_tokens: int | None, source: str
) -> list[Remark]:
    """Return remarks on whether every request fits the model's longest sequence.

    `source` says where that limit comes from, or why it is not known.
    """
    remarks: list[Remark] = []
    for number, workload in enumerate(spec.workloads):
        for place, part in enumerate(
            datasets_of(workload, spec.workloads) if workload.is_measured else ()
        ):
            field = f"spec.workloads[{number}].dataset" + (
                f".mix[{place}]" if workload.dataset.mix is not None else ""
            )
            if max_tokens is None:
                remarks.append(
                    not_checked(
                        field,
                        f"it is not known whether its requests fit the model: {source}",
                    )
                )
            else:
                limit = f"a sequence has at most {max_tokens:,} ({source})"
                remarks += _length_remarks(
                    lengths_of(part, workload),
                    field,
                    max_tokens,
                    limit,
                    is_chat=workload.api == "Chat",
                    engine_name=spec.engine.name,
                )
    return remarks


def _length_remarks(
    lengths: LongestRequest,
    field: str,
    max_tokens: int,
    limit: str,
    *,
    is_chat: bool,
    engine_name: str,
) -> list[Remark]:
    if lengths.output is not None and lengths.output >= max_tokens:
        return [
            error(
                field,
                f"answers of {lengths.output:,} tokens leave no room for a prompt: {limit}",
            )
        ]
    if lengths.total is None:
        return (
            []
            if lengths.drops_long_rows
            else [
                not_checked(
                    field,
                    (
                        "it is not known whether its requests fit the model: the length of "
                        "prompts depends on the data"
                    ),
                )
            ]
        )
    tokens = (
        f"a prompt of {lengths.prompt:,} and an answer of {lengths.output:,} tokens "
        f"take {lengths.total:,}"
        if lengths.output
        else f"a prompt has {lengths.prompt:,} tokens"
    )
    if lengths.total > max_tokens and lengths.drops_long_rows:
        return [
            note(
                field,
                f"{tokens}, but {limit}: longer rows are left out and counted",
            )
        ]
    if lengths.total > max_tokens:
        return [
            error(
                field,
                f"{tokens}, but {limit}: {engine_name} refuses such a request; make it shorter",
            )
        ]
    spare = max_tokens - lengths.total
    if is_chat and not lengths.drops_long_rows and spare < CHAT_TEMPLATE_TOKENS:
        return [
            note(
                field,
                f"{tokens}, which leaves {spare} for the chat template: {limit}",
            )
        ]
    return []


def sample_remarks(spec: BenchmarkRunSpec) -> list[Remark]:
    """Return remarks on percentiles, objectives and repeats."""
    remarks = [
        r
        for place, w in enumerate(spec.workloads)
        for r in _workload(spec, w, f"spec.workloads[{place}]")
    ]
    if spec.repeats == 1 and any(
        workload.load.search is None for workload in spec.workloads
    ):
        told = f" (about {repeats_price(spec).in_words})"
        remarks.append(
            note(
                "spec.repeats",
                f"one repeat does not show the noise; {contract.MIN_REPEATS} repeats do{told}",
            )
        )
    return [*remarks, *_power(spec), *_auto(spec)]


def _auto(spec: BenchmarkRunSpec) -> list[Remark]:
    """Return what `repeats: Auto` takes at least and at most, and what the budget is too small for.

    Empty for a number of repeats.
    """
    if not spec.until_decided or spec.budget is None:
        return []
    once = sum(stage.requests for stage in certain_stages(spec))
    most = estimate(spec)
    looks = contract.looks_within(spec.most_repeats)
    text = (
        f"Auto takes from {once:,} requests in {len(load_points(spec))} stages (every load point "
        f"once) to {most.requests:,} requests, and a load point at most {looks[-1]} repeats; it "
        f"is decided after {', '.join(map(str, looks))} of them, or where the budget ends"
    )
    remarks = [note("spec.repeats", text)]
    if (least := contract.MIN_REPEATS * once) > spec.budget_requests:
        text = (
            f"{spec.budget_requests:,} are fewer than {contract.MIN_REPEATS} repeats of every load "
            f"point take ({least:,}): limits within a factor of {contract.NEAR:g} of what is "
            "measured, and widths, may stay undecided"
        )
        remarks.append(warning("spec.budget.requests", text))
    if spec.budget.gpu_seconds is not None and not gpus(spec):
        text = "the run has no GPU, so it never uses up GPU seconds: set requests or seconds"
        remarks.append(warning("spec.budget.gpuSeconds", text))
    deadline = spec.run_deadline_seconds
    if deadline and (spec.budget.seconds or 0) > deadline:
        text = (
            f"runDeadlineSeconds ({deadline}) ends the run before the budget does: raise "
            "runDeadlineSeconds, or lower budget.seconds"
        )
        remarks.append(warning("spec.budget.seconds", text))
    return remarks


_ONE_SERVER = (
    "a run and its baseline have one server each, so the condition NotRegressed ends "
    "False or Unknown (OneServerASide), never True; set this field to true if these "
    "two servers are enough, or use "
    "`benchrun compare --max-regression` with two or more runs a side"
)


def _power(spec: BenchmarkRunSpec) -> list[Remark]:
    """Return remarks on the change that the comparison with the baseline can detect.

    They warn if that is more than the gate allows.
    """
    baseline = spec.baseline
    points = len(load_points(spec))
    if baseline is None or not points:
        return []
    percentiles = [metric for metric in baseline.metrics if metric.startswith("P")]
    text = (
        f"the gate cannot pass with {', '.join(percentiles)}: a percentile needs "
        f"{MIN_SERVERS_OF_PERCENTILES} servers a side, but a run has one; name only "
        "means in this field, and use `benchrun compare` with more "
        "runs a side for percentiles"
    )
    remarks = [warning("spec.baseline.metrics", text)] if percentiles else []
    questions = points * (len(baseline.metrics) - len(percentiles))
    price = gate_price(spec, questions) if questions else None
    more = f" (about {price.in_words})" if price is not None else ""
    if not baseline.one_server_is_enough:
        remarks.append(
            warning("spec.baseline.oneServerIsEnough", f"{_ONE_SERVER}{more}")
        )
        more = ""
    if not questions:
        return remarks
    told = power_sentence(spec.most_repeats, questions, unit="repeats")
    limit = float(baseline.max_regression_percent)
    repeats = spec.most_repeats
    if repeats > 1 and detectable_percent(repeats, questions) <= limit:
        return [*remarks, note("spec.baseline", told)]
    text = (
        f"{told}; the gate of {limit:g} % can end Underpowered: take more repeats{more}, or fewer "
        "metrics and load points"
    )
    return [*remarks, warning("spec.baseline.maxRegressionPercent", text)]


def _workload(
    spec: BenchmarkRunSpec, workload: Workload, path: str
) -> list[Remark]:
    # Repeats that send the same requests are not independent samples.
    data = workload.dataset.single
    is_same = spec.measurement.cache_policy == "Share" or (
        data is not None and data.sends_again
    )
    repeats = 1 if is_same else spec.most_repeats
    # Requests of each load point in all repeats together.
    counts = {
        load.value: workload.requests_at(load) * repeats
        for load in workload.load.points
    }
    # A search: the schema refuses too few requests, and it repeats where it needs more.
    if not counts:
        return []
    remarks: list[Remark] = []
    if (
        spec.objectives
        and any(load.all_at_once for load in workload.load.points)
        and repeats < contract.MIN_REPEATS
    ):
        told = (
            f"{spec.repeats}{' that send the same requests' if is_same else ''}: if all "
            "requests are sent at once"
        )
        text = (
            f"{told}, fewer than {contract.MIN_REPEATS} repeats decide an objective "
            f"only if its limit is {contract.FAR:g} times away from every value"
        )
        remarks.append(warning("spec.repeats", text))
    limits: dict[str, list[str]] = {}
    for objective in spec.objectives:
        limits.setdefault(objective.percentile, []).append(
            f"{objective.metric} p{objective.percentile}"
        )
    fewest = min(counts.values())
    wanted = {*spec.measurement.percentiles, *limits}
    short = sorted((p for p in wanted if _is_open(p, fewest)), key=float)
    if not short:
        return remarks
    field = (
        f"{path}.requests"
        if workload.requests is not None
        else f"{path}.durationSeconds"
    )
    text = _sentence(short, counts, repeats)
    price = percentile_price(spec, workload, _neediest(short), is_same=is_same)
    told = f"; this takes about {price.in_words}" if price is not None else ""
    remarks.append(warning(field, text + told))
    if unmet := ", ".join(
        name for percentile in short for name in limits.get(percentile, ())
    ):
        text = (
            f"with so few requests the outcome of {unmet} may stay Inconclusive, unless the "
            "latency is far below or above its limit: measure more requests or repeats"
        )
        remarks.append(warning("spec.objectives", text))
    return remarks


def _is_open(percentile: str, requests: int) -> bool:
    needed = contract.least_count(float(percentile))
    return needed is None or requests < needed


def _neediest(percentiles: Sequence[str]) -> str:
    return max(percentiles, key=lambda each: contract.least_count(float(each)) or 0)


def _sentence(short: list[str], counts: Mapping[str, int], repeats: int) -> str:
    percentile = _neediest(short)
    needed = contract.least_count(float(percentile)) or 0
    fewest = min(counts.values())
    where = (
        "a load point"
        if len(set(counts.values())) == 1
        else f"at {min(counts, key=lambda value: counts[value])}/s"
    )
    product = (
        f"{fewest // repeats:,} x {repeats} repeats = {fewest:,}"
        if repeats > 1
        else f"{fewest:,}"
    )
    named = ", ".join(f"p{each}" for each in short)
    a_stage = f", {-(-needed // repeats):,} a stage" if repeats > 1 else ""
    bounded = [
        p
        for p in ("99", "95", "90", "50")
        if not _is_open(p, fewest) and float(p) < float(short[0])
    ]
    best = f"; up to p{bounded[0]} is bounded" if bounded else ""
    least = (
        f"p{percentile} takes at least {needed:,}{a_stage}, all in the steady part"
    )
    return f"{product} requests {where} are too few to bound {named}: {least}{best}"
