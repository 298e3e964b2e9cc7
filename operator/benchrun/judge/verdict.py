"""Verdicts: a stage is as good as its worst finding, a cell as its worst stage, a run as its worst cell."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api.status import Verdict
from benchrun.judge.finding import StageFinding

_WORST_LAST: tuple[Verdict, ...] = ("Unknown", "Valid", "Suspect", "Invalid")


def verdict_of_findings(findings: Iterable[StageFinding]) -> Verdict:
    """Of a stage that was judged: a Note is no blemish."""
    return worst("Valid" if finding.severity == "Note" else finding.severity for finding in findings) or "Valid"


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The worst of several; Unknown (nothing was measured) counts only where there is nothing else. None if there are none."""
    return max(verdicts, key=_WORST_LAST.index, default=None)
