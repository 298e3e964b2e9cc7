"""A price in words: one text, whatever shows it."""

import pytest
from benchrun.api import Price


@pytest.mark.parametrize(
    ("price", "words"),
    [
        (Price(), ""),
        (Price(requests=3249), "3,200 requests"),
        (Price(requests=3249, repeats=1), "3,200 requests"),
        (
            Price(requests=640, repeats=13, minutes=4.23, gpu_seconds=507.6),
            "640 requests in 13 repeats, 4.2 min, 510 GPU-seconds",
        ),
        (Price(repeats=12), "12 repeats on each side"),
        (
            Price(servers=7, minutes=0.04),
            "7 fresh servers on each side, 0.04 min",
        ),
        (Price(gpu_seconds=1_234_567), "1,200,000 GPU-seconds"),
    ],
)
def test_a_price_in_words(price: Price, words: str) -> None:
    assert price.in_words == words
