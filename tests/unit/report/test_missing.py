"""What a finished run did not keep, in sentences."""

from __future__ import annotations

import pytest
from benchrun.api import BenchmarkRunStatus, Truncated
from benchrun.report.run_summary import missing_sentences
from unit.report.statuses import result


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        (1, "judged by 2 of its 3 repeats, since the other records are not kept"),
        (2, "judged by 1 of its 3 repeats, since the other records are not kept"),
        (3, "not judged, since none of its records is kept"),
        (4, "not judged, since none of its records is kept"),
    ],
)
def test_how_much_of_a_cell_is_left(lost: int, sentence: str) -> None:
    stored = BenchmarkRunStatus(results=[result("a/rate=1", axis="rate", repeats=3)])
    assert missing_sentences(stored, {"a/rate=1": lost}) == [f"a/rate=1: {sentence}"]


def test_of_a_cell_that_has_no_row_nobody_knows_how_many_there_were() -> None:
    assert missing_sentences(BenchmarkRunStatus(), {"a/rate=1": 1}) == ["a/rate=1: not all of its records are kept"]


def test_nothing_is_missing() -> None:
    assert missing_sentences(BenchmarkRunStatus(results=[result()]), {}) == []


def test_a_timeline_that_was_cut_is_told_last_and_no_other_list_is() -> None:
    cut = [
        Truncated(field=field, included=place, total=place + 3)
        for place, field in enumerate(("results", "findings", "timeline"))
    ]
    told = missing_sentences(BenchmarkRunStatus(truncated=cut), {"a/rate=1": 1})
    assert told == [
        "a/rate=1: not all of its records are kept",
        "2 of 5 chunks of the timeline were kept: samples of the servers are missing, and findings that rest on them may differ",
    ]
