"""What a load point would take: requests, repeats, minutes and GPU-seconds of what it took."""

import pytest
from benchrun.judge.judged_run import judged_run
from benchrun.judge.prices import MAX_TOLD_REQUESTS, Held, price, prices
from benchrun_client.contract import Needed
from unit.judge.specs import spec
from unit.judge.test_results import RUN
from unit.measure.records import record

TOOK = Held(requests=500, counted=400, repeats=2, seconds=120.0, gpus=4)


def test_more_repeats_take_as_much_each() -> None:
    found = price(Needed(1.0, 6), TOOK)
    assert found is not None
    assert (found.requests, found.repeats) == (1500, 6)
    assert (found.minutes, found.gpu_seconds) == (6, 4 * 360)


def test_a_longer_stage_is_longer_in_its_steady_part_alone() -> None:
    found = price(Needed(2.0, 2), TOOK)
    assert found is not None
    assert (found.requests, found.repeats) == (900, 2)
    assert found.minutes == pytest.approx(120 * 900 / 500 / 60)


def test_both_are_multiplied() -> None:
    found = price(Needed(2.0, 3), TOOK)
    assert found is not None
    assert found.requests == 1350


def test_gpu_seconds_are_absent_where_no_gpu_is_known() -> None:
    found = price(Needed(1.0, 6), TOOK._replace(gpus=0))
    assert found is not None
    assert found.gpu_seconds is None


@pytest.mark.parametrize(
    ("needed", "took"),
    [
        pytest.param(None, TOOK, id="what is needed is not known"),
        pytest.param(Needed(2.0, 1), None, id="nothing was measured"),
        pytest.param(
            Needed(MAX_TOLD_REQUESTS / 400, 2), TOOK, id="more than anybody sends"
        ),
    ],
)
def test_what_is_not_known_has_no_price(
    needed: Needed | None, took: Held | None
) -> None:
    assert price(needed, took) is None
    if needed is not None:
        assert prices({"p99_ttft_ms": needed}, took) == {}


def test_the_condition_and_the_document_tell_the_price_of_the_row() -> None:
    asked = spec(
        objectives=[{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 1000}]
    )
    judgement, document = judged_run(RUN, asked, [record()], ())
    (told,) = judgement.results[0].objectives
    assert told.outcome == "Inconclusive"
    assert told.price is not None
    assert f"about {told.price.in_words} would decide it" in (
        judgement.objectives_message
    )
    assert told.price.in_words in judgement.message
    assert document.results[0].objectives == judgement.results[0].objectives
