"""What rules declare that they read: every code, and only what exists."""

from benchrun.api import Code
from benchrun.judge.rules import all_rules
from benchrun.judge.rules.inputs import Input, needs


def test_every_code_says_what_its_rule_reads() -> None:
    assert set(all_rules.NEEDS) == set(Code)
    assert all(each.first for each in all_rules.NEEDS.values())


def test_every_input_is_read_by_a_rule() -> None:
    read = {i for each in all_rules.NEEDS.values() for i in each.first | each.also}
    assert read == set(Input)


def test_a_finding_needs_less_than_to_say_that_all_is_well() -> None:
    both = needs(Input.TIMES, also=(Input.GAPS,))
    assert both.can_find(frozenset({Input.TIMES}))
    assert both.missing(frozenset({Input.TIMES})) == [Input.GAPS]
    assert not both.can_find(frozenset({Input.GAPS}))
