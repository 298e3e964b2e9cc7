"""How a load fared, by its requests."""

from __future__ import annotations

import pytest
from benchrun_client.contract import Limit
from benchrun_client.records import RawStage
from benchrun_client.search.course import Tally, load_result, outcome_of
from unit.client.plans import raw_stage
from unit.client.search.searches import search


def stage(*ttft_ms: float, failed: int = 0) -> RawStage:
    """Answers of three tokens, 10 ms apart, whose first came after so long; then some that failed."""
    ok = [True] * len(ttft_ms) + [False] * failed
    return raw_stage(
        ok=ok,
        ttfts=[ms / 1000 for ms in ttft_ms] + [0.0] * failed,
        itls=[[0.01, 0.01]] * len(ttft_ms) + [[]] * failed,
        output_lens=[3] * len(ttft_ms) + [0] * failed,
    )


@pytest.mark.parametrize(
    ("metric", "milliseconds", "tally"),
    [
        ("TTFT", 30, Tally(3, 2)),
        ("TTFT", 29, Tally(3, 1)),
        ("E2EL", 50, Tally(3, 2)),
        ("TPOT", 10, Tally(3, 3)),
        ("TPOT", 9, Tally(3, 0)),
        ("ITL", 10, Tally(6, 6)),
        ("ITL", 9, Tally(6, 0)),
    ],
)
def test_each_latency_is_held_against_its_own_limit(metric: str, milliseconds: int, tally: Tally) -> None:
    limit = Limit.model_validate({"metric": metric, "percentile": "90", "max_milliseconds": milliseconds})
    of = search(objectives=(limit,))
    assert load_result(of, stage(10, 30, 40)).tallies == (tally,)


def test_failed_requests_have_no_latency_and_are_counted() -> None:
    found = load_result(search(), stage(10, 10, failed=2))
    assert (found.requests, found.failed, found.tallies) == (4, 2, (Tally(2, 2),))


def test_one_token_has_no_time_per_token_after_the_first() -> None:
    of = search(objectives=(Limit(metric="TPOT", percentile="50", max_milliseconds=20),))
    assert load_result(of, raw_stage(ok=[True, True], itls=[[], [0.01]], output_lens=[1, 2])).tallies == (Tally(1, 1),)


def test_met_missed_and_neither() -> None:
    of = search()
    assert outcome_of(of, load_result(of, stage(*[50] * 60))) == "Met"
    assert outcome_of(of, load_result(of, stage(*[150] * 60))) == "Missed"
    assert outcome_of(of, load_result(of, stage(*[50] * 54, *[150] * 6))) == "Inconclusive"


def test_repeats_are_told_together() -> None:
    of = search()
    few = load_result(of, stage(*[50] * 30))
    assert outcome_of(of, few) == "Inconclusive"
    assert outcome_of(of, few + few) == "Met"


def test_every_objective_counts() -> None:
    of = search(
        objectives=(
            Limit(metric="TTFT", percentile="90", max_milliseconds=100),
            Limit(metric="TPOT", percentile="50", max_milliseconds=5),
        )
    )
    assert outcome_of(of, load_result(of, stage(*[50] * 60))) == "Missed"


def test_where_too_many_fail_the_load_is_too_much_however_fast_the_others_were() -> None:
    of = search(max_failed_percent="2")
    assert outcome_of(of, load_result(of, stage(*[50] * 98, failed=2))) == "Met"
    assert outcome_of(of, load_result(of, stage(*[50] * 97, failed=3))) == "Missed"
    assert outcome_of(of, load_result(of, stage(failed=40))) == "Missed"
