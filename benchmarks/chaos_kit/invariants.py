"""What must hold when the world has settled: what was seen, against what its faults allow."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from chaos_kit.allowances import COMPLETED, GONE, Allowance

Key = Literal["lost", "doubled", "leaked", "wrong", "late"]
CALM_SECONDS = 15.0
"""Seconds by which a run may exceed an undisturbed one for no reason: two cores are shared."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not be."""

    key: Key
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}"


@dataclass(frozen=True, slots=True)
class SeenRun:
    """What is left of a run, under the name that its faults use."""

    name: str
    ending: str | None
    """Completed, Gone, or the reason of Failed; None: the run has not ended."""
    message: str = ""
    stages: int = 0
    """Number of stages in its plan."""
    stored: tuple[tuple[int, str], ...] = ()
    """Sequence and digest of every record in the cluster."""
    measured: tuple[tuple[str, ...], ...] = ()
    """Digests of the stages that each client measured for the run, by client."""
    deployments: int = 0
    jobs: int = 0
    """Number of Jobs ever made for the run."""
    seconds: float = 0.0
    """Seconds from its creation to its end."""
    restarts: tuple[str, ...] = ()
    """Findings of its Invalid rows that tell of a restart: a sweep makes another attempt."""


@dataclass(frozen=True, slots=True)
class SeenSweep:
    """A sweep, and the names of all runs that it has created."""

    name: str
    ending: str | None
    message: str = ""
    runs: tuple[str, ...] = ()


def of_run(
    seen: SeenRun, allowed: Allowance, *, calm_seconds: float
) -> Iterator[Violation]:
    """Yield every violation of one run.

    `calm_seconds` is how long the slowest run takes without faults.
    """
    yield from _ending(seen.name, seen.ending, seen.message, allowed)
    if seen.ending == COMPLETED:
        yield from _records(seen, allowed)
    if seen.restarts and not allowed.is_aimed_at:
        found = ", ".join(seen.restarts)
        yield Violation("wrong", f"{seen.name}: {found}, and no fault restarted it")
    yield from _twice(seen, allowed)
    if allowed.late_seconds is not None and seen.ending not in (None, GONE):
        most = 2 * calm_seconds + allowed.late_seconds + CALM_SECONDS
        if seen.seconds > most:
            yield Violation(
                "late", f"{seen.name}: {seen.seconds:.0f} s, at most {most:.0f}"
            )


def of_sweep(
    seen: SeenSweep, allowed: Allowance, lost: Iterable[str]
) -> Iterator[Violation]:
    """Yield every violation of one sweep.

    `lost` holds its runs that ended in a way for which another attempt may be made.
    """
    yield from _ending(seen.name, seen.ending, seen.message, allowed)
    known = set(lost)
    for run in seen.runs:
        before, _, attempt = run.rpartition("-a")
        if before and attempt.isdecimal():
            first = before if attempt == "2" else f"{before}-a{int(attempt) - 1}"
            if first not in known:
                yield Violation(
                    "doubled", f"{run}: made although {first} was not lost"
                )


def _ending(
    name: str, ending: str | None, message: str, allowed: Allowance
) -> Iterator[Violation]:
    if ending is None:
        yield Violation("wrong", f"{name}: has not ended: {message}")
    elif ending not in allowed.endings:
        may = ", ".join(sorted(allowed.endings))
        yield Violation(
            "wrong", f"{name}: ended with {ending} ({message}); allowed: {may}"
        )


def _records(seen: SeenRun, allowed: Allowance) -> Iterator[Violation]:
    sequences = [sequence for sequence, _ in seen.stored]
    missing = sorted(set(range(seen.stages)) - set(sequences))
    if missing and not allowed.may_lose:
        yield Violation(
            "lost", f"{seen.name}: completed without the records {missing}"
        )
    measured = set(chain.from_iterable(seen.measured))
    for sequence, digest in seen.stored:
        if digest not in measured:
            yield Violation(
                "lost", f"{seen.name}: record {sequence} is not what was measured"
            )


def _twice(seen: SeenRun, allowed: Allowance) -> Iterator[Violation]:
    sequences = [sequence for sequence, _ in seen.stored]
    for sequence in sorted(
        {each for each in sequences if sequences.count(each) > 1}
    ):
        yield Violation(
            "doubled", f"{seen.name}: record {sequence} is stored twice"
        )
    stored = {digest for _, digest in seen.stored}
    sources = [client for client in seen.measured if stored & set(client)]
    if len(sources) > 1:
        yield Violation(
            "doubled", f"{seen.name}: its records are of {len(sources)} clients"
        )
    if allowed.is_aimed_at:
        return
    for what, count in (
        ("Deployments", seen.deployments),
        ("Jobs", seen.jobs),
        ("measurements", len(seen.measured)),
    ):
        if count > 1:
            yield Violation("doubled", f"{seen.name}: {count} {what}")


def leaks(
    holders: Mapping[str, str | None], wanted: Iterable[str]
) -> Iterator[Violation]:
    """Yield a violation for every holder of resources that no active run wants.

    `holders` maps what may hold something to the uid of its run. `wanted` holds the uids of active
    runs.
    """
    going_on = set(wanted)
    for name, uid in sorted(holders.items()):
        if uid not in going_on:
            yield Violation("leaked", f"{name}: no run wants it")
