"""The three sentences: everything that was asked is in one of the other two."""

from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Change,
    ComparedLoadPoint,
    ComparedRun,
    Comparison,
    Gate,
    ObjectiveResult,
    Price,
    SearchResult,
    UntilDecided,
    WidthResult,
)
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.report import opening
from unit.report.html.reported_sweeps import several
from unit.report.statuses import result, status

CHEAP = Price(requests=300, repeats=3, minutes=1.5)
DEAR = Price(requests=9000, repeats=3, minutes=45, gpu_seconds=5400)


def objective(outcome: str, price: Price | None = None) -> ObjectiveResult:
    return ObjectiveResult.model_validate(
        {
            "metric": "TTFT",
            "percentile": "99",
            "maxMilliseconds": 200,
            "outcome": outcome,
            "price": price,
        }
    )


def compared(
    gate: Gate, *words: str, price: Price | None = None
) -> BenchmarkRunStatus:
    changes = [
        Change.model_validate({"metric": metric, "word": word, "price": CHEAP})
        for metric, word in zip(
            ("MeanTTFT", "MeanTPOT", "MeanE2EL"), words, strict=False
        )
    ]
    comparison = Comparison(
        baseline=ComparedRun(name="old"),
        outcome="Mixed",
        gate=gate,
        gate_price=price,
        message="",
        load_points=[ComparedLoadPoint(load_point="a", changes=changes)],
    )
    return status(result(uncertain=[])).model_copy(
        update={"comparison": comparison}
    )


def begun(of: BenchmarkRunStatus) -> opening.Opening:
    found = opening.of_run(of)
    assert found is not None
    return found


def test_what_was_asked_is_read_from_the_rows() -> None:
    of = status(
        result(objectives=[objective("Met")], repeats_planned=3),
        result("chat/concurrency=16"),
        result("rag/concurrency=2"),
    )
    assert begun(of).asked == (
        "chat at 8 and 16 users at once, 3 times each; rag at 2 users at once; "
        "TTFT p99 at most 200 ms"
    )


def test_each_outcome_stands_where_it_belongs_with_the_highest_price() -> None:
    found = begun(
        status(
            result("chat/concurrency=1", objectives=[objective("Met")]),
            result("chat/concurrency=2", objectives=[objective("Missed")]),
            result(
                "chat/concurrency=4", objectives=[objective("Inconclusive", CHEAP)]
            ),
            result(
                "chat/concurrency=8", objectives=[objective("Inconclusive", DEAR)]
            ),
        )
    )
    assert "TTFT p99 at most 200 ms Met at chat/concurrency=1;" in found.certain
    assert "TTFT p99 at most 200 ms Missed at chat/concurrency=2" in found.certain
    assert found.not_certain.startswith(
        "TTFT p99 at most 200 ms at chat/concurrency=4 and chat/concurrency=8 "
        f"(up to about {DEAR.in_words}, at chat/concurrency=8)"
    )


def test_widths_are_asked_and_stand_where_they_belong() -> None:
    wide, narrow = (
        WidthResult(metric="TTFT", percentile="99", percent="5", reached=reached)
        for reached in (False, True)
    )
    decided = UntilDecided.model_validate(
        {
            "outcome": "BudgetEnded",
            "stages": 4,
            "requests": 400,
            "requests_saved": 0,
            "seconds": 1,
            "sentence": "",
        }
    )
    of = status(
        result("chat/concurrency=1", widths=[narrow], uncertain=[]),
        result(
            "chat/concurrency=2", widths=[wide], uncertain=[], repeats_planned=3
        ),
    )
    found = begun(of.model_copy(update={"until_decided": decided}))
    text = "TTFT p99 to within 5 %"
    assert (
        found.asked
        == f"chat at 1 and 2 users at once, until all is decided; {text}"
    )
    assert f"{text} at chat/concurrency=1" in found.certain
    assert found.not_certain == f"{text} at chat/concurrency=2"


