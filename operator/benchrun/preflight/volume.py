"""How large a run is: its requests and their length, and whether they are enough for its percentiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from benchrun.api import BenchmarkRunSpec, Dataset, Workload, datasets_of
from benchrun.measure.percentiles import least_count, percentile_ranks
from benchrun.plan.stages import PlannedStage, estimate, gpus, load_points, most_probe_stages, requests_of, stages
from benchrun.preflight.remark import Remark, error, not_checked, note, warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """What is asked for."""

    runs: int = 1
    """More than one for a sweep, whose figures are those of all its runs together."""
    stages: int
    requests: int
    probe_stages: int
    """Of the stages, those that searches take at most: with their requests an upper bound."""
    gpus: int
    """Of one run; of a sweep the most that one has."""
    open_stages: int
    """Stages at a finite rate, whose length the spec tells."""
    least_seconds: int
    """That these take together."""
    warmup_seconds: int
    """The most that warming up takes."""
    gpu_seconds: int | None
    """The least that the GPUs are held for measuring; None: no load tells it, or there is no GPU."""


def volume_of(spec: BenchmarkRunSpec) -> Volume:
    """Count it."""
    told = estimate(spec)
    timed = [stage for stage in stages(spec, run_uid="") if stage.axis == "rate" and stage.value != "inf"]
    warmup = spec.measurement.warmup.auto
    return Volume(
        stages=told.stages,
        requests=told.requests,
        probe_stages=most_probe_stages(spec),
        gpus=gpus(spec),
        open_stages=len(timed),
        least_seconds=int(sum(map(_seconds, timed), Decimal(0)).to_integral_value(rounding=ROUND_CEILING)),
        warmup_seconds=warmup.max_seconds * sum(w.is_measured for w in spec.workloads) if warmup is not None else 0,
        gpu_seconds=told.gpu_seconds,
    )


def volume_remarks(spec: BenchmarkRunSpec, volume: Volume) -> list[Remark]:
    """Whether the run can end before its own deadline."""
    deadline, least = spec.run_deadline_seconds, volume.least_seconds
    field = "spec.runDeadlineSeconds"
    if deadline == 0 or least == 0:
        return []
    if least > deadline:
        return [error(field, f"{deadline} s, but the stages take {least} s at least: the run would be ended before")]
    rest = least + volume.warmup_seconds
    if rest > deadline:
        return [
            warning(field, f"{deadline} s; stages take {least} s at least and warm-up up to {volume.warmup_seconds} s")
        ]
    return []


def _seconds(stage: PlannedStage) -> Decimal:
    return Decimal(stage.requests) / Decimal(stage.value)


# ---- lengths ----------------------------------------------------------------------------------------------------------
# How long requests get, as far as the spec tells it.

SHARE_GPT_TOTAL_TOKENS = 2048
"""vLLM's limit, where none is set and each row has its own answer."""
CHAT_TEMPLATE_TOKENS = 64
"""More than most chat templates add to one turn."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The longest request of a dataset, in tokens. None: only its data tells."""

    prompt: int | None
    output: int | None
    drops_long_rows: bool
    """Whether rows are left out that are longer than the model takes."""

    @property
    def total(self) -> int | None:
        """What it takes of the model's context and of the KV cache."""
        return None if self.prompt is None or self.output is None else self.prompt + self.output


def lengths_of(dataset: Dataset) -> Lengths:
    """The longest request that a dataset can send."""
    if dataset.random is not None:
        return Lengths(dataset.random.input_tokens, dataset.random.output_tokens, drops_long_rows=False)
    if dataset.prefix_repetition is not None:
        repeated = dataset.prefix_repetition
        return Lengths(repeated.prefix_tokens + repeated.suffix_tokens, repeated.output_tokens, drops_long_rows=False)
    if dataset.share_gpt is not None:
        rows = dataset.share_gpt
        rest = max(1, (rows.max_total_tokens or SHARE_GPT_TOTAL_TOKENS) - rows.max_prompt_tokens)
        return Lengths(rows.max_prompt_tokens, rows.output_tokens or rest, drops_long_rows=True)
    if dataset.texts is not None:
        answers = dataset.texts.output_tokens_per_text * dataset.texts.texts_per_prompt
        return Lengths(None, answers, drops_long_rows=True)
    forced = next((each.output_tokens for each in (dataset.custom, dataset.hugging_face) if each is not None), None)
    return Lengths(None, forced, drops_long_rows=dataset.agent is None)


def longest_request(workload: Workload, workloads: Sequence[Workload], *, max_tokens: int | None) -> int | None:
    """Tokens of the longest request of a workload that the model takes; None where only its data tells. `workloads`: all of
    the spec, where a mix finds its parts."""
    totals = [lengths_of(part).total for part in datasets_of(workload, workloads)]
    known = [total for total in totals if total is not None]
    return min(max(known), max_tokens or max(known)) if len(known) == len(totals) else None


