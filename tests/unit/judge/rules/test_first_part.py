"""The first quarter of a noisy steady part, against the rest."""

import random

import pytest
from benchrun.judge.rules.rule import Code, StageFacts
from benchrun.judge.rules.steady_state import first_part_differs
from benchrun_client.contract import StageRecord
from unit.judge.stages import context, only, users
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
