"""Every reader of what others wrote stands what it was given before, and a few changes of it."""

import random

import pytest
from fuzz.inputs import MOST_SECONDS, drawn, read
from fuzz.mutations import mutated_bytes
from fuzz.readers import READERS
from fuzz.seeds import FOUND, seeds

SAMPLE = 5
"""Changed inputs of each; `tests/long` has more."""


@pytest.mark.parametrize("reader", READERS)
def test_what_was_recorded_and_what_once_broke_it_is_read(reader: str) -> None:
    listed = seeds(reader)
    found = read(reader, iter(listed))
    assert found.wrong == {}
    assert found.tried == len(listed) > 0


@pytest.mark.parametrize("reader", READERS)
def test_whatever_is_changed_in_it_the_reader_returns(reader: str) -> None:
    found = read(reader, drawn(reader, SAMPLE))
    assert found.wrong == {}
    assert found.tried == SAMPLE
    assert found.worst_seconds < MOST_SECONDS


def test_every_input_that_was_found_is_of_a_reader() -> None:
    assert {folder.name for folder in FOUND.iterdir()} <= set(READERS)


def test_equal_seeds_draw_equal_inputs() -> None:
    assert list(drawn("pods", 5)) == list(drawn("pods", 5))
    assert list(drawn("pods", 5, seed=1)) != list(drawn("pods", 5, seed=2))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"[" * 900 + b"]" * 900, id="nested"),
        pytest.param(
            b'{"n":' + b"9" * 4200 + b"}", id="more digits than are written"
        ),
        pytest.param(b'{"n":1e999,"m":NaN}', id="no number"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\n{", id="no text"),
    ],
)
def test_whatever_an_input_is_it_can_be_changed(data: bytes) -> None:
    for seed in range(20):
        assert isinstance(mutated_bytes(data, random.Random(seed)), bytes)
