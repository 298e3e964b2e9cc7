"""Runs and sweeps that are being followed: their status as it is now, and what was seen on the way there."""

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
from benchrun.report.run_list import state

MAX_SAMPLES = 120
"""At one in five seconds ten minutes, and more than a terminal is wide."""
MAX_STAGES = 64


@dataclass(frozen=True, slots=True)
class StageLine:
    """A stage whose record is stored, at a glance and before it is judged. Figures are None where the record could not be read."""

    sequence: int
    """Position in the order of measurement, from 0."""
    stage: str | None
    """For example chat/rate=4/r1; None: not known."""
    requests_per_second: float | None = None
    output_tokens_per_second: float | None = None
    median_ttft_ms: float | None = None
    p99_ttft_ms: float | None = None
    failed: int | None = None
    requests: int | None = None


def stage_line(record: StageRecord) -> StageLine:
    """The load engine's own figures; the judge has not seen them yet."""
    ok, scalar = record.requests.ok, record.scalars.get
    return StageLine(
        sequence=record.sequence,
        stage=record.stage_id,
        requests_per_second=scalar("request_throughput"),
        output_tokens_per_second=scalar("output_throughput"),
        median_ttft_ms=scalar("median_ttft_ms"),
        p99_ttft_ms=scalar("p99_ttft_ms"),
        failed=len(ok) - sum(ok),
        requests=len(ok),
    )


def stage_figures(line: StageLine) -> tuple[str, ...]:
    """The known figures with their units; failures only where there were some."""
    known = (
        ("", line.requests_per_second, " req/s"),
        ("", line.output_tokens_per_second, " tok/s"),
        ("TTFT p50 ", line.median_ttft_ms, " ms"),
        ("p99 ", line.p99_ttft_ms, " ms"),
    )
    texts = [f"{lead}{figure(value)}{unit}" for lead, value, unit in known if value is not None]
    return (*texts, *([f"{line.failed} of {line.requests} failed"] if line.failed else []))


@dataclass(frozen=True, slots=True)
class Followed:
    """A run as it is now, and what led there."""

    namespace: str
    name: str
    status: BenchmarkRunStatus
    created_at: datetime | None = None
    samples: tuple[Live, ...] = ()
    """Live figures seen, oldest first."""
    stages: tuple[StageLine, ...] = ()
    """Finished stages, in order; without those that finished long before the run was followed."""
    trouble: str | None = None
    """Why there is no news at the moment; None: all is well."""
    texts_per_prompt: Mapping[str, int] = field(default_factory=dict)
    """Of workloads that pack texts, by name."""


def followed_run(body: Mapping[str, object]) -> Followed:
    """Of an object as the API server gives it. Raises ValueError where its status is not valid."""
    metadata = raw.mapping(body.get("metadata"))
    status = BenchmarkRunStatus.model_validate(raw.mapping(body.get("status")))
    return Followed(
        namespace=raw.text(metadata.get("namespace")),
        name=raw.text(metadata.get("name")),
        status=status,
        created_at=raw.instant(metadata.get("creationTimestamp")),
        samples=_with_sample((), status.live),
        texts_per_prompt=texts_per_prompt(raw.mapping(body.get("spec"))),
    )


def updated_run(before: Followed, body: Mapping[str, object], finished: Sequence[StageLine] = ()) -> Followed:
    """After a change, with the stages that finished since. Raises ValueError."""
    status = BenchmarkRunStatus.model_validate(raw.mapping(body.get("status")))
    stages = {line.sequence: line for line in (*before.stages, *finished)}
    return replace(
        before,
        status=status,
        samples=_with_sample(before.samples, status.live),
        stages=tuple(stages[sequence] for sequence in sorted(stages))[-MAX_STAGES:],
        trouble=None,
    )


def _with_sample(samples: tuple[Live, ...], live: Live | None) -> tuple[Live, ...]:
    """The status repeats the last sample until there is a new one."""
    if live is None or (samples and samples[-1].at == live.at):
        return samples
    return (*samples, live)[-MAX_SAMPLES:]


# ---- sweeps -------------------------------------------------------------------------------------------------------------


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
    """In the order in which they ended; without those that had ended before the sweep was followed."""
    texts_per_prompt: Mapping[str, int] = field(default_factory=dict)
    """Of workloads that pack texts, by name."""
    trouble: str | None = None
    """Why there is no news at the moment; None: all is well."""


def followed_sweep(body: Mapping[str, object]) -> FollowedSweep:
    """Of an object as the API server gives it. Raises ValueError where its status is not valid."""
    metadata, spec = raw.mapping(body.get("metadata")), raw.mapping(body.get("spec"))
    return FollowedSweep(
        namespace=raw.text(metadata.get("namespace")),
        name=raw.text(metadata.get("name")),
        status=BenchmarkSweepStatus.model_validate(raw.mapping(body.get("status"))),
        created_at=raw.instant(metadata.get("creationTimestamp")),
        texts_per_prompt=texts_per_prompt(raw.mapping(spec.get("template"))),
    )


def updated_sweep(before: FollowedSweep, body: Mapping[str, object]) -> FollowedSweep:
    """After a change. Raises ValueError."""
    status = BenchmarkSweepStatus.model_validate(raw.mapping(body.get("status")))
    return replace(before, status=status, trouble=None)


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
        now = SweptRun(variant, followed_run(body))
    else:
        now = replace(known, run=updated_run(known.run, body))
    status = now.run.status
    if exit_code(status) is None:
        return replace(before, going_on={**before.going_on, name: now}, trouble=None)
    ended = [EndedRun(now.title, state(status), status.message or "")] if known is not None else []
    return replace(before, going_on=others, ended=(*before.ended, *ended), trouble=None)
