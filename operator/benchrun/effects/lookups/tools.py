"""What look-ups work with, and what is said of each kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchrun.decide.collected import Arrival
from benchrun.decide.decision import GpuExporters
from benchrun.effects.judge_child import JudgeChild
from benchrun.effects.kubernetes_api import Cluster
from benchrun.measure.samples import Sample
from benchrun.observe.views import Children, Run


class NotFoundOut(Exception):
    """A look-up came to nothing; the text says why."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The outside world."""

    cluster: Cluster
    judge: JudgeChild
    exporters: GpuExporters | None = None


@dataclass(frozen=True, slots=True)
class About:
    """The run that is asked about, as it was at that moment."""

    run: Run
    children: Children
    arrivals: tuple[Arrival, ...] = ()
    """Records that are not known to be stored."""
    samples: tuple[Sample, ...] = ()
    """Samples that are not stored."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of question is answered."""

    look_up: Callable[[Tools, About, Any], Awaitable[Any]]
    """The answer. Raises ClusterError, or NotFoundOut."""
    seconds: float
    """Longest time that it may take."""
    again_seconds: float | None = None
    """When to try again after it failed, while it is still asked for; None: never."""
