"""The answer of a search, by its judged load points."""

from collections.abc import Sequence
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.judge.results import Judged, results
from benchrun.plan import load_points, probed_load_points
from benchrun_client.contract import Axis, Probe, StageRecord, open_stage_id
from unit.judge.specs import spec, workload
from unit.measure.records import load_at, record, requests

FAST = 50_000
SLOW = 500_000
LIMIT_MS = 100


def searching(*others: dict[str, Any], **search: Any) -> BenchmarkRunSpec:
    """To 5 %, from 1 to 64."""
    fields = {"axis": "RequestRate", "from": "1", "to": "64", **search}
    return spec(
        workloads=[
            workload("chat", load={"search": fields}, requests=100),
            *others,
        ],
        objectives=[
            {"metric": "TTFT", "percentile": "90", "maxMilliseconds": LIMIT_MS}
        ],
    )


def stage(
    probe: int,
    value: str,
    slow: int,
    *,
    repeat: int = 1,
    ends: bool = False,
    failed: int = 0,
    confirms: bool = False,
    axis: Axis = "RequestRate",
) -> StageRecord:
    """A hundred requests at their rate, so many of which took too long, or failed."""
    rate = float(value)
    ttft = [SLOW if n * slow % 100 < slow else FAST for n in range(100)]
    columns = requests(
        ttft_us=ttft,
        e2el_us=[t + 100_000 for t in ttft],
        output_tokens=[11] * 100,
        start_us=[round(1e6 * n / rate) for n in range(100)],
        ok=[0] * failed + [1] * (100 - failed),
    )
    return record(
        open_stage_id("chat", probe, repeat),
        requests=columns,
        sequence=probe * 4 + repeat,
        scalars={"duration": 100 / rate + 0.2},
        load=load_at(axis, value),
        probe=Probe(ends_search=ends, confirms=confirms),
    )


def confirmed(probe: int, value: str, slow: int = 0, **changes: Any) -> StageRecord:
    """The last stage of a search: it confirms a load."""
    return stage(probe, value, slow, **({"ends": True, "confirms": True} | changes))


def judged(run_spec: BenchmarkRunSpec, records: Sequence[StageRecord]) -> Judged:
    return results(
        (*load_points(run_spec), *probed_load_points(run_spec, records)),
        records,
        (),
        spec=run_spec,
    )


def test_the_bracket_is_the_highest_load_that_met_and_the_lowest_above_that_did_not() -> (
    None
):
    looks = [
        stage(1, "1", 0),
        stage(2, "2", 60),
        stage(3, "1.414", 0),
        stage(4, "1.45", 60),
    ]
    found = judged(searching(), [*looks, confirmed(5, "1.414")])
    (answer,) = found.searches
    assert (answer.outcome, answer.lower, answer.upper, answer.upper_outcome) == (
        "Bracketed",
        "1.414",
        "1.45",
        "Missed",
    )
    assert answer.resolution_percent == pytest.approx(
        100 * (1.45 / 1.414 - 1), abs=0.001
    )
    assert (answer.probes, answer.stages) == (5, 5)
    assert (
        answer.sentence
        == "the objectives are met up to 1.414 requests a second; at 1.45 they are missed"
    )
    assert [row.load_point.partition("=")[2] for row in found.results] == [
        "1",
        "1.414",
        "1.414/confirmation",
        "1.45",
        "2",
    ]


def test_an_uncertain_load_bounds_it_and_is_told_as_such() -> None:
    records = [
        stage(1, "1", 0),
        *(stage(2, "2", 10, repeat=repeat) for repeat in (1, 2, 3)),
        confirmed(3, "1"),
    ]
    (answer,) = judged(searching(tolerancePercent="100"), records).searches
    assert (answer.outcome, answer.upper, answer.upper_outcome) == (
        "Bracketed",
        "2",
        "Inconclusive",
    )
    assert "at 2 it is not certain whether they are met" in answer.sentence
    assert (answer.probes, answer.stages) == (3, 5)


def test_none_met() -> None:
    (answer,) = judged(searching(), [stage(1, "1", 60, ends=True)]).searches
    assert (answer.outcome, answer.lower, answer.upper, answer.upper_outcome) == (
        "NoneMet",
        None,
        "1",
        "Missed",
    )
    assert answer.resolution_percent is None


def test_the_highest_load_requested_is_met() -> None:
    (answer,) = judged(
        searching(to="2"), [stage(1, "1", 0), stage(2, "2", 0), confirmed(3, "2")]
    ).searches
    assert (answer.outcome, answer.lower, answer.upper) == (
        "AtUpperBound",
        "2",
        None,
    )


def test_a_load_that_was_not_confirmed_is_not_the_answer() -> None:
    looks = [stage(1, "1", 0), stage(2, "2", 0), stage(3, "2.08", 60)]
    records = [*looks, confirmed(4, "2", 10, ends=False), confirmed(5, "1.904")]
    (answer,) = judged(searching(), records).searches
    assert (answer.lower, answer.upper, answer.upper_outcome) == (
        "1.904",
        "2",
        "Inconclusive",
    )
    # Wider than the tolerance of 5 %: 2 / 1.904.
    assert answer.outcome == "Inconclusive"


