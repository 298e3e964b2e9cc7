"""The newest runs that have ended, and their headline figures: what stays in memory of results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchrun.observe.finished import FinishedRun

MAX_RUNS = 100
"""Most runs that can be asked for: with 16 load points and 8 figures each, 1 MB kept and a page of 1.3 MB."""

Key = tuple[str, str]
"""Namespace and name of a run."""


@dataclass(frozen=True, slots=True)
class _Kept:
    uid: str
    run: FinishedRun


class LatestResults:
    """At most `most` runs; one that ended later takes the place of the one that ended first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._kept: dict[Key, _Kept] = {}

    def __iter__(self) -> Iterator[tuple[Key, FinishedRun]]:
        """The runs, by namespace and name."""
        return iter([(key, kept.run) for key, kept in sorted(self._kept.items(), key=lambda item: item[0])])

    def note(self, key: Key, uid: str, run: FinishedRun | None) -> None:
        """What a run's status says; None of a run that goes on, which may be a new one of an old name."""
        if run is not None:
            self._kept[key] = _Kept(uid, run)
            if len(self._kept) > self._most:
                del self._kept[min(self._kept, key=self._age)]
        elif key in self._kept and self._kept[key].uid != uid:
            del self._kept[key]

    def drop(self, key: Key) -> None:
        """The run is gone. An older one takes its place when the runs are listed again."""
        self._kept.pop(key, None)

    def _age(self, key: Key) -> tuple[float, Key]:
        return self._kept[key].run.ended_at.timestamp(), key
