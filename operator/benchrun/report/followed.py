"""What is known of a run that is being followed: its status, and what went by while it was followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from benchrun.api.status import BenchmarkRunStatus, Live
from benchrun.observe import raw
from benchrun.report.stage_line import StageLine
from benchrun.report.texts_per_prompt import texts_per_prompt

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
