"""Steps full of prompts."""

from __future__ import annotations

import pytest
from benchrun.measure.pressure import Lengths, ServerLimits, pressure
from benchrun.measure.scaling import FullSteps, full_steps, stretches
from unit.measure.timelines import readings, window

CLASSIFYING = Lengths(prompt=1251.0, output=4.0)


def found(
    *, running: float = 33.0, lengths: Lengths | None = CLASSIFYING, rates: list[float] | None = None, hits: float = 0.0
) -> FullSteps | None:
    samples = readings(
        [(running, 900.0 - 100 * i, 0.1) for i in range(9)], prompt_rates=rates or [25_400.0] * 9, generation_rates=81.0
    )
    seen = [window(samples, hits=hits)]
    under = pressure(seen, ServerLimits(sequences=1024), lengths)
    assert under is not None
    return full_steps(under, stretches(seen), lengths)


def test_tokens_of_a_step_follow_from_what_runs() -> None:
    steps = found()
    assert steps is not None
    assert steps.step_tokens == pytest.approx(33 * 1255 / 4)
    assert steps.prompt_rate == pytest.approx(25_400)
    assert steps.change_percent == pytest.approx(0)


def test_a_throughput_that_wavers_is_steady() -> None:
    steps = found(rates=[25_400 + 900 * (-1) ** i for i in range(9)])
    assert steps is not None
    assert abs(steps.change_percent) < 10


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"running": 3.0}, id="steps of 941 tokens are not full"),
        pytest.param({"lengths": Lengths(1000.0, 101.0)}, id="generation takes part"),
        pytest.param({"lengths": None}, id="nothing was answered"),
        pytest.param({"rates": [20_000.0] * 5 + [25_000.0] * 4}, id="the throughput rises with the shrinking queue"),
        pytest.param({"rates": [1e-9] * 5 + [25_000.0] * 4, "running": 40.0}, id="it was nothing at first"),
        pytest.param({"hits": 980.0}, id="prompts come from the prefix cache"),
    ],
)
def test_steps_that_are_not_full_of_prompts(changes: dict[str, object]) -> None:
    assert found(**changes) is None  # type: ignore[arg-type]


def test_without_a_queue_nothing_is_told() -> None:
    seen = [window(readings([(33.0, 0.0, 0.1)] * 9))]
    under = pressure(seen, ServerLimits(), CLASSIFYING)
    assert under is not None
    assert full_steps(under, stretches(seen), CLASSIFYING) is None
