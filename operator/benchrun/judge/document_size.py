"""Cut a result document until it is within its size limits; few runs ever need a cut.

The least important parts are cut first. Every cut is listed in the document's `truncated`.
"""

from collections.abc import Callable, Sized
from functools import partial
from typing import NamedTuple

from benchrun.api import (
    MAX_PACKED_RESULT_BYTES,
    MAX_RESULT_BYTES,
    ResultDocument,
    StageResult,
    packed_json,
    result_json,
)
from benchrun.judge.status_size import (
    ROW_CUTS,
    RowCut,
    cut_to,
    row_truncations,
    truncations,
)

_Cut = Callable[[ResultDocument], ResultDocument]


class PackedDocument(NamedTuple):
    """A result document that is within its size limits, with its packed bytes."""

    document: ResultDocument
    data: bytes


def packed_document(
    whole: ResultDocument,
    *,
    max_bytes: int = MAX_RESULT_BYTES,
    max_packed_bytes: int = MAX_PACKED_RESULT_BYTES,
) -> PackedDocument:
    """Pack as much of a document as fits; the same document always gives the same bytes."""

    def fullness(document: ResultDocument) -> int:
        """Return how full a document is, in thousandths of its size limit, rounded up.

        There are two limits, for the JSON and for the packed bytes; the fuller one counts.
        """
        text = result_json(_counted(whole, document))
        if len(text) > max_bytes:
            return -(-1000 * len(text) // max_bytes)
        return -(-1000 * len(packed_json(text)) // max_packed_bytes)

    kept = _counted(
        whole,
        cut_to(1000, whole, size=fullness, cuts=_CUTS, shorter=_with_fewer_stages),
    )
    return PackedDocument(kept, packed_json(result_json(kept)))


def _counted(whole: ResultDocument, kept: ResultDocument) -> ResultDocument:
    """Return the cut document, in which `truncated` counts what was cut from each list."""
    if kept is whole:
        return whole
    counts = [
        ("stages", len(whole.stages), len(kept.stages)),
        (
            "stages[].distributions",
            *_both(whole, kept, lambda each: each.distributions),
        ),
        ("stages[].replicas", *_both(whole, kept, lambda each: each.replicas)),
        ("distributions", len(whole.distributions), len(kept.distributions)),
        (
            "timeline",
            int(whole.timeline is not None),
            int(kept.timeline is not None),
        ),
    ]
    rows = row_truncations(whole.results, kept.results)
    return kept.model_copy(update={"truncated": [*truncations(counts), *rows]})


def _both(
    whole: ResultDocument, kept: ResultDocument, of: Callable[[StageResult], Sized]
) -> tuple[int, int]:
    """Return how many entries of a list all stages have, in the whole and in the cut document."""
    total, included = (
        sum(len(of(each)) for each in one.stages) for one in (whole, kept)
    )
    return total, included


def _without_of_stages(name: str, document: ResultDocument) -> ResultDocument:
    empty = StageResult.model_fields[name].get_default(call_default_factory=True)
    stages = [each.model_copy(update={name: empty}) for each in document.stages]
    return document.model_copy(update={"stages": stages})


def _without_pooled(document: ResultDocument) -> ResultDocument:
    return document.model_copy(update={"distributions": []})


def _without_timeline(document: ResultDocument) -> ResultDocument:
    return document.model_copy(update={"timeline": None})


def _of_rows(cut: RowCut, document: ResultDocument) -> ResultDocument:
    return document.model_copy(update={"results": list(map(cut, document.results))})


def _with_fewer_stages(document: ResultDocument) -> ResultDocument:
    """Drop the last quarter of the stages or, if none are left, the last row."""
    if document.stages:
        left = document.stages[: len(document.stages) * 3 // 4]
        return document.model_copy(update={"stages": left})
    return document.model_copy(update={"results": document.results[:-1]})


_CUTS: tuple[_Cut, ...] = (
    partial(_without_of_stages, "distributions"),
    partial(_without_of_stages, "replicas"),
    _without_pooled,
    *(partial(_of_rows, cut) for cut in ROW_CUTS),
    _without_timeline,
)
"""Cuts in the order in which they are made: the least important parts go first."""
