"""What the judge expects of an engine that is given whole loads: no gaps between tokens, no plateau
of batches."""

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.judge.rules.client import client_saturated, client_throttled
from benchrun.judge.rules.failures_and_tokens import chunks_are_not_tokens
from benchrun.judge.rules.load import all_at_once
from benchrun.judge.rules.steady_state import not_steady_state
from benchrun.judge.stage_facts import ExpectedStage, StageFacts, expected_stage
from benchrun.measure import NoPlateau
from benchrun.plan import load_points
from benchrun_client.contract import GapCounts, StageRecord
from unit.judge.stages import batches, context, open_loop_load
from unit.measure.records import client, record, requests
from unit.plan.specs import spec_body, workload

SECOND = 1_000_000
BATCHES = batches(4, offline=True)


def of_batches(count: int = 12, size: int = 4) -> StageRecord:
    """Batches of 4, a second each, one after the other; nobody knows their gaps."""
    total = count * size
    columns = requests(
        start_us=[n // size * SECOND for n in range(total)],
        queue_us=[0] * total,
        ttft_us=[SECOND // 4] * total,
        e2el_us=[SECOND] * total,
        output_tokens=[16] * total,
    )
    return record(
        requests=columns, gaps=GapCounts(), scalars={"duration": float(count)}
    )


def offline_load(load: dict[str, object]) -> ExpectedStage:
    body = spec_body(
        server=None, offline={"image": "v"}, workloads=[workload(load=load)]
    )
    spec = BenchmarkRunSpec.model_validate(body)
    return expected_stage(spec, load_points(spec)[-1])


def test_a_batch_is_a_bound_and_no_closed_loop() -> None:
    expected = offline_load({"batchSizes": [1, 4]})
    load = expected.load
    assert (load.rate, load.cap, load.closed_loop, load.capped) == (
        None,
        4,
        False,
        False,
    )
    assert load.whole_batches
    assert expected.offline
    assert not load.all_at_once


def test_all_at_once_is_what_was_requested_and_no_news() -> None:
    load = offline_load({"requestRates": ["inf"]})
    assert load.load.all_at_once
    assert all_at_once(context(load=load)(of_batches())) == []
    assert all_at_once(context(load=open_loop_load(rate=None))(of_batches())) != []


@pytest.mark.parametrize(("found", "offline"), [(0, True), (2, False)])
def test_a_late_client_bends_no_time_that_the_engine_takes(
    found: int, offline: bool
) -> None:
    late = of_batches().model_copy(
        update={"client": client(lag_p99_us=10 * SECOND, throttled_periods=3)}
    )
    stage = context(load=open_loop_load(rate=None, offline=offline))(late)
    assert len([*client_saturated(stage), *client_throttled(stage)]) == found


@pytest.mark.parametrize(("found", "offline"), [(0, True), (1, False)])
def test_gaps_that_nobody_counts_are_no_chunks(found: int, offline: bool) -> None:
    load = open_loop_load(rate=None, offline=offline)
    assert (
        len(list(chunks_are_not_tokens(context(load=load)(of_batches())))) == found
    )


def test_batches_have_no_plateau_and_nobody_asks_for_one() -> None:
    assert StageFacts(of_batches(), BATCHES).plateau is NoPlateau.WHOLE_BATCHES
    assert not_steady_state(context(load=BATCHES)(of_batches())) == []


def test_between_batches_nothing_is_under_way_and_within_them_all_of_it() -> None:
    assert StageFacts(of_batches(), BATCHES).mean_in_flight == pytest.approx(
        4.0, rel=0.01
    )
