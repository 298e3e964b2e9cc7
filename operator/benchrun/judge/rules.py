"""What a rule is. One family of rules a file; `stages.RULES` lists them all.

A rule looks at one stage and returns what it found: nothing when all is well. It never guesses: where its input is missing
it returns a Note that says so, because "not checked" must not read as "checked and fine".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import StageFinding
from benchrun.judge.thresholds import Thresholds
from benchrun.measure.windows import Window


@dataclass(frozen=True, slots=True)
class StageContext:
    """What is known of a stage beside its record."""

    thresholds: Thresholds
    windows: tuple[Window, ...] = ()
    """The operator's readings of the servers meanwhile, by role."""


Rule = Callable[[StageRecord, StageContext], list[StageFinding]]