def test_a_confirmation_that_contradicts_what_was_found_leaves_it_open() -> None:
    looks = [stage(1, "1", 0), stage(2, "2", 0), stage(3, "2.08", 60)]
    (answer,) = judged(
        searching(),
        [*looks, confirmed(4, "2", 100, ends=False), confirmed(5, "1.92")],
    ).searches
    assert (answer.outcome, answer.lower, answer.upper, answer.upper_outcome) == (
        "Inconclusive",
        "1.92",
        "2",
        "Missed",
    )
    assert "at 2 they were met at first" in answer.sentence


def test_without_any_load_confirmed_the_objectives_are_neither_met_nor_missed() -> (
    None
):
    records = [
        stage(1, "1", 0),
        stage(2, "1.04", 60),
        *(confirmed(3, "1", 10, repeat=r, ends=r == 3) for r in (1, 2, 3)),
    ]
    (answer,) = judged(searching(), records).searches
    assert (answer.outcome, answer.lower, answer.upper, answer.upper_outcome) == (
        "Inconclusive",
        None,
        "1",
        "Inconclusive",
    )
    assert "did not confirm" in answer.sentence


def test_a_search_of_old_that_confirmed_nothing_says_so() -> None:
    (answer,) = judged(
        searching(), [stage(1, "1", 0), stage(2, "1.04", 60, ends=True)]
    ).searches
    assert (answer.outcome, answer.lower, answer.upper) == (
        "Inconclusive",
        "1",
        "1.04",
    )
    assert "no later stages confirmed this" in answer.sentence


def test_probes_ran_out() -> None:
    (answer,) = judged(
        searching(maxProbes=2),
        [stage(1, "1", 0), stage(2, "2", 60), confirmed(3, "1")],
    ).searches
    assert (answer.outcome, answer.resolution_percent) == ("ProbeLimit", 100.0)


def test_a_load_whose_numbers_cannot_be_trusted_meets_nothing() -> None:
    records = [
        stage(1, "1", 0),
        stage(2, "2", 0, failed=30),
        stage(3, "4", 60),
        confirmed(4, "1"),
    ]
    (answer,) = judged(searching(), records).searches
    assert (answer.outcome, answer.lower, answer.upper, answer.upper_outcome) == (
        "Inconclusive",
        "1",
        "2",
        "Inconclusive",
    )


def test_a_search_cut_short_is_incomplete_and_tells_what_it_found() -> None:
    (answer,) = judged(searching(), [stage(1, "1", 0), stage(2, "2", 60)]).searches
    assert (answer.outcome, answer.lower, answer.upper) == ("Incomplete", "1", "2")


def test_a_load_that_a_client_reports_as_two_probes_is_counted_once() -> None:
    (answer,) = judged(
        searching(), [stage(1, "1", 0), stage(2, "1", 60, ends=True)]
    ).searches
    assert (answer.outcome, answer.stages) == ("Incomplete", 1)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(
            [stage(1, "1", 0), stage(3, "1.04", 60, ends=True)], id="probe"
        ),
        pytest.param(
            [stage(1, "1", 0), stage(2, "1.04", 60, repeat=2, ends=True)],
            id="repeat",
        ),
        pytest.param([stage(2, "1.04", 60, ends=True)], id="first"),
    ],
)
def test_a_record_missing_in_between_is_noticed(records: list[StageRecord]) -> None:
    (answer,) = judged(searching(), records).searches
    assert answer.outcome == "Incomplete"


def test_a_missing_repeat_makes_its_load_point_invalid() -> None:
    found = judged(
        searching(), [stage(1, "1", 0), stage(2, "1.04", 60, repeat=2, ends=True)]
    )
    assert "RecordMissing" in found.results[1].findings


def test_nothing_measured_at_all() -> None:
    assert judged(searching(), []).searches == []


def test_the_runs_verdict_and_headline_are_of_the_load_found() -> None:
    looks = [
        stage(1, "1", 0, failed=1),
        stage(2, "2", 60, failed=30),
        stage(3, "1.04", 60),
    ]
    found = judged(searching(), [*looks, confirmed(4, "1")])
    by_load_point = {row.load_point: row.verdict for row in found.results}
    assert by_load_point["chat/rate=2"] == "Invalid"
    assert found.verdict == by_load_point["chat/rate=1/confirmation"] != "Invalid"
    if found.headline is not None:
        assert found.headline.load_point == "chat/rate=1/confirmation"


def test_neighbours_are_as_narrow_as_users_get() -> None:
    def users(
        probe: int, value: str, slow: int, *, ends: bool = False
    ) -> StageRecord:
        return stage(probe, value, slow, ends=ends, axis="Concurrency")

    run_spec = searching(axis="Concurrency", tolerancePercent="1", to="8")
    (answer,) = judged(
        run_spec,
        [
            users(1, "1", 0),
            users(2, "2", 60),
            confirmed(3, "1", axis="Concurrency"),
        ],
    ).searches
    assert (answer.axis, answer.outcome, answer.lower, answer.upper) == (
        "Concurrency",
        "Bracketed",
        "1",
        "2",
    )
    assert "met up to 1 users at once" in answer.sentence


def test_a_run_without_a_search_has_none() -> None:
    assert judged(spec(), [record()]).searches == []
