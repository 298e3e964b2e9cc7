"""Whether a server did more when it had more at hand."""

from collections.abc import Sequence

import pytest
from benchrun.measure import (
    FullSteps,
    MeanLengths,
    OperatingPoint,
    OperatingPointPair,
    Pace,
    ServerLimits,
    comparisons,
    full_steps,
    mean_pace,
    pressure,
    stretches,
    within,
)
from unit.measure.records import sample
from unit.measure.timelines import gauge_samples, window


def point(running: float, throughput: float, name: str = "p") -> OperatingPoint:
    return OperatingPoint(name, running, throughput)


@pytest.mark.parametrize(
    ("flat", "grows", "low", "high"),
    [
        pytest.param(True, False, point(33, 20.3), point(276, 20.0), id="no more"),
        pytest.param(True, False, point(10, 100), point(20, 60), id="less"),
        pytest.param(
            True,
            False,
            point(10, 100),
            point(20, 104.9),
            id="up to five percent is none",
        ),
        pytest.param(
            False,
            False,
            point(10, 100),
            point(20, 110),
            id="ten for twice as many: neither",
        ),
        pytest.param(
            False,
            True,
            point(10, 100),
            point(20, 124),
            id="a quarter for twice as many",
        ),
        pytest.param(
            False, True, point(10, 100), point(20, 200), id="as much more"
        ),
        pytest.param(
            False,
            False,
            point(10, 100),
            point(100, 150),
            id="half for ten times as many: neither",
        ),
    ],
)
def test_a_comparison(
    flat: bool, grows: bool, low: OperatingPoint, high: OperatingPoint
) -> None:
    (pair,) = comparisons([high, low])
    assert (pair.low, pair.high, pair.is_flat, pair.grows) == (
        low,
        high,
        flat,
        grows,
    )


def test_the_widest_first_and_none_too_near() -> None:
    a = point(10, 1, "a")
    b = point(14, 1, "b")
    c = point(20, 1, "c")
    assert comparisons([b, c, a]) == [OperatingPointPair(a, c)]
    assert comparisons([a, point(40, 1, "d"), c]) == [
        OperatingPointPair(a, point(40, 1, "d")),
        *sorted(
            [OperatingPointPair(a, c), OperatingPointPair(c, point(40, 1, "d"))],
            key=lambda p: p.low.running,
        ),
    ]


def test_a_point_without_load_compares_with_nothing() -> None:
    assert comparisons([point(0, 1), point(5, 0), point(10, 1)]) == []


# ---- within a load point
# --------------------------------------------------------------------------------------------


def inside(
    running: Sequence[float],
    rates: Sequence[float],
    *,
    waiting: float = 0.0,
    always_busy: bool = True,
) -> str:
    """In a word; rates are prompt tokens a second, with a tenth as many of output."""
    samples = gauge_samples(
        [(r, waiting, 0.5) for r in running],
        prompt_rates=list(rates),
        generation_rates=[r / 10 for r in rates],
    )
    found = within(stretches([window(samples)]), always_busy=always_busy)
    if found is None:
        return "unknown"
    return "flat" if found.is_flat else "grows" if found.grows else "between"


RISING = [4.0] * 16 + [8.0] * 15 + [16.0] * 15


@pytest.mark.parametrize(
    ("word", "rates"),
    [
        pytest.param("flat", [1000.0] * 46, id="the same at four as at sixteen"),
        pytest.param("grows", [250.0 * r for r in RISING], id="as many times more"),
        pytest.param(
            "between", [1000.0 + 10 * r for r in RISING], id="a little more"
        ),
    ],
)
def test_a_load_point_whose_running_rises(word: str, rates: list[float]) -> None:
    assert inside(RISING, rates) == word
    assert inside(RISING[::-1], rates[::-1]) == word


@pytest.mark.parametrize(
    "running",
    [
        pytest.param([16.0] * 46, id="the same all along"),
        pytest.param(
            [16.0 + 15 * (-1) ** i for i in range(46)],
            id="readings that waver about it",
        ),
        pytest.param([4.0] * 10 + [16.0] * 10, id="few readings"),
    ],
)
def test_a_load_point_that_reports_nothing(running: list[float]) -> None:
    assert inside(running, [1000.0] * len(running)) == "unknown"


def test_an_open_loop_must_have_had_a_queue() -> None:
    assert inside(RISING, [1000.0] * 46, always_busy=False) == "unknown"
    assert inside(RISING, [1000.0] * 46, waiting=3.0, always_busy=False) == "flat"


