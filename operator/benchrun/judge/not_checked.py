"""Rules that could not look, told in one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchrun.judge.finding import Code, Explanation, NotChecked, StageFinding

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.NOT_CHECKED: Explanation(
        meaning="What these rules look for was not looked for: their input is missing. It may be there or not.",
        remedy="The evidence names each rule and what it lacked. Counters: let client and operator reach /metrics, and leave "
        "out --disable-log-stats. Readings or requests: measure longer. At an endpoint.url only the client can look.",
    ),
}
MAX_CODES = 24
"""As many as a finding's evidence holds."""


def not_checked(where: str, missed: Sequence[NotChecked]) -> list[StageFinding]:
    """One Note that names every rule and why, or nothing."""
    if not missed:
        return []
    reasons = {each.code.value: each.why for each in missed}
    evidence = dict(list(reasons.items())[:MAX_CODES])
    return [StageFinding(Code.NOT_CHECKED, "Note", where, evidence, weight=len(reasons))]
