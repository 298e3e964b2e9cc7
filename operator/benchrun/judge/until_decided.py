"""What `repeats: Auto` decided, and what that took.

As for searches, the answer comes from the judged load points, not from the client's own conclusion.
"""

from collections.abc import Mapping, Sequence

from benchrun.api import (
    TRUSTED,
    BenchmarkRunSpec,
    Result,
    StageResult,
    UntilDecided,
)
from benchrun.judge.rules.rule import StageSummary
from benchrun.measure import rounded
from benchrun.plan import estimate

UNTIL_DECIDED_BYTES = 4_000  # Bytes of the status that the answer takes.
MAX_NAMED = 16  # Most load points that are named as not decided.
_SHOWN = 3  # Of them in the sentence.


def until_decided(
    spec: BenchmarkRunSpec,
    rows: Sequence[Result],
    measured: Mapping[str, Sequence[StageSummary]],
    stages: Sequence[StageResult],
    *,
    gpus: int,
) -> UntilDecided | None:
    """Return the answer; None if the spec gives a number of repeats, or nothing was measured.

    `measured` has the stages of each load point, `gpus` is the number of GPUs of all servers.
    """
    if not spec.until_decided or not stages:
        return None
    open_points = [row for row in rows if not is_decided(row)]
    requests = sum(stage.requests for stage in stages)
    seconds = (
        max(stage.last_receive_unix_us for stage in stages)
        - min(stage.first_send_unix_us for stage in stages)
    ) / 1e6
    saved = max(0, estimate(spec).requests - requests)
    summaries = [each for own in measured.values() for each in own]
    is_whole = len({each.sequence for each in summaries}) == 1 + max(
        (each.sequence for each in summaries), default=0
    )
    has_ended = any(
        each.probe is not None and each.probe.ends_search for each in summaries
    )
    outcome = _outcome(open_points) if is_whole and has_ended else "Incomplete"
    return UntilDecided.model_validate(
        {
            "outcome": outcome,
            "undecided": [row.load_point for row in open_points[:MAX_NAMED]],
            "stages": len(stages),
            "requests": requests,
            "requests_saved": saved,
            "seconds": rounded(seconds),
            "gpu_seconds": rounded(seconds * gpus) if gpus else None,
            "sentence": _sentence(
                open_points,
                outcome,
                f"{requests:,} requests in {len(stages)} stages",
                saved=saved,
            ),
        }
    )


def _outcome(open_points: Sequence[Result]) -> str:
    if any(row.verdict in TRUSTED for row in open_points):
        return "BudgetEnded"
    # The client may well have had them decided, or have given up where too many requests failed.
    return "NotValid" if open_points else "Decided"


def is_decided(row: Result) -> bool:
    """Return whether everything that is asked of a load point is decided."""
    return all(each.outcome != "Inconclusive" for each in row.objectives) and all(
        each.reached for each in row.widths
    )


def _sentence(
    open_points: Sequence[Result], outcome: str, spent: str, *, saved: int
) -> str:
    if outcome == "Decided":
        less = f", {saved:,} fewer than the most" if saved else ""
        return f"everything that was asked is decided after {spent}{less}"
    if not open_points:
        return f"the repeats did not come to their end; {spent} were measured"
    named = ", ".join(map(_named, open_points[:_SHOWN]))
    more = len(open_points) - _SHOWN
    others = f" and {more} more" if more > 0 else ""
    return f"{_ENDED[outcome]} after {spent}; not decided: {named}{others}"


_ENDED = {
    "BudgetEnded": "the budget ended",
    "NotValid": "the repeats ended",
    "Incomplete": "the repeats broke off",
}


def _named(row: Result) -> str:
    why = "" if row.verdict in TRUSTED else ", not valid"
    return f"{row.load_point} (after {row.repeats}{why})"
