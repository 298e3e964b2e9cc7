"""From what the engine gave to the record of a stage. Pure: numbers in, message out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

from benchrun_client.contract import (
    MAX_GAP_VALUES,
    MOST,
    CacheReset,
    ClientFigures,
    DatasetFacts,
    Engine,
    GapCounts,
    Probe,
    RequestColumns,
    ServedModel,
    ServerEdge,
    StageRecord,
    WarmupOutcome,
)
from benchrun_client.failures import shorten

MAX_SCALARS = 200
MAX_ERRORS = 8
MAX_ERROR_CHARACTERS = 300
MAX_DIAGNOSTIC_CHARACTERS = 1000
MAX_VERSION_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class RawStage:
    """A measured stage as the measuring process hands it over: plain lists, cheap to copy. Seconds, as vLLM has them."""

    run_uid: str
    plan_digest: str
    sequence: int
    stage_id: str
    prompts_digest: str
    engine: Engine
    scalars: dict[str, float | int | None]
    due: list[float]
    sent: list[float]
    answered: list[float]
    ok: list[bool]
    ended: list[bool]
    unix_minus_perf: float
    """Added to the instants above it gives Unix time."""
    previous_answer: float
    """When the answer before this stage came (`time.perf_counter`, as the instants)."""
    ttfts: list[float]
    itls: list[list[float]]
    input_lens: list[int]
    output_lens: list[int]
    asked_lens: list[int]
    shared_prefix_tokens: int
    repeated_tokens: int
    datasets: tuple[DatasetFacts, ...]
    errors: list[str]
    diagnostic: str | None
    addresses: tuple[str, ...]
    roles: tuple[str, ...]
    before: tuple[dict[str, float] | None, ...]
    after: tuple[dict[str, float] | None, ...]
    versions: tuple[str | None, ...]
    settings: tuple[str | None, ...]
    models: tuple[str | None, ...]
    served: tuple[ServedModel | None, ...]
    cache_reset: CacheReset | None
    warmup: WarmupOutcome | None
    cpu_seconds: float
    wall_seconds: float
    throttled_periods: int | None
    lags: list[float]
    """How late the event loop came to each of the probe's ticks."""
    probe: Probe | None = None
    """Of a search's stage; known once its outcome is."""
    decodes: list[float] | None = None
    """From the first token to the last, where the gaps between them are not known; None: they are."""


def record_of(raw: RawStage) -> StageRecord:
    """The record of a stage."""
    first, last = raw.sent[0], max(raw.answered)
    return StageRecord(
        run_uid=raw.run_uid,
        plan_digest=raw.plan_digest,
        sequence=raw.sequence,
        stage_id=raw.stage_id,
        prompts_digest=raw.prompts_digest,
        engine=raw.engine,
        first_send_unix_us=micros(first + raw.unix_minus_perf),
        last_receive_unix_us=micros(last + raw.unix_minus_perf),
        idle_before_us=micros(first - raw.previous_answer),
        scalars=raw.scalars,
        shared_prefix_tokens=raw.shared_prefix_tokens,
        repeated_tokens=raw.repeated_tokens,
        datasets=raw.datasets,
        requests=_columns(raw),
        gaps=gap_counts(gap for gaps, ok in zip(raw.itls, raw.ok, strict=True) if ok for gap in gaps),
        servers=_edges(raw),
        errors=error_counts(error for error, ok in zip(raw.errors, raw.ok, strict=True) if not ok),
        diagnostic=shorten(raw.diagnostic, MAX_DIAGNOSTIC_CHARACTERS) if raw.diagnostic else None,
        client=ClientFigures(
            cpu_seconds=raw.cpu_seconds,
            wall_seconds=raw.wall_seconds,
            throttled_periods=raw.throttled_periods,
            lag_p99_us=_lag_p99(raw.lags),
            lag_max_us=micros(max(raw.lags)) if raw.lags else None,
        ),
        cache_reset=raw.cache_reset,
        warmup=raw.warmup,
        probe=raw.probe,
    )


