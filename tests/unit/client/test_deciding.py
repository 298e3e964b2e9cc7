"""What would be enough: of values made by hand, whose noise is known."""

import math
from collections.abc import Sequence
from random import Random

import pytest
from benchrun_client.contract import (
    LatencySample,
    Needed,
    RequestSample,
    StageShape,
    decided,
    is_bounded,
    needed_to_bound,
    needed_to_decide,
    stage_shape,
)
from benchrun_client.contract.deciding import (
    LOST_ROUNDS,
    SPARE,
    hidden_scatter,
    likely_distance,
)

INF = math.inf


def closed(
    *stages: Sequence[float | None],
    users: int = 1,
    is_steady: bool = True,
    at_once: bool = False,
) -> RequestSample:
    """Requests of users, one after the other."""
    shapes = [
        stage_shape(
            range(len(own)),
            range(len(own)),
            users=users,
            is_steady=is_steady,
            at_once=at_once,
        )
        for own in stages
    ]
    return RequestSample(shapes, stages)


def drawn(count: int, seed: int = 1, *, sigma: float = 0.3) -> list[float]:
    random = Random(seed)
    return [1000.0 * random.lognormvariate(0, sigma) for _ in range(count)]


def opened(count: int, in_flight: int) -> RequestSample:
    """Requests that arrive evenly, so many of them in flight."""
    shape = stage_shape(
        range(count), [begin + in_flight - 0.5 for begin in range(count)]
    )
    return RequestSample([shape], [drawn(count)])


# Percentiles.


@pytest.mark.parametrize(
    ("sample", "percent", "needed"),
    [
        pytest.param(closed(drawn(499)), 99, (500 / 499, 1), id="one is missing"),
        pytest.param(closed(drawn(50)), 99, (10.0, 1), id="a tenth of it"),
        pytest.param(
            closed(drawn(125), drawn(125, 2)), 99, (2.0, 2), id="shared by repeats"
        ),
        pytest.param(
            closed(drawn(1000), users=200), 95, (12 / 5, 1), id="rounds of users"
        ),
        pytest.param(closed(drawn(40), users=20), 50, (1.5, 1), id="three rounds"),
        pytest.param(closed(drawn(12)), 50, (20 / 12, 1), id="four batches"),
        pytest.param(
            closed(drawn(600), at_once=True), 50, (1.0, 3), id="a burst repeats"
        ),
        pytest.param(
            closed(drawn(1600), users=200, is_steady=False),
            50,
            (1.0, 1),
            id="long enough for a steady part, which it does not have",
        ),
        pytest.param(
            closed(drawn(400), users=200, is_steady=False),
            50,
            (8 / 2, 1),
            id="a steady part is half of the stage",
        ),
        pytest.param(
            closed(drawn(400), users=200, is_steady=False),
            95,
            ((12 + LOST_ROUNDS) / 2, 1),
            id="and for a tail twelve rounds of it",
        ),
    ],
)
def test_what_makes_a_percentile_reliable(
    sample: LatencySample, percent: float, needed: tuple[float, int]
) -> None:
    found = needed_to_bound(sample, percent)
    if needed == (1.0, 1):
        assert found is None
        return
    assert found is not None
    assert found == pytest.approx(Needed(*needed))


def test_rounds_of_an_open_loop_have_some_to_spare() -> None:
    sample = opened(1000, 50)
    found = needed_to_bound(sample, 95)
    assert found is not None
    assert found.longer == pytest.approx(SPARE * 40 / sample.rounds)


@pytest.mark.parametrize(
    ("sample", "percent"),
    [
        pytest.param(closed(drawn(500)), 99, id="it is reliable"),
        pytest.param(closed([]), 99, id="nothing was measured"),
        pytest.param(closed([*drawn(600), *[INF] * 60]), 90, id="failed requests"),
    ],
)
def test_what_needs_no_more_has_no_price(
    sample: LatencySample, percent: float
) -> None:
    assert needed_to_bound(sample, percent) is None


@pytest.mark.parametrize("count", [60, 200, 450])
@pytest.mark.parametrize("percent", [50.0, 90.0, 99.0])
@pytest.mark.parametrize("users", [1, 8, 40])
def test_stages_of_the_told_length_are_reliable(
    count: int, percent: float, users: int
) -> None:
    found = needed_to_bound(closed(drawn(count), users=users), percent)
    longer = 1.0 if found is None else found.longer
    assert is_bounded(
        closed(drawn(math.ceil(longer * count), 2), users=users), percent
    )


# Objectives.


def test_a_near_limit_needs_repeats_as_there_is_no_other_way() -> None:
    sample = closed(drawn(4000, sigma=0.1))
    near = needed_to_decide(sample, 50, 1200)
    assert near == Needed(1.0, 3)
    far = needed_to_decide(sample, 50, 1600)
    assert far is not None
    assert far.repeats == 1


def test_a_search_measures_in_another_stretch_and_needs_none() -> None:
    found = needed_to_decide(
        closed(drawn(100, sigma=0.5)), 50, 1200, one_stretch=False
    )
    assert found is not None
    assert found.repeats == 1
    assert found.longer > 1


