"""Figures of answers that begin with reasoning: absent where no answer has any."""

import math

import pytest
from benchrun.measure import pools_of
from benchrun.measure.request_figures import (
    RequestLimits,
    good_requests,
    latency_samples,
    plateau_metrics,
    pooled_metrics,
    request_values,
)
from benchrun_client.contract import Plateau, StageRecord
from unit.measure.records import record, requests

FOUR = {"ttft_us": (100, 200, 300, 400), "e2el_us": (900, 900, 900, 900)}


def thinking(**changes: object) -> StageRecord:
    """Return a stage of four answers: two with reasoning, one without, one cut off in it."""
    columns = {
        **FOUR,
        "output_tokens": (10, 10, 10, 10),
        "reasoning_us": (100, 200, 0, 400),
        "answer_us": (500, 600, 300, 0),
        "reasoning_tokens": (4, 6, 0, 10),
        **changes,
    }
    return record(requests=requests(**columns))  # type: ignore[arg-type]


PLAIN = record(requests=requests(**FOUR, output_tokens=(10, 10, 10, 10)))


def metrics(*stages: StageRecord) -> dict[str, float | None]:
    return pooled_metrics(stages, pools_of(stages), ("50", "99"))


def test_times_and_tokens_of_both() -> None:
    found = metrics(thinking())
    assert found["median_ttfrt_ms"] == 0.2
    assert found["median_ttfat_ms"] == 0.5
    assert found["p50_ttft_ms"] == 0.25
    assert found["total_reasoning_tokens"] == 20
    assert found["total_answer_tokens"] == 20
    assert found["unanswered"] == 1


def test_without_reasoning_there_is_nothing_of_it() -> None:
    assert not [name for name in metrics(PLAIN) if "ttfr" in name or "ttfa" in name]
    assert (
        metrics(PLAIN)
        .keys()
        .isdisjoint(("total_reasoning_tokens", "total_answer_tokens", "unanswered"))
    )


def test_a_stage_without_reasoning_beside_one_with_it() -> None:
    found = metrics(thinking(), PLAIN)
    assert found["total_reasoning_tokens"] == 20
    assert found["total_answer_tokens"] == 60
    # Of the plain stage, the answer begins with the first token.
    assert found["median_ttfat_ms"] == 0.3
    assert found["median_ttfrt_ms"] == 0.2


def test_unknown_tokens_are_not_known_in_the_pool() -> None:
    found = metrics(thinking(reasoning_tokens=()), thinking())
    assert found["total_reasoning_tokens"] is None
    assert found["total_answer_tokens"] is None
    assert found["unanswered"] == 2


def test_an_answer_that_never_began_is_above_every_limit() -> None:
    columns = thinking(ok=(1, 1, 1, 1)).requests
    assert request_values(columns, "ttfat", failed=math.inf) == [
        500,
        600,
        300,
        math.inf,
    ]
    assert request_values(columns, "ttfrt", failed=math.inf) == [
        100,
        200,
        None,
        400,
    ]
    samples = latency_samples([thinking()], users=2)
    assert samples["ttfat"].count == 4
    assert samples["ttfrt"].count == 3


@pytest.mark.parametrize(
    ("limits", "good"),
    [
        (RequestLimits(), 4),
        (RequestLimits(ttfat_ms=0.5), 2),
        (RequestLimits(ttfrt_ms=0.1), 2),
        (RequestLimits(ttfat_ms=math.inf, e2el_ms=0.9), 4),
    ],
)
def test_goodput_keeps_limits_on_reasoning(
    limits: RequestLimits, good: int
) -> None:
    assert good_requests([thinking()], limits) == good


def test_the_wait_in_the_client_counts_from_when_a_request_was_due() -> None:
    stage = thinking(queue_us=(1, 2, 3, 4))
    values = request_values(stage.requests, "ttfat_including_client_queue")
    assert values == [501, 602, 303, None]
    assert "ttfrt_including_client_queue" in latency_samples(
        [stage], users=None, queued=True
    )


def test_the_steady_part_has_them_too() -> None:
    stage = thinking()
    part = Plateau(start_us=0, end_us=10**7, started=(0, 2), is_steady=True)
    found = plateau_metrics(
        [(stage, part)], ("50",), shown=tuple(pools_of([stage]))
    )
    assert found["median_ttfat_ms"] == 0.4
    assert found["median_ttfrt_ms"] == 0.1
