"""Numpy's own stream, against the one that a plan is judged by; totals that the tool printed."""

import numpy
import pytest
from benchrun.plan.old_vllm_stream import old_draws

RANGES = (
    (6300, 7700),
    (900, 1100),
    (2700, 3300),
    (9000, 11_000),
    (10_800, 13_200),
    (5, 5),
)


@pytest.mark.parametrize(
    ("inputs", "outputs", "requests", "total"),
    [
        ((6300, 7700), (2700, 3300), 10, 71_443),
        ((10_800, 13_200), (900, 1100), 1, 12_453),
    ],
)
def test_input_tokens_are_those_that_the_tool_printed(
    inputs: tuple[int, int], outputs: tuple[int, int], requests: int, total: int
) -> None:
    assert (
        sum(old_draws(inputs, outputs, seed=0, requests=requests).inputs) == total
    )


@pytest.mark.parametrize("seed", [0, 1, 42, 2**31 - 1])
@pytest.mark.parametrize("requests", [1, 7, 10, 700])
def test_lengths_are_numpy_s_and_the_next_number_is_the_one_that_it_draws(
    seed: int, requests: int
) -> None:
    for inputs in RANGES:
        for outputs in RANGES:
            drawn = old_draws(inputs, outputs, seed=seed, requests=requests)
            stream = numpy.random.RandomState(seed)
            expected = stream.randint(inputs[0], inputs[1] + 1, size=requests)
            stream.randint(outputs[0], outputs[1] + 1, size=requests)
            assert list(drawn.inputs) == expected.tolist()
            other = numpy.random.RandomState(seed)
            if drawn.place:
                other.randint(0, 2**32, size=drawn.place, dtype=numpy.uint32)
            assert other.randint(0, 151_643) == stream.randint(0, 151_643)


def test_with_seven_prompts_two_output_ranges_use_up_the_stream_alike() -> None:
    """So 7000/3000 was fast at once after 7000/1000; with ten prompts, and from 10000, it is not."""
    places = {
        (inputs, outputs, n): old_draws(inputs, outputs, seed=0, requests=n).place
        for inputs in ((6300, 7700), (9000, 11_000))
        for outputs in ((900, 1100), (2700, 3300))
        for n in (7, 10)
    }
    first = places[(6300, 7700), (900, 1100), 7]
    assert places[(6300, 7700), (2700, 3300), 7] == first
    assert places[(9000, 11_000), (2700, 3300), 7] != first
    assert places[(6300, 7700), (2700, 3300), 10] != first
