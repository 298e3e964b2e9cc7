"""The first quarter of the steady part, against the rest."""

import random

import pytest
from benchrun.judge.rules.rule import Code, StageFacts
from benchrun.judge.rules.steady_state import first_part_differs, window_too_short
from benchrun.judge.stage_facts import ExpectedStage
from benchrun_client.contract import StageRecord
from unit.judge.stages import (
    OPEN_LOOP,
    context,
    findings,
    only,
    open_loop_load,
    users,
)
from unit.measure.records import record, requests


def stage(
    percent: float, *, noise: float, seed: int = 1, count: int = 400
) -> StageFacts:
    """Eight users with answers of a second; those of the first quarter of the sending take so many
    percent longer."""
    chance = random.Random(seed)
    e2el = [
        round(
            1e6
            * (1 + percent / 100 * (i < count // 4))
            * chance.lognormvariate(0, noise)
        )
        for i in range(count)
    ]
    return context(load=users(8))(sent(e2el, apart_us=125_000))


def sent(e2el_us: list[int], *, apart_us: int) -> StageRecord:
    count = len(e2el_us)
    columns = requests(
        start_us=[apart_us * i for i in range(count)],
        ttft_us=[100_000] * count,
        e2el_us=e2el_us,
        output_tokens=[11] * count,
    )
    return record(
        requests=columns, scalars={"duration": count * apart_us / 1e6 + 2}
    )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("percent", [10, -10])
def test_a_first_quarter_that_is_10_percent_off_is_found(
    percent: float, seed: int
) -> None:
    found = only(first_part_differs(stage(percent, noise=0.02, seed=seed)))
    assert (found.code, found.severity) == (Code.FIRST_PART_DIFFERS, "Suspect")
    # The first requests, as slow, are not of the steady part: a little of its quarter is not slow.
    assert found.evidence["changePercent"] == pytest.approx(percent, abs=2)
    assert found.evidence["suspectPercent"] == 5.0


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_noise_alone_is_hardly_ever_found(noise: float) -> None:
    found = [
        seed
        for seed in range(100)
        if first_part_differs(stage(0, noise=noise, seed=seed))
    ]
    assert len(found) <= 1


def test_a_difference_below_5_percent_is_none_however_certain() -> None:
    assert first_part_differs(stage(4, noise=0.001)) == []


def test_tpot_has_more_than_e2el_beside_a_constant_ttft() -> None:
    assert (
        only(first_part_differs(stage(10, noise=0.001))).evidence["figure"]
        == "tpot"
    )


@pytest.mark.parametrize(
    ("why", "load", "answer_seconds"),
    [
        pytest.param(None, OPEN_LOOP, 1.8, id="answers of 1.8 s, 25 s of sending"),
        pytest.param(
            "answers are long for the sending", OPEN_LOOP, 2.0, id="of 2 s"
        ),
        pytest.param(
            "answers took longer than the sending lasted",
            OPEN_LOOP,
            30.0,
            id="of 30 s",
        ),
        pytest.param(
            None, open_loop_load(rate=None), 2.0, id="sent at once: never steady"
        ),
    ],
)
def test_a_stage_without_a_steady_part_is_too_short(
    why: str | None, load: ExpectedStage, answer_seconds: float
) -> None:
    measured = sent([round(1e6 * answer_seconds)] * 100, apart_us=250_000)
    found = findings(window_too_short(context(load=load)(measured)))
    assert [each.evidence.get("noSteadyPart") for each in found if why] == [why] * (
        why is not None
    )
    if why is None:
        assert not any("noSteadyPart" in each.evidence for each in found)