@pytest.mark.parametrize("true", [0.7, 1.0, 1.5, 3.0])
def test_the_likely_distance_is_the_true_one_in_the_median(true: float) -> None:
    random = Random(1)
    measured = sorted(abs(random.gauss(true, 1)) for _ in range(20_001))
    typical = measured[len(measured) // 2]
    assert typical >= true - 0.03
    assert likely_distance(typical, 1.0) == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize(
    ("measured", "error", "likely"),
    [
        pytest.param(0.5, 0.1, 0.5, id="noise is small"),
        pytest.param(0.5, 0.0, 0.5, id="there is none"),
        pytest.param(0.13, 0.5, 0.1, id="nothing is known but the noise"),
        pytest.param(0.0, 0.5, 0.0, id="at the limit"),
    ],
)
def test_a_distance_is_shortened_by_a_quarter_at_most(
    measured: float, error: float, likely: float
) -> None:
    assert likely_distance(measured, error) == pytest.approx(likely)


def test_what_few_busy_times_decide_scatters_more_than_batches_show() -> None:
    assert hidden_scatter(1.0) == hidden_scatter(2.5) == pytest.approx(1.3)
    assert 1.0 < hidden_scatter(3.5) < hidden_scatter(3.0) < 1.3
    assert hidden_scatter(4.0) == hidden_scatter(100.0) == 1.0


def test_a_limit_that_noise_hides_takes_more_than_its_distance_says() -> None:
    random = Random(3)
    noisy = closed([1000.0 * random.lognormvariate(0, 1.0) for _ in range(100)])
    value = decided(noisy, 50, 1e9).value
    found = needed_to_decide(noisy, 50, 1.1 * value, one_stretch=False)
    twice = needed_to_decide(noisy, 50, 1.1**2 * value, one_stretch=False)
    assert found is not None
    assert twice is not None
    assert found.longer > 3.5 * twice.longer


def test_the_nearer_the_limit_the_more_it_takes() -> None:
    sample = closed(*(drawn(200, seed) for seed in range(3)))
    repeats = [
        found.repeats
        for limit in (1200, 1100, 1060, 1040)
        if (found := needed_to_decide(sample, 50, limit)) is not None
    ]
    assert len(repeats) == 4
    assert repeats == sorted(repeats)
    assert repeats[-1] > repeats[0]


def test_repeats_of_equal_prompts_do_not_add_up() -> None:
    stages = [drawn(200, seed, sigma=0.5) for seed in range(3)]
    same = closed(*stages)
    same.copies = 3.0
    distinct = needed_to_decide(closed(*stages), 50, 1100)
    found = needed_to_decide(same, 50, 1100)
    assert found is not None
    assert distinct is not None
    assert found.repeats == 3
    assert found.longer > 1
    assert distinct.longer == 1
    assert found.longer * found.repeats > distinct.repeats


@pytest.mark.parametrize(
    ("sample", "limit"),
    [
        pytest.param(closed([]), 1000, id="nothing was measured"),
        pytest.param(
            closed([*drawn(10), *[INF] * 90]), 1000, id="a failed request"
        ),
        pytest.param(closed(drawn(100)), 0, id="no limit"),
    ],
)
def test_what_cannot_be_decided_has_no_price(
    sample: LatencySample, limit: float
) -> None:
    assert needed_to_decide(sample, 50, limit) is None


def test_exactly_at_the_limit_nothing_is_enough() -> None:
    sample = closed(*(drawn(100, seed) for seed in range(3)))
    assert needed_to_decide(sample, 50, sample.percentile(50)) is None


def test_where_the_noise_is_not_known_it_is_the_least_that_shows_it() -> None:
    sample = closed(drawn(16), users=8)
    assert needed_to_decide(sample, 50, 2000) == pytest.approx(Needed(1.5, 1))
    burst = closed(drawn(300), at_once=True)
    assert needed_to_decide(burst, 50, 1300) == Needed(1.0, 3)


def test_four_in_five_are_decided_with_what_was_told() -> None:
    """Independent values, of which the noise follows: the limit is 10 % above the true median."""
    told = []
    for seed in range(20):
        sample = closed(*(drawn(60, 3 * seed + n, sigma=0.4) for n in range(3)))
        if decided(sample, 50, 1100).outcome == "Inconclusive":
            found = needed_to_decide(sample, 50, 1100)
            told.append(101 if found is None else found.repeats)
    typical = sorted(told)[len(told) // 2]
    met = 0
    for seed in range(40):
        stages = [
            drawn(60, 1000 + typical * seed + n, sigma=0.4) for n in range(typical)
        ]
        met += decided(closed(*stages), 50, 1100).outcome == "Met"
    assert 24 <= met <= 40


def test_an_open_loop_without_a_steady_part_needs_thirteen_rounds() -> None:
    shape = stage_shape(
        range(100), [begin + 20.5 for begin in range(100)], is_steady=False
    )
    assert isinstance(shape, StageShape)
    sample = RequestSample([shape], [drawn(100)])
    found = needed_to_bound(sample, 50)
    assert found is not None
    assert found.longer == pytest.approx(SPARE * 13.5 / sample.rounds)
