"""The table of a comparison, load point by load point, and the sentences that go with it."""

from typing import Any, get_args

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Change,
    ComparedLoadPoint,
    Gate,
    Price,
    Truncated,
    Word,
)
from benchrun.report.comparison_rows import (
    GATES,
    LOG_RULE,
    Difference,
    comparison_rows,
    differences,
    prices,
    reasons,
    unpaired,
)
from unit.report.statuses import result


def change(**fields: Any) -> Change:
    values: dict[str, Any] = {
        "metric": "MeanTTFT",
        "baseline": 43.0,
        "value": 60.0,
        "change_percent": 39.53,
        "low_percent": 36.9,
        "high_percent": 42.2,
        "word": "Worse",
    }
    return Change(**(values | fields))


def load_point(
    name: str = "chat/rate=4", *changes: Change, **fields: Any
) -> ComparedLoadPoint:
    return ComparedLoadPoint(load_point=name, changes=list(changes), **fields)


def test_every_column_of_a_figure() -> None:
    rows = comparison_rows([load_point("chat/rate=4", change())])
    assert dict(zip(rows.headers, rows.rows[0], strict=True)) == {
        "load point": "chat/rate=4",
        "figure": "MeanTTFT",
        "baseline": "43",
        "value": "60",
        "change": "+39.5 %",
        "interval": "+36.9 to +42.2",
        "word": "Worse",
    }


def test_figures_of_a_comparison_have_four_digits() -> None:
    row = comparison_rows(
        [load_point("c", change(baseline=1234.56, value=0.123456))]
    ).rows[0]
    assert row[2:4] == ("1235", "0.1235")


def test_an_unknown_value_is_a_dash_in_its_column() -> None:
    nothing = {
        "baseline": None,
        "value": None,
        "change_percent": None,
        "low_percent": None,
        "high_percent": None,
    }
    assert comparison_rows(
        [load_point("c", change(**nothing, word="Unknown"))]
    ).rows == (("c", "MeanTTFT", "-", "-", "-", "-", "Unknown"),)


@pytest.mark.parametrize("word", get_args(Word))
def test_only_no_detectable_difference_is_shortened(word: Word) -> None:
    shown = comparison_rows([load_point("c", change(word=word))]).rows[0][-1]
    assert shown == ("not detected" if word == "NoDetectableDifference" else word)


def test_a_row_a_figure_in_order_and_one_for_a_load_point_that_cannot_be_compared() -> (
    None
):
    rows = comparison_rows(
        [
            load_point("b", change(metric="MeanTTFT"), change(metric="MeanTPOT")),
            load_point("a", change(), reason="another GPU"),
            load_point("c"),
        ]
    ).rows
    assert [row[:2] for row in rows] == [
        ("b", "MeanTTFT"),
        ("b", "MeanTPOT"),
        ("a", "-"),
    ]
    assert rows[2] == ("a", "-", "-", "-", "-", "-", "NotComparable")


def test_reasons_are_reported_once_and_those_of_load_points_first() -> None:
    found = reasons(
        [
            load_point(
                "a",
                change(reason="one repeat"),
                change(reason="one repeat"),
                change(),
            ),
            load_point("b", change(reason="too few")),
            load_point("c", reason="another GPU"),
            load_point("d", reason="another GPU"),
        ]
    )
    assert found == ["c: another GPU", "d: another GPU", "one repeat", "too few"]
    assert reasons([load_point("a", change())]) == []


def test_equal_traffic_is_required_of_load_points_that_were_compared() -> None:
    load_points = [
        load_point("paired", paired=True),
        load_point("not"),
        load_point("left-out", reason="another GPU"),
    ]
    assert unpaired(load_points) == ["not"]


def test_every_gate_has_its_sentence() -> None:
    assert set(GATES) == set(get_args(Gate))


LOAD_POINT = "chat/rate=4"


def judged(
    verdict: str = "Valid", *findings: str, load_point: str = LOAD_POINT
) -> BenchmarkRunStatus:
    return BenchmarkRunStatus(
        results=[
            result(
                load_point,
                axis="RequestRate",
                verdict=verdict,
                findings=list(findings),
            )
        ]
    )


def only(
    before: BenchmarkRunStatus, after: BenchmarkRunStatus, *, log_kept: bool = True
) -> Difference:
    (found,) = differences(before, after, log_kept=log_kept)
    return found


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        pytest.param(
            ("Valid",),
            ("Suspect", "Drift"),
            "was Valid, now Suspect: Drift",
            id="appeared",
        ),
        pytest.param(
            ("Suspect", "Drift"),
            ("Valid",),
            "was Suspect, now Valid: no Drift",
            id="gone",
        ),
        pytest.param(
            ("Suspect", "Drift"),
            ("Suspect", "ColdStart"),
            "still Suspect: ColdStart, no Drift",
            id="one-for-another",
        ),
        pytest.param(
            ("Suspect", "Drift"),
            ("Invalid", "Drift"),
            "was Suspect, now Invalid: Drift is more severe",
            id="worse",
        ),
        pytest.param(
            ("Invalid", "Drift"),
            ("Suspect", "Drift"),
            "was Invalid, now Suspect: Drift is less severe",
            id="better",
        ),
        pytest.param(
            ("Suspect", "Drift"),
            ("Invalid", "RequestsFailed", "Drift"),
            "was Suspect, now Invalid: RequestsFailed",
            id="a-new-one-explains-it",
        ),
        pytest.param(
            ("Invalid", "RequestsFailed", "Drift"),
            ("Suspect", "Drift"),
            "was Invalid, now Suspect: no RequestsFailed",
            id="one-that-went-explains-it",
        ),
        pytest.param(
            ("Suspect", "Drift"),
            ("Invalid", "Drift", "ColdStart"),
            "was Suspect, now Invalid: Drift is more severe, ColdStart",
            id="both",
        ),
        pytest.param(
            ("Valid",),
            ("Unknown",),
            "was Valid, now Unknown",
            id="for-no-reason-told",
        ),
    ],
)
def test_the_sentence_names_what_moved(
    before: tuple[str, ...], after: tuple[str, ...], sentence: str
) -> None:
    found = only(judged(*before), judged(*after))
    assert found.sentence == f"{LOAD_POINT}: {sentence}"
    assert (found.load_point, found.was, found.now) == (
        LOAD_POINT,
        before[0],
        after[0],
    )


