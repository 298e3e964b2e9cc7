"""What is known of a run or a sweep that is being followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from benchrun_client.contract import StageRecord

from benchrun import names
from benchrun.api import BenchmarkRunStatus, Live
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.observe import raw
from benchrun.report.exit_codes import exit_code
from benchrun.report.result_rows import texts_per_prompt
from benchrun.report.rows import figure
from benchrun.report.run_list import state_told

# ---- stage line -------------------------------------------------------------------------------------------------------
# A finished stage in one line: what its record says at a glance, before anything is judged.


@dataclass(frozen=True, slots=True)
class StageLine:
    """A stage whose record is stored. Figures are None where the record was not to be had."""

    sequence: int
    """Position in the order of measurement, from 0."""
    stage: str | None
    """For example chat/rate=4/r1; None: nobody told."""
    requests_per_second: float | None = None
    output_tokens_per_second: float | None = None
    median_ttft_ms: float | None = None
    p99_ttft_ms: float | None = None
    failed: int | None = None
    requests: int | None = None


def stage_line(record: StageRecord) -> StageLine:
    """The load engine's own figures; the judge has not seen them yet."""
    ok = record.requests.ok
    said = record.scalars.get
    return StageLine(
        sequence=record.sequence,
        stage=record.stage_id,
        requests_per_second=said("request_throughput"),
        output_tokens_per_second=said("output_throughput"),
        median_ttft_ms=said("median_ttft_ms"),
        p99_ttft_ms=said("p99_ttft_ms"),
        failed=len(ok) - sum(ok),
        requests=len(ok),
    )


def told_figures(line: StageLine) -> tuple[str, ...]:
    """The figures with their units, those that are known; failures only where there were some."""
    known = (
        (line.requests_per_second, " req/s", ""),
        (line.output_tokens_per_second, " tok/s", ""),
        (line.median_ttft_ms, " ms", "TTFT p50 "),
        (line.p99_ttft_ms, " ms", "p99 "),
    )
    told = [f"{lead}{figure(value)}{unit}" for value, unit, lead in known if value is not None]
    if line.failed:
        told.append(f"{line.failed} of {line.requests} failed")
    return tuple(told)


# ---- followed ---------------------------------------------------------------------------------------------------------
# What is known of a run that is being followed: its status, and what went by while it was followed.

MAX_READINGS = 120
"""At one in five seconds ten minutes, and more than a terminal is wide."""
MAX_STAGES = 64


@dataclass(frozen=True, slots=True)
class Followed:
    """A run as it is now, and what led there."""

    namespace: str
    name: str
    status: BenchmarkRunStatus
    created_at: datetime | None = None
    readings: tuple[Live, ...] = ()
    """Live figures seen, oldest first."""
    stages: tuple[StageLine, ...] = ()
    """Finished stages, in order; those that were done long before it was followed are not among them."""
    trouble: str | None = None
    """Why nothing is heard at the moment; None: all is well."""
    texts_per_prompt: Mapping[str, int] = field(default_factory=dict)
    """Of workloads that pack texts, by name."""


def first_sight(body: Mapping[str, object]) -> Followed:
    """Of an object as the API server gives it. Raises ValueError where its status is no such thing."""
    metadata = raw.mapping(body.get("metadata"))
    status = _status(body)
    return Followed(
        namespace=raw.text(metadata.get("namespace")),
        name=raw.text(metadata.get("name")),
        status=status,
        created_at=raw.instant(metadata.get("creationTimestamp")),
        readings=_with_reading((), status.live),
        texts_per_prompt=texts_per_prompt(raw.mapping(body.get("spec"))),
    )


def seen_again(before: Followed, body: Mapping[str, object], finished: Sequence[StageLine] = ()) -> Followed:
    """After a change, with the stages that were found finished since. Raises ValueError."""
    status = _status(body)
    stages = {line.sequence: line for line in (*before.stages, *finished)}
    return replace(
        before,
        status=status,
        readings=_with_reading(before.readings, status.live),
        stages=tuple(stages[sequence] for sequence in sorted(stages))[-MAX_STAGES:],
        trouble=None,
    )


