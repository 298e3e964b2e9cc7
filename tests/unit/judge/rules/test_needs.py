"""What rules declare that they read: every code, only what exists, and no less than they read."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from benchrun.api import Code
from benchrun.judge.rules import all_rules
from benchrun.judge.rules.inputs import Input, needs
from benchrun.judge.rules.rule import StageFacts
from benchrun_client.contract import ClientFigures, GapCounts
from unit.judge.rules.test_scenes import outcome
from unit.judge.scenes import file_of, found_in


def columns(*names: str) -> Callable[[StageFacts], StageFacts]:
    """Return what puts zeros into these columns of the requests."""

    def erase(stage: StageFacts) -> StageFacts:
        requests = stage.requests
        nothing = (0,) * len(requests.ok)
        zeros = requests.model_copy(update=dict.fromkeys(names, nothing))
        return recorded(stage, requests=zeros)

    return erase


def recorded(stage: StageFacts, **changes: Any) -> StageFacts:
    """Return a stage whose record is changed."""
    return replace(stage, record=stage.record.model_copy(update=changes))


ERASE: Mapping[Input, Callable[[StageFacts], StageFacts]] = {
    Input.ERRORS: lambda stage: recorded(stage, errors={}, diagnostic=None),
    Input.TIMES: columns("start_us", "ttft_us", "e2el_us"),
    Input.CLIENT_QUEUE: columns("queue_us"),
    Input.OUTPUT_TOKENS: columns("output_tokens"),
    Input.ASKED_TOKENS: columns("asked_tokens"),
    Input.GAPS: lambda stage: recorded(stage, gaps=GapCounts(), gap_slices=None),
    Input.SERVER_SAMPLES: lambda stage: replace(stage, windows=()),
    Input.CLIENT: lambda stage: recorded(
        stage, client=ClientFigures(cpu_seconds=0, wall_seconds=0)
    ),
    Input.PATH: lambda stage: recorded(stage, round_trips=None, connections=None),
    Input.SHARDS: lambda stage: recorded(stage, shards=None),
    Input.WARMUP: lambda stage: recorded(stage, warmup=None),
}
"""How inputs are taken from a stage as they are missing in other tools' files."""
IN_SAMPLES = frozenset({Input.SERVER_SAMPLES, Input.SERVER_CPU, Input.GPU})
"""Inputs that a stage has in its samples, together."""
FOUND = [
    (code, group, name)
    for code in Code
    for group, name in file_of(code).names
    if group in code.severities
    and code is not Code.NOT_CHECKED
    and not file_of(code).scene(group, name).context.objectives
]


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


@pytest.mark.parametrize(("code", "group", "name"), FOUND)
def test_a_rule_finds_the_same_without_what_it_does_not_need(
    code: Code, group: str, name: str
) -> None:
    scene = file_of(code).scene(group, name)
    declared = all_rules.NEEDS[code].first | all_rules.NEEDS[code].also
    if declared & IN_SAMPLES:
        declared |= IN_SAMPLES
    unneeded = [erase for each, erase in ERASE.items() if each not in declared]
    stages = []
    for stage in scene.context.stages:
        for erase in unneeded:
            stage = erase(stage)
        stages.append(stage)
    erased = replace(scene, context=replace(scene.context, stages=tuple(stages)))
    assert outcome(erased, found_in(erased)) == group