def test_appeared_and_gone_codes_are_listed() -> None:
    found = only(
        judged("Suspect", "Drift", "ColdStart"),
        judged("Suspect", "Drift", "Preempted"),
    )
    assert (found.appeared, found.gone) == (("Preempted",), ("ColdStart",))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            judged("Suspect", "Drift"), judged("Suspect", "Drift"), id="the-same"
        ),
        pytest.param(
            judged("Suspect", "Drift", "ColdStart"),
            judged("Suspect", "ColdStart", "Drift"),
            id="in-another-order",
        ),
        pytest.param(
            judged("Valid"), judged("Valid", "NotChecked"), id="not-checked-now"
        ),
        pytest.param(
            judged("Valid", "NotChecked"), judged("Valid"), id="not-checked-then"
        ),
        pytest.param(
            judged("Valid"),
            judged("Invalid", load_point="rag/rate=4"),
            id="a-load point-only-now",
        ),
        pytest.param(
            judged("Invalid"), BenchmarkRunStatus(), id="a-load point-only-then"
        ),
    ],
)
def test_equal_servers_have_no_differences(
    before: BenchmarkRunStatus, after: BenchmarkRunStatus
) -> None:
    assert differences(before, after, log_kept=True) == ()


@pytest.mark.parametrize(
    ("log_kept", "words"),
    [(True, f"no {LOG_RULE}"), (False, f"{LOG_RULE} was not checked")],
)
def test_compilations_without_the_log_are_not_said_to_be_gone(
    log_kept: bool, words: str
) -> None:
    found = only(judged("Suspect", LOG_RULE), judged("Valid"), log_kept=log_kept)
    assert found.sentence == f"{LOAD_POINT}: was Suspect, now Valid: {words}"


def test_other_codes_do_not_rest_on_the_log() -> None:
    assert only(
        judged("Suspect", "Drift"), judged("Valid"), log_kept=False
    ).sentence.endswith(": no Drift")


@pytest.mark.parametrize("side", ["stored", "now"])
def test_where_codes_were_cut_only_verdicts_are_compared(side: str) -> None:
    cut: Any = [Truncated(field="results[].findings", included=1, total=2)]
    stored = judged("Suspect", "Drift")
    now = judged("Suspect", "ColdStart")
    (stored if side == "stored" else now).truncated.extend(cut)
    assert differences(stored, now, log_kept=True) == ()
    worse = judged("Invalid", "ColdStart").model_copy(update={"truncated": cut})
    assert only(stored, worse).sentence == f"{LOAD_POINT}: was Suspect, now Invalid"
    assert (only(stored, worse).appeared, only(stored, worse).gone) == ((), ())


def test_another_list_that_was_cut_hides_no_codes() -> None:
    stored = judged("Suspect", "Drift")
    stored.truncated.append(Truncated(field="timeline", included=1, total=2))
    assert only(stored, judged("Suspect", "ColdStart")).appeared == ("ColdStart",)


def test_load_points_come_in_the_order_of_the_new_judgement() -> None:
    both = BenchmarkRunStatus(
        results=[
            result(c, axis="RequestRate", verdict="Valid")
            for c in ("a/rate=1", "b/rate=1")
        ]
    )
    now = BenchmarkRunStatus(
        results=[
            result(c, axis="RequestRate", verdict="Invalid")
            for c in ("b/rate=1", "a/rate=1")
        ]
    )
    assert [each.load_point for each in differences(both, now, log_kept=True)] == [
        "b/rate=1",
        "a/rate=1",
    ]


def test_each_price_is_told_once_the_cheapest_first() -> None:
    cheap = Price(repeats=3, minutes=2)
    dear = Price(repeats=9, minutes=6)

    def at(load_point: str, *of: tuple[str, Price | None]) -> ComparedLoadPoint:
        return ComparedLoadPoint.model_validate(
            {
                "loadPoint": load_point,
                "changes": [
                    {"metric": metric, "word": "NoDetectableDifference", "price": p}
                    for metric, p in of
                ],
            }
        )

    told = prices(
        [
            at("a", ("MeanTTFT", dear), ("MeanTPOT", cheap), ("MeanE2EL", cheap)),
            at("b", ("MeanTTFT", cheap), ("MeanITL", None)),
        ]
    )
    assert told == [
        f"about {cheap.in_words} would decide MeanTPOT, MeanE2EL at a; MeanTTFT at b",
        f"about {dear.in_words} would decide MeanTTFT at a",
    ]
