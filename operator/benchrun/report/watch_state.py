"""State of a followed run or sweep: its status, and the samples, stages and runs seen so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from benchrun_client.contract import StageRecord

from benchrun import names
from benchrun.api import BenchmarkRunStatus, Live
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.observe import untrusted_json as raw
from benchrun.report.exit_codes import exit_code
from benchrun.report.tables import figure, texts_per_prompt

# Most live figures kept of a run: ten minutes at one in five seconds, wider than a terminal.
MAX_SAMPLES = 120
MAX_STAGES = 64
_FIGURES = {
    "request_throughput": "{} req/s",
    "output_throughput": "{} tok/s",
    "median_ttft_ms": "TTFT p50 {} ms",
    "p99_ttft_ms": "p99 {} ms",
}
_WHOLE_FIGURES = {
    "request_throughput": "{} req/s",
    "total_token_throughput": "{} tok/s",
    "median_e2el_ms": "E2EL p50 {} ms",
    "p99_e2el_ms": "p99 {} ms",
}
"""Figures shown of a run whose answers arrive whole, such as embeddings: name -> text."""


@dataclass(frozen=True, slots=True)
class StageLine:
    """A stage whose record is stored, as one line."""

    sequence: int  # Position in the order of measurement, from 0.
    stage: str | None  # Name, for example chat/rate=4/r1; None if not known.
    figures: tuple[
        str, ...
    ] = ()  # Figures with their units; none if the record could not be read.


def stage_line(record: StageRecord) -> StageLine:
    """Build the line of a stage from the load generator's own figures, which are not judged yet.

    The number of failed requests is included only if there are some.
    """
    ok = record.requests.ok
    shown = _WHOLE_FIGURES if record.whole_answers else _FIGURES
    known = ((text, record.scalars.get(name)) for name, text in shown.items())
    figures = [
        text.format(figure(value)) for text, value in known if value is not None
    ]
    failed = [f"{ok.count(0)} of {len(ok)} failed"] if 0 in ok else []
    return StageLine(record.sequence, record.stage_id, (*figures, *failed))


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """A run that is followed: the latest status, and the figures and stages up to now."""

    name: str
    status: BenchmarkRunStatus
    created_at: datetime | None = None
    # By the name of the workload, for workloads that pack texts.
    texts_per_prompt: Mapping[str, int] = field(default_factory=dict)
    # Why the cluster can't be read at the moment; None if it can.
    trouble: str | None = None
    samples: tuple[Live, ...] = ()  # Live figures seen, oldest first.
    stages: tuple[StageLine, ...] = ()
    """Finished stages in order, without those that finished long before following began."""
    variant: str = ""  # Variant of a sweep's run.

    @property
    def title(self) -> str:
        """Return the name of a run, for a run of a sweep with its variant."""
        return f"{self.variant} ({self.name})" if self.variant else self.name


@dataclass(frozen=True, slots=True)
class FollowedSweep:
    name: str
    status: BenchmarkSweepStatus
    created_at: datetime | None = None
    texts_per_prompt: Mapping[str, int] = field(default_factory=dict)
    trouble: str | None = None
    under_way: Mapping[str, FollowedRun] = field(default_factory=dict)
    """Runs by name, in the order in which they were first seen."""
    ended: tuple[FollowedRun, ...] = ()
    """Runs in the order in which they ended, without those that ended before the sweep was
    followed."""


Followed = FollowedRun | FollowedSweep


def updated_run(
    before: FollowedRun | None,
    body: Mapping[str, object],
    finished: Sequence[StageLine] = (),
) -> FollowedRun:
    """Return the new state of a run that was first seen (`before` is None) or that has changed.

    `finished` has the stages that finished since the state before. Raises ValueError if the status
    is not valid.
    """
    metadata = raw.mapping(body.get("metadata"))
    status = BenchmarkRunStatus.model_validate(raw.mapping(body.get("status")))
    known = before or FollowedRun(
        name=raw.text(metadata.get("name")),
        status=status,
        created_at=raw.instant(metadata.get("creationTimestamp")),
        texts_per_prompt=texts_per_prompt(raw.mapping(body.get("spec"))),
        variant=raw.text(
            raw.mapping(metadata.get("annotations")).get(names.ANNOTATION_VARIANT)
        ),
    )
    samples = known.samples
    live = status.live
    if live is not None and not (
        samples and samples[-1].at == live.at
    ):  # The status repeats the last figures.
        samples = (*samples, live)[-MAX_SAMPLES:]
    stages = {line.sequence: line for line in (*known.stages, *finished)}
    in_order = tuple(stages[sequence] for sequence in sorted(stages))[-MAX_STAGES:]
    return replace(
        known, status=status, samples=samples, stages=in_order, trouble=None
    )


def updated_sweep(
    before: FollowedSweep | None, body: Mapping[str, object]
) -> FollowedSweep:
    """Return the new state of a sweep that was first seen (`before` is None) or that has changed.

    Raises ValueError if the status is not valid.
    """
    status = BenchmarkSweepStatus.model_validate(raw.mapping(body.get("status")))
    if before is not None:
        return replace(before, status=status, trouble=None)
    metadata = raw.mapping(body.get("metadata"))
    spec = raw.mapping(body.get("spec"))
    return FollowedSweep(
        name=raw.text(metadata.get("name")),
        status=status,
        created_at=raw.instant(metadata.get("creationTimestamp")),
        texts_per_prompt=texts_per_prompt(raw.mapping(spec.get("template"))),
    )


def with_run(
    sweep: FollowedSweep, body: Mapping[str, object], *, deleted: bool = False
) -> FollowedSweep:
    """Return the sweep after a change of one of its runs.

    Raises ValueError if the run's status is not valid.
    """
    name = raw.text(raw.mapping(body.get("metadata")).get("name"))
    others = {other: run for other, run in sweep.under_way.items() if other != name}
    if deleted:
        return replace(sweep, under_way=others, trouble=None)
    known = sweep.under_way.get(name)
    run = updated_run(known, body)
    if exit_code(run.status) is None:
        return replace(
            sweep, under_way={**sweep.under_way, name: run}, trouble=None
        )
    ended = (*sweep.ended, run) if known is not None else sweep.ended
    return replace(sweep, under_way=others, ended=ended, trouble=None)