def micros(seconds: float) -> int:
    """Whole microseconds; a clock that was stepped back gives 0, never a negative figure."""
    return max(round(seconds * 1_000_000), 0)


def _columns(raw: RawStage) -> RequestColumns:
    first = raw.sent[0]
    return RequestColumns(
        start_us=tuple(micros(sent - first) for sent in raw.sent),
        queue_us=tuple(micros(sent - due) for sent, due in zip(raw.sent, raw.due, strict=True)),
        ttft_us=tuple(micros(ttft) for ttft in raw.ttfts),
        # vLLM's latency ends with the last token: it is the first one's time and all gaps.
        e2el_us=tuple(micros(ttft + decode) for ttft, decode in zip(raw.ttfts, _decodes(raw), strict=True)),
        input_tokens=tuple(raw.input_lens),
        output_tokens=tuple(raw.output_lens),
        asked_tokens=tuple(raw.asked_lens),
        ended=_flags(raw.ended),
        ok=_flags(raw.ok),
    )


def _decodes(raw: RawStage) -> Iterable[float]:
    return raw.decodes if raw.decodes is not None else map(sum, raw.itls)


def _flags(values: Iterable[bool]) -> tuple[Literal[0, 1], ...]:
    return tuple([1 if value else 0 for value in values])


def _edges(raw: RawStage) -> tuple[ServerEdge, ...]:
    return tuple(
        ServerEdge(
            address=address,
            role=role,
            before=before,
            after=after,
            version=shorten(version, MAX_VERSION_CHARACTERS) if version else None,
            settings=settings,
            models=models,
            served=served,
        )
        for address, role, before, after, version, settings, models, served in zip(
            raw.addresses,
            raw.roles,
            raw.before,
            raw.after,
            raw.versions,
            raw.settings,
            raw.models,
            raw.served,
            strict=True,
        )
    )


def _lag_p99(lags: list[float]) -> int | None:
    """The smallest lag that 99 % of the ticks do not exceed."""
    return micros(sorted(lags)[math.ceil(0.99 * len(lags)) - 1]) if lags else None


def gap_counts(gaps: Iterable[float]) -> GapCounts:
    """Exact counts per microsecond; more than `MAX_GAP_VALUES` distinct ones are rounded, to the finest step that fits."""
    return gap_counts_of(Counter(micros(gap) for gap in gaps))


def gap_counts_of(counts: Counter[int]) -> GapCounts:
    """The same, of counts by microseconds."""
    step = 1
    while len(counts) > MAX_GAP_VALUES:
        step *= 10
        rounded: Counter[int] = Counter()
        for us, count in counts.items():
            rounded[(us + step // 2) // step * step] += count
        counts = rounded
    ordered = sorted(counts.items())
    return GapCounts(us=tuple(us for us, _ in ordered), count=tuple(count for _, count in ordered))


def error_counts(errors: Iterable[str]) -> dict[str, int]:
    """The most frequent error texts. vLLM gives a reason phrase or a whole traceback: the last line says what happened."""
    texts = Counter(shorten(_last_line(error), MAX_ERROR_CHARACTERS) for error in errors)
    return dict(texts.most_common(MAX_ERRORS))


def _last_line(error: str) -> str:
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[-1] if lines else "no error text"


def scalars_of(result: dict[str, Any]) -> dict[str, float | int | None]:
    """The engine's own figures under its own names; None: one that is not finite, or beyond what a record takes."""
    scalars: dict[str, float | int | None] = {}
    for name, value in result.items():
        if isinstance(value, bool) or len(name) > 80 or len(scalars) == MAX_SCALARS:
            continue
        if value is None:
            scalars[name] = None
        elif isinstance(value, Integral):
            scalars[name] = int(value) if abs(int(value)) <= MOST else None
        elif isinstance(value, Real):
            scalars[name] = float(value) if abs(float(value)) <= MOST else None
    return scalars
