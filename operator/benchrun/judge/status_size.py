"""Cut results and findings to their share of the status.

The status stays under 100 kB whatever the spec asks for; the records keep everything. The least
important parts are cut first, and every cut is listed in `truncated`. A row that stays always keeps
its verdict, throughput and mean TTFT, TPOT and E2EL (of the steady part, if it has one), the digest
of the traffic, and the mark on an uncertain percentile that is shown.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import partial
from operator import attrgetter
from typing import TypeVar

from pydantic import BaseModel

from benchrun.api import (
    ComparedLoadPoint,
    Finding,
    Result,
    Truncated,
    Word,
    json_name,
)
from benchrun.api.sweep import SweepRow
from benchrun.measure import percentile_word

MAX_BYTES = 85_050
"""Most bytes of results and findings together, empty fields included, although these are not
stored. This leaves 16 kB for conditions, servers and the tail of a log."""
PROFILE_BYTES = 4_000
"""Bytes of `MAX_BYTES` that a profile takes: a dozen kernels by name, its sentence, and its
addition to a load point's sentence."""
MAX_CODES = 3  # Findings kept in a row that is cut; the worst are first.

T = TypeVar("T")
Changed = TypeVar("Changed", ComparedLoadPoint, SweepRow)
RowCut = Callable[[Result], Result]


def cut_to(
    max_bytes: int,
    whole: T,
    *,
    size: Callable[[T], int],
    cuts: Iterable[Callable[[T], T]],
    shorter: Callable[[T], T],
) -> T:
    """Return as much of `whole` as fits into `max_bytes`.

    `cuts` are applied one after the other until it fits. Then `shorter` drops entries until it fits
    or nothing is left to drop.
    """
    kept = whole
    for cut in cuts:
        if size(kept) <= max_bytes:
            return kept
        kept = cut(kept)
    while size(kept) > max_bytes and (less := shorter(kept)) != kept:
        kept = less
    return kept


def truncations(counts: Iterable[tuple[str, int, int]]) -> list[Truncated]:
    """Return an entry for each list that was cut.

    `counts` has the name of a field, the number of its entries in the whole, and the number of
    entries that are kept.
    """
    return [
        Truncated(field=name, total=total, included=left)
        for name, total, left in counts
        if left < total
    ]


def json_bytes(entries: Iterable[BaseModel], *, exclude_none: bool = True) -> int:
    """Return the size of the entries in a JSON list, in bytes."""
    return sum(
        len(each.model_dump_json(by_alias=True, exclude_none=exclude_none).encode())
        + 1
        for each in entries
    )


def without_changes(entries: Iterable[Changed], word: Word) -> list[Changed]:
    """Return copies of the entries that lack their changes with this outcome."""
    return [
        each.model_copy(
            update={"changes": [c for c in each.changes if c.word != word]}
        )
        for each in entries
    ]


def fitted(
    whole: list[Result],
    findings: Sequence[Finding] = (),
    *,
    max_bytes: int = MAX_BYTES,
) -> tuple[list[Result], list[Truncated]]:
    """Cut the rows until they fit beside the findings.

    Kinds of figures are cut one after the other; at last whole rows are cut, from the end. Return
    the rows that are kept and the lists that were truncated.
    """
    kept = cut_to(
        max_bytes - json_bytes(findings, exclude_none=False),
        whole,
        size=partial(json_bytes, exclude_none=False),
        cuts=(partial(_of_rows, cut=cut) for cut in ROW_CUTS),
        shorter=lambda rows: rows[:-1],
    )
    return kept, row_truncations(whole, kept)


def row_truncations(
    whole: Sequence[Result], kept: Sequence[Result]
) -> list[Truncated]:
    """Return which lists were cut: the rows, and each kind of list within them."""
    lists = [
        (name, [of(row) for row in whole], [of(row) for row in kept])
        for name, of in _LISTS.items()
    ]
    counts = (
        (f"results[].{name}", sum(map(len, every)), sum(map(len, left)))
        for name, every, left in lists
    )
    return truncations((("results", len(whole), len(kept)), *counts))


MAX_COMPARISON_BYTES = 16_000  # Bytes for the load points of a comparison.
# Also the message, which the condition repeats, and settings that differ.
COMPARISON_BYTES = MAX_COMPARISON_BYTES + 6_000
_WORDS: tuple[Word, ...] = (
    "NotComparable",
    "Unknown",
    "Equivalent",
    "NoDetectableDifference",
    "Better",
)


def fitted_load_points(
    whole: list[ComparedLoadPoint], *, max_bytes: int = MAX_COMPARISON_BYTES
) -> tuple[list[ComparedLoadPoint], list[Truncated]]:
    """Cut the load points of a comparison until they fit.

    First the changes of one outcome after the other are cut, then whole load points from the end.
    The message still counts all changes. Return the load points that are kept and the lists that
    were truncated.
    """
    cuts = (partial(without_changes, word=word) for word in _WORDS)
    kept = cut_to(
        max_bytes,
        whole,
        size=json_bytes,
        cuts=cuts,
        shorter=lambda load_points: load_points[:-1],
    )
    changes = [
        sum(len(load_point.changes) for load_point in load_points)
        for load_points in (whole, kept)
    ]
    counts = (
        ("comparison.loadPoints", len(whole), len(kept)),
        ("comparison.loadPoints[].changes", changes[0], changes[1]),
    )
    return kept, truncations(counts)