def test_percentiles_are_counted_with_their_price() -> None:
    found = begun(
        status(result(prices={"p99_ttft_ms": CHEAP, "p99_e2el_ms": DEAR}))
    )
    assert "2 of 4 percentiles" in found.certain
    assert (
        f"2 of 4 percentiles (up to about {DEAR.in_words}, at" in found.not_certain
    )
    assert begun(status(result(uncertain=[]))).not_certain == (
        "nothing that was asked"
    )


def test_an_untrusted_row_is_certain_of_nothing() -> None:
    found = begun(status(result(verdict="Invalid", objectives=[])))
    assert found.certain == "nothing"
    assert "any figure at chat/concurrency=8" in found.not_certain


@pytest.mark.parametrize("gate", ["NotRegressed", "Regressed", "RegressedHere"])
def test_a_decided_gate_is_certain(gate: Gate) -> None:
    found = begun(compared(gate, "Better", "Worse", "NoDetectableDifference"))
    assert "than is allowed" in found.certain
    assert "of 3 changes 1 better, 1 worse" in found.certain
    assert found.not_certain == f"1 of 3 changes (about {CHEAP.in_words})"


@pytest.mark.parametrize(
    ("gate", "price"),
    [("Underpowered", DEAR), ("Inconclusive", None), ("NotRegressedHere", DEAR)],
)
def test_an_open_gate_is_not(gate: Gate, price: Price | None) -> None:
    found = begun(compared(gate, price=price))
    assert "whether any figure got worse" in found.not_certain
    assert (DEAR.in_words in found.not_certain) is (price is not None)


@pytest.mark.parametrize(
    ("outcome", "lower", "upper_outcome", "is_found"),
    [
        ("Bracketed", "4", "Missed", True),
        ("ProbeLimit", "4", "Inconclusive", True),
        ("NoneMet", None, "Missed", True),
        ("NoneMet", None, "Inconclusive", False),
        ("Inconclusive", "4", "Missed", False),
        ("Incomplete", "4", None, False),
    ],
)
def test_a_search_has_its_own_sentence(
    outcome: str, lower: str | None, upper_outcome: str | None, *, is_found: bool
) -> None:
    search = SearchResult.model_validate(
        {
            "workload": "chat",
            "axis": "Concurrency",
            "outcome": outcome,
            "lower": lower,
            "upper_outcome": upper_outcome,
            "probes": 1,
            "stages": 1,
            "sentence": "the objectives are met up to 4",
        }
    )
    of = status(result(objectives=[objective("Missed")], uncertain=[]))
    found = begun(of.model_copy(update={"searches": [search]}))
    assert found.asked.startswith("the most users at once of chat")
    told = found.certain if is_found else found.not_certain
    assert "chat: the objectives are met up to 4" in told
    assert "Missed" not in found.certain


def test_many_names_are_counted() -> None:
    rows = [result(f"chat/concurrency={n}") for n in range(1, 20)]
    assert (
        "1, 2, 3, 4, 5, 6, 7 and 12 more users at once"
        in begun(status(*rows)).asked
    )


def test_without_results_there_is_nothing_to_begin_with() -> None:
    assert opening.of_run(status()) is None
    assert opening.of_sweep(BenchmarkSweepStatus()) is None


def test_a_sweep_names_the_best_and_what_may_be_better() -> None:
    found = opening.of_sweep(several().status)
    assert found is not None
    assert found.asked.endswith("compared with baseline")
    assert "everything at chat/concurrency=64 is best" in found.certain
    assert "may be better than prefix-caching" in found.not_certain
    assert "not measured" in found.not_certain


def test_each_is_a_sentence() -> None:
    sentences: Any = begun(status(result())).sentences
    assert [each.partition(":")[0] for each in sentences] == [
        "Asked",
        "Certain",
        "Not certain",
    ]
    assert all(each.endswith(".") for each in sentences)