def _status(body: Mapping[str, object]) -> BenchmarkRunStatus:
    return BenchmarkRunStatus.model_validate(raw.mapping(body.get("status")))


def _with_reading(readings: tuple[Live, ...], live: Live | None) -> tuple[Live, ...]:
    """The status repeats the last reading until there is a new one."""
    if live is None or (readings and readings[-1].at == live.at):
        return readings
    return (*readings, live)[-MAX_READINGS:]


# ---- followed sweep ---------------------------------------------------------------------------------------------------
# What is known of a sweep that is being followed: its status, the runs that go on, and those that ended meanwhile.


@dataclass(frozen=True, slots=True)
class SweptRun:
    """A run of the sweep that goes on."""

    variant: str
    run: Followed

    @property
    def title(self) -> str:
        """The variant, which is what one looks for, and the run, which other commands take."""
        return f"{self.variant} ({self.run.name})"


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that was seen going on, and has ended."""

    title: str
    word: str
    """Its verdict; of one that ended early, how."""
    message: str


@dataclass(frozen=True, slots=True)
class FollowedSweep:
    """A sweep as it is now."""

    namespace: str
    name: str
    status: BenchmarkSweepStatus
    created_at: datetime | None = None
    going_on: Mapping[str, SweptRun] = field(default_factory=dict)
    """By name, in the order in which they were first seen."""
    ended: tuple[EndedRun, ...] = ()
    """In the order in which they ended; those that had ended before the sweep was followed are not among them."""
    texts_per_prompt: Mapping[str, int] = field(default_factory=dict)
    """Of workloads that pack texts, by name."""
    trouble: str | None = None
    """Why nothing is heard at the moment; None: all is well."""


def sweep_first_sight(body: Mapping[str, object]) -> FollowedSweep:
    """Of an object as the API server gives it. Raises ValueError where its status is no such thing."""
    metadata, spec = raw.mapping(body.get("metadata")), raw.mapping(body.get("spec"))
    return FollowedSweep(
        namespace=raw.text(metadata.get("namespace")),
        name=raw.text(metadata.get("name")),
        status=_sweep_status(body),
        created_at=raw.instant(metadata.get("creationTimestamp")),
        texts_per_prompt=texts_per_prompt(raw.mapping(spec.get("template"))),
    )


def sweep_seen_again(before: FollowedSweep, body: Mapping[str, object]) -> FollowedSweep:
    """After a change. Raises ValueError."""
    return replace(before, status=_sweep_status(body), trouble=None)


def with_run(before: FollowedSweep, body: Mapping[str, object], *, gone: bool = False) -> FollowedSweep:
    """After a change of one of its runs. Raises ValueError."""
    metadata = raw.mapping(body.get("metadata"))
    name = raw.text(metadata.get("name"))
    known = before.going_on.get(name)
    others = {each: run for each, run in before.going_on.items() if each != name}
    if gone:
        return replace(before, going_on=others, trouble=None)
    if known is None:
        variant = raw.text(raw.mapping(metadata.get("annotations")).get(names.ANNOTATION_VARIANT))
        now = SweptRun(variant, first_sight(body))
        runs: Mapping[str, SweptRun] = {**before.going_on, name: now}
    else:
        now = replace(known, run=seen_again(known.run, body))
        runs = {each: now if each == name else run for each, run in before.going_on.items()}
    if exit_code(now.run.status) is None:
        return replace(before, going_on=runs, trouble=None)
    ended = (*before.ended, _ended(now)) if known is not None else before.ended
    return replace(before, going_on=others, ended=ended, trouble=None)


def _ended(run: SweptRun) -> EndedRun:
    status = run.run.status
    return EndedRun(run.title, state_told(status), status.message or "")


def _sweep_status(body: Mapping[str, object]) -> BenchmarkSweepStatus:
    return BenchmarkSweepStatus.model_validate(raw.mapping(body.get("status")))