def _of_rows(rows: list[Result], cut: RowCut) -> list[Result]:
    return list(map(cut, rows))


def _without(pattern: str) -> RowCut:
    """Return a cut that drops the figures whose key begins with this pattern.

    An interval or a mark goes with its figure.
    """
    gone = re.compile(pattern)

    def cut(row: Result) -> Result:
        by_key = {
            name: getattr(row, name).items()
            for name in ("metrics", "steady", "intervals", "prices")
        }
        kept = {
            name: {k: v for k, v in figures if not gone.match(k)}
            for name, figures in by_key.items()
        }
        return row.model_copy(
            update={
                **kept,
                "uncertain": [key for key in row.uncertain if not gone.match(key)],
            }
        )

    return cut


def _without_outcome(outcome: str) -> RowCut:
    return lambda row: row.model_copy(
        update={"objectives": [o for o in row.objectives if o.outcome != outcome]}
    )


def _without_explained_evidence(row: Result) -> Result:
    """Drop the evidence of explanations; their sentences have the numbers."""
    explained = {"waiting": row.waiting, "bottleneck": row.bottleneck}
    bare = {
        k: v.model_copy(update={"evidence": {}}) for k, v in explained.items() if v
    }
    answers = [
        each.model_copy(update={"evidence": {}}) for each in row.explanations
    ]
    return row.model_copy(update={**bare, "explanations": answers})


def _highest_percentile_only(row: Result) -> Result:
    """Keep only the highest percentile that can be relied on; if none can, the highest of all."""
    every = {
        float(key[1 : key.index("_")])
        for key in row.metrics
        if _PERCENTILE.match(key)
    }
    certain = every - {float(key[1 : key.index("_")]) for key in row.uncertain}
    highest = max(certain or every, default=0.0)
    return _without(rf"p(?!{re.escape(percentile_word(str(highest)))}_)[0-9.]+_")(
        row
    )


def _worst_objective_only(row: Result) -> Result:
    # Missed without a figure: the percentile is a failed request.
    failed = [
        o
        for o in row.objectives
        if o.outcome == "Missed" and o.measured_milliseconds is None
    ]
    worst = sorted(
        row.objectives,
        key=lambda o: -(o.measured_milliseconds or 0) / o.max_milliseconds,
    )
    return row.model_copy(update={"objectives": [*failed, *worst][:1]})


def _without_good_news(row: Result) -> Result:
    """Drop explanations which say that nothing waited or limits, or that differences are noise."""
    waited = row.waiting if row.waiting and row.waiting.reason != "None" else None
    bottleneck = (
        row.bottleneck
        if row.bottleneck and row.bottleneck.limit != "None"
        else None
    )
    answers = [each for each in row.explanations if each.answer != "Noise"]
    return row.model_copy(
        update={
            "waiting": waited,
            "bottleneck": bottleneck,
            "explanations": answers,
        }
    )


def _without_field(field: str) -> RowCut:
    """Return a cut that sets a field to its default: an empty list or dictionary, or None."""
    empty = Result.model_fields[field].get_default(call_default_factory=True)
    return lambda row: row.model_copy(update={field: empty})


def _without_whole_stage_latencies(row: Result) -> Result:
    """Drop latencies of the whole stage if the row also has them for its steady part."""
    kept = {
        key: value
        for key, value in row.metrics.items()
        if not (row.has_plateau and key.endswith("_ms") and key in row.steady)
    }
    return row.model_copy(update={"metrics": kept})


_PERCENTILE = re.compile(r"p[0-9.]+_")
ROW_CUTS: tuple[RowCut, ...] = (
    _without("std_"),
    _without("median_"),
    _without_field("by_repeat"),
    _without_field("prices"),
    _without_explained_evidence,
    _highest_percentile_only,
    _without(r".*_(client_queue_time|e2el_including_client_queue)_ms"),
    _without_whole_stage_latencies,
    _without_field("intervals"),
    lambda row: row.model_copy(update={"findings": row.findings[:MAX_CODES]}),
    _without_good_news,
    _without_field("waiting"),
    _without_field("explanations"),
    _without(r".*_itl_ms|total_(input|output)_tokens|duration$"),
    _without_field("roles"),
    _without_field("bottleneck"),
    _without_outcome("Inconclusive"),
    _without(_PERCENTILE.pattern),
    _without_outcome("Met"),
    _without_field("widths"),
    _worst_objective_only,
    _without_field("repeat_cv_percent"),
    _without_field("objectives"),
)


_FIELDS = (
    "metrics",
    "steady",
    "intervals",
    "prices",
    "objectives",
    "widths",
    "findings",
    "roles",
    "repeat_cv_percent",
    "by_repeat",
    "explanations",
)
_LISTS: Mapping[str, Callable[[Result], Sized]] = {
    **{json_name(name): attrgetter(name) for name in _FIELDS},
    "waiting": lambda row: [row.waiting] if row.waiting else [],
    "waiting.evidence": lambda row: row.waiting.evidence if row.waiting else [],
    "bottleneck": lambda row: [row.bottleneck] if row.bottleneck else [],
    "bottleneck.evidence": lambda row: (
        row.bottleneck.evidence if row.bottleneck else []
    ),
}
