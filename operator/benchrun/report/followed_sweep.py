"""What is known of a sweep that is being followed: its status, the runs that go on, and those that ended meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from benchrun.api import names
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.observe import raw
from benchrun.report.exit_codes import exit_code
from benchrun.report.followed import Followed, first_sight, seen_again
from benchrun.report.run_list import state_told
from benchrun.report.texts_per_prompt import texts_per_prompt


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
        status=_status(body),
        created_at=raw.instant(metadata.get("creationTimestamp")),
        texts_per_prompt=texts_per_prompt(raw.mapping(spec.get("template"))),
    )


def sweep_seen_again(before: FollowedSweep, body: Mapping[str, object]) -> FollowedSweep:
    """After a change. Raises ValueError."""
    return replace(before, status=_status(body), trouble=None)


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


def _status(body: Mapping[str, object]) -> BenchmarkSweepStatus:
    return BenchmarkSweepStatus.model_validate(raw.mapping(body.get("status")))