def test_parts_of_other_work_are_not_compared() -> None:
    """The drain of a queue is output alone: its tokens are slower whatever runs."""
    samples = gauge_samples(
        [(r, 0.0, 0.5) for r in RISING],
        prompt_rates=[0.0] * 31 + [4000.0] * 15,
        generation_rates=[1000.0] * 46,
    )
    assert within(stretches([window(samples)]), always_busy=True) is None


def test_stages_do_not_run_into_each_other() -> None:
    one, other = (
        gauge_samples([(running, 0.0, 0.5)] * 4) for running in (1.0, 2.0)
    )
    found = stretches([window(one), window(other)])
    assert [len(stretch) for stretch in found] == [3, 3]
    assert {pace.running for stretch in found for pace in stretch} == {1.0, 2.0}


def test_servers_are_apart() -> None:
    mixed = [
        s
        for pair in zip(
            gauge_samples([(1, 0, 0.5)] * 3),
            gauge_samples([(9, 0, 0.5)] * 3, pod="b"),
            strict=True,
        )
        for s in pair
    ]
    assert [
        [pace.running for pace in stretch] for stretch in stretches([window(mixed)])
    ] == [
        [1, 1],
        [9, 9],
    ]


def test_a_pace() -> None:
    first = sample(
        10.0,
        running=2.0,
        waiting=0.0,
        kv_cache=0.25,
        prompt_tokens=100.0,
        generation_tokens=10.0,
    )
    last = sample(
        14.0,
        running=4.0,
        waiting=1.0,
        kv_cache=0.75,
        prompt_tokens=500.0,
        generation_tokens=30.0,
    )
    ((pace,),) = stretches([window([first, last])])
    assert pace == Pace(4.0, 3.0, 0.5, 50.0, 100.0, 5.0)
    assert (pace.token_rate, pace.prompt_share) == (105.0, 100 / 105)


@pytest.mark.parametrize(
    "changes",
    [
        {"running": None},
        {"waiting": None},
        {"prompt_tokens": None},
        {"generation_tokens": 1.0},
        {"at": 1.0},
    ],
    ids=[
        "no running",
        "no waiting",
        "no counter",
        "a counter that fell",
        "the same instant",
    ],
)
def test_samples_that_make_no_pace(changes: dict[str, float | None]) -> None:
    whole = {"at": 2.0, "prompt_tokens": 9.0, "generation_tokens": 9.0}
    last = sample(**{**whole, **changes})  # type: ignore[arg-type]
    assert stretches(
        [window([sample(1.0, prompt_tokens=2.0, generation_tokens=2.0), last])]
    ) == [[]]


def test_a_mean_is_weighted_by_time() -> None:
    paces = [
        Pace(1.0, 2.0, 0.0, None, 10.0, 1.0),
        Pace(3.0, 6.0, 4.0, 50.0, 30.0, 5.0),
    ]
    assert mean_pace(paces) == Pace(4.0, 5.0, 3.0, 50.0, 25.0, 4.0)


CLASSIFYING = MeanLengths(prompt=1251.0, output=4.0)


def found(
    *,
    running: float = 33.0,
    lengths: MeanLengths | None = CLASSIFYING,
    rates: list[float] | None = None,
    hits: float = 0.0,
    engines: int = 1,
) -> FullSteps | None:
    samples = gauge_samples(
        [(running, 900.0 - 100 * i, 0.1) for i in range(9)],
        prompt_rates=rates or [25_400.0] * 9,
        generation_rates=81.0,
    )
    seen = [window(samples, hits=hits)]
    under = pressure(seen, ServerLimits(sequences=1024, engines=engines), lengths)
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
        pytest.param(
            {"running": 24.0, "engines": 8}, id="nor those of eight engines"
        ),
        pytest.param(
            {"lengths": MeanLengths(1000.0, 101.0)}, id="generation takes part"
        ),
        pytest.param({"lengths": None}, id="nothing was answered"),
        pytest.param(
            {"rates": [20_000.0] * 5 + [25_000.0] * 4},
            id="the throughput rises with the shrinking queue",
        ),
        pytest.param(
            {"rates": [1e-9] * 5 + [25_000.0] * 4, "running": 40.0},
            id="it was nothing at first",
        ),
        pytest.param({"hits": 980.0}, id="prompts come from the prefix cache"),
    ],
)
def test_steps_that_are_not_full_of_prompts(changes: dict[str, object]) -> None:
    assert found(**changes) is None  # type: ignore[arg-type]


def test_without_a_queue_nothing_is_reported() -> None:
    seen = [window(gauge_samples([(33.0, 0.0, 0.1)] * 9))]
    under = pressure(seen, ServerLimits(), CLASSIFYING)
    assert under is not None
    assert full_steps(under, stretches(seen), CLASSIFYING) is None