def length_remarks(spec: BenchmarkRunSpec, *, max_tokens: int | None, told_by: str) -> list[Remark]:
    """Whether every request fits the model's longest sequence. `told_by` says where that limit is from, or that none is
    known."""
    remarks = []
    for number, workload in enumerate(spec.workloads):
        for place, part in enumerate(datasets_of(workload, spec.workloads) if workload.is_measured else ()):
            field = f"spec.workloads[{number}].dataset" + (f".mix[{place}]" if workload.dataset.mix is not None else "")
            remarks += _part(
                lengths_of(part), field, max_tokens=max_tokens, told_by=told_by, is_chat=workload.api == "Chat"
            )
    return remarks


def _part(lengths: Lengths, field: str, *, max_tokens: int | None, told_by: str, is_chat: bool) -> list[Remark]:
    if max_tokens is None:
        return [not_checked(field, f"whether its requests fit the model: {told_by}")]
    limit = f"a sequence has at most {max_tokens:,} ({told_by})"
    if lengths.output is not None and lengths.output >= max_tokens:
        return [error(field, f"answers of {lengths.output:,} tokens leave no room for a prompt: {limit}")]
    if lengths.total is None:
        return [] if lengths.drops_long_rows else [not_checked(field, "how long its prompts get: only the data tells")]
    said = f"{lengths.prompt:,} tokens of prompt and {lengths.output:,} of answer are {lengths.total:,}"
    if lengths.total > max_tokens:
        if lengths.drops_long_rows:
            return [note(field, f"{said}, but {limit}: longer rows are left out, and counted")]
        return [error(field, f"{said}, but {limit}: vLLM refuses the request")]
    spare = max_tokens - lengths.total
    if is_chat and not lengths.drops_long_rows and spare < CHAT_TEMPLATE_TOKENS:
        return [note(field, f"{said}, which leaves {spare} for the chat template: {limit}")]
    return []


# ---- samples ----------------------------------------------------------------------------------------------------------
# Whether so few requests can tell the percentiles that are asked for.


def sample_remarks(spec: BenchmarkRunSpec) -> list[Remark]:
    """About percentiles, objectives and repeats."""
    remarks = []
    for place, workload in enumerate(spec.workloads):
        remarks += _workload(spec, workload, f"spec.workloads[{place}]")
    if spec.repeats == 1 and any(workload.load.search is None for workload in spec.workloads):
        remarks.append(note("spec.repeats", "1: what is noise can't be told from what is not; 3 repeats show it"))
    return remarks


def _workload(spec: BenchmarkRunSpec, workload: Workload, path: str) -> list[Remark]:
    counts = _pooled(workload, spec.repeats)
    if not counts:
        # A search is refused by the schema with too few requests, and repeats where it needs more.
        return []
    fewest = min(counts.values())
    field = f"{path}.requests" if workload.requests is not None else f"{path}.durationSeconds"
    limits: dict[str, list[str]] = {}
    for objective in spec.objectives:
        limits.setdefault(objective.percentile, []).append(f"{objective.metric} p{objective.percentile}")
    short = [p for p in _ascending({*spec.measurement.percentiles, *limits}) if _is_open(p, fewest)]
    if not short:
        return []
    remarks = [warning(field, _sentence(short, counts, spec.repeats, workload))]
    unmet = [name for percentile in short for name in limits.get(percentile, ())]
    if unmet:
        remarks.append(
            warning(
                "spec.objectives", f"with so few requests {', '.join(unmet)} can't be Met, only Missed or Inconclusive"
            )
        )
    return remarks


def _pooled(workload: Workload, repeats: int) -> Mapping[str, int]:
    """Requests of each load point, all repeats together."""
    _, values = load_points(workload.load)
    return {value: requests_of(workload, value) * repeats for value in values}


def _is_open(percentile: str, requests: int) -> bool:
    return percentile_ranks(requests, float(percentile)) is None


def _sentence(short: list[str], counts: Mapping[str, int], repeats: int, workload: Workload) -> str:
    hungriest = max(short, key=lambda percentile: least_count(float(percentile)) or 0)
    needed = least_count(float(hungriest)) or 0
    fewest = min(counts.values())
    where = "a load point" if len(set(counts.values())) == 1 else f"at {min(counts, key=lambda value: counts[value])}/s"
    product = f"{fewest // repeats:,} x {repeats} repeats = {fewest:,}" if repeats > 1 else f"{fewest:,}"
    named = ", ".join(f"p{each}" for each in short)
    a_stage = -(-needed // repeats)
    each = f", {a_stage:,} a stage" if repeats > 1 else ""
    bounded = [p for p in ("99", "95", "90", "50") if not _is_open(p, fewest) and float(p) < float(short[0])]
    best = f"; up to p{bounded[0]} can be told" if bounded else ""
    return f"{product} requests {where} give {named} no 95 % interval: p{hungriest} takes {needed:,}{each}{best}"


def _ascending(percentiles: Iterable[str]) -> list[str]:
    return sorted(percentiles, key=float)
