"""A sample of the specs that `tests/long` tries: refused at a field, or acted on to an end that the
docs name."""

import json

from fuzz.mutations import leaf_by_leaf
from fuzz.specs import MOST_SECONDS, Tally, changed, drawn, report, tally_of
from unit.api.examples import EXAMPLES

SPECS = 25
CHANGED = 80
FAST = (
    "quickstart",
    "existing-endpoint",
    "engine-alone",
    "disaggregated-tiny",
    "sweep-simulator",
)


def assert_right(tally: Tally, count: int) -> None:
    assert tally.wrong == [], report(tally)
    assert tally.tried == count
    assert tally.worst_seconds < MOST_SECONDS, report(tally)


def test_specs_drawn_from_the_schemas_are_refused_at_a_field_or_come_to_an_end() -> (
    None
):
    tally = tally_of(drawn(SPECS))
    assert_right(tally, SPECS)
    ended = sum(n for name, n in tally.outcomes.items() if name.endswith("ended"))
    assert ended > SPECS / 3, "most are to be accepted"


def test_examples_changed_in_one_leaf_are_refused_at_a_field_or_come_to_an_end() -> (
    None
):
    few = [each for each in EXAMPLES if each.name in FAST]
    assert len(few) == len(FAST)
    assert_right(tally_of(changed(CHANGED, of=few)), CHANGED)


def test_equal_numbers_give_equal_specs() -> None:
    assert list(drawn(4, first=20)) == list(drawn(4, first=20))


def test_a_leaf_is_changed_and_nothing_else() -> None:
    value = {"a": [1, {"b": "2Gi"}]}
    every = [leaf.of(value) for leaf in leaf_by_leaf(value)]
    assert json.dumps(value) not in map(json.dumps, every)
    assert {"a": [1, {"b": "2"}]} in every
    assert {"a": [1]} in every
    assert {"a": [1, {"b": None}]} in every
    assert value == {"a": [1, {"b": "2Gi"}]}
