"""Specs and inputs that nobody would write: by the ten thousand, the same ones each time."""

from collections.abc import Iterator

import pytest
from fuzz import inputs
from fuzz.readers import READERS
from fuzz.specs import (
    MOST_SECONDS,
    Tried,
    changed,
    drawn,
    peak_mib,
    report,
    tally_of,
)

SPECS = 10_000
INPUTS = 1_000
"""Of each reader."""
MOST_MIB = 512
pytestmark = pytest.mark.timeout(3 * 3600)


@pytest.mark.parametrize(
    "specs",
    [
        pytest.param(drawn(SPECS), id="drawn from the schemas"),
        pytest.param(changed(SPECS), id="examples with one leaf changed"),
    ],
)
def test_every_spec_is_refused_at_a_field_or_comes_to_an_end(
    specs: Iterator[Tried],
) -> None:
    tally = tally_of(specs)
    print(report(tally))
    assert tally.wrong == []
    assert tally.tried == SPECS
    assert tally.worst_seconds < MOST_SECONDS
    assert peak_mib() < MOST_MIB


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_returns_whatever_it_is_given(reader: str) -> None:
    found = inputs.read(reader, inputs.drawn(reader, INPUTS))
    print(f"{reader}: {found.tried} inputs, slowest {found.worst_seconds:.3f} s")
    assert found.wrong == {}
    assert found.worst_seconds < inputs.MOST_SECONDS
    assert peak_mib() < MOST_MIB
