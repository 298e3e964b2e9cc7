"""Every scene of `scenes`: what is found in it, and by which figures."""

from functools import partial

import pytest
from benchrun.api import rule_of
from benchrun.judge.rules.rule import Code, Evidence, StageFinding
from kit.every_case import check_all
from unit.judge.scenes import FINDS, FOLDER, Scene, file_of, found_in

WRITTEN = sorted(each.stem for each in FOLDER.iterdir())


def test_every_code_has_a_file_and_every_file_a_code() -> None:
    assert sorted(Code) == WRITTEN


@pytest.mark.parametrize("code", list(Code))
def test_a_code_has_scenes_on_both_sides_of_each_of_its_severities(
    code: Code,
) -> None:
    """Near-misses are beside the lowest severity; what decides is said by all but NotChecked."""
    file = file_of(code)
    shown = {outcome for outcome, _ in file.names}
    assert [each for each in FINDS if each in shown] == [*code.severities]
    assert "nothing" in shown
    assert bool(file.decided_by) == (code is not Code.NOT_CHECKED)


def own_findings(scene: Scene, found: list[StageFinding]) -> list[StageFinding]:
    return [each for each in found if each.code is scene.code]


def outcome(scene: Scene, found: list[StageFinding]) -> str:
    """What was found, as the group of a scene says it."""
    if severities := {each.severity for each in own_findings(scene, found)}:
        return " and ".join(sorted(severities))
    unchecked = {
        rule_of(code)
        for each in found
        if each.code is Code.NOT_CHECKED
        for code in each.evidence
    }
    return "NotChecked" if scene.code in unchecked else "nothing"


@pytest.mark.parametrize("code", [code for code in Code if code in WRITTEN])
def test_every_scene_shows_what_its_group_says(code: Code) -> None:
    scenes = file_of(code).names
    check_all(
        {
            f"{expected}: {name}": partial(shows_it, code, expected, name)
            for expected, name in scenes
        }
    )


def shows_it(code: Code, expected: str, name: str) -> None:
    """Check that the scene has the finding of its group, with the evidence that it states."""
    scene = file_of(code).scene(expected, name)
    found = found_in(scene)
    assert outcome(scene, found) == expected
    for finding in own_findings(scene, found):
        shown = {key: finding.evidence[key] for key in scene.evidence}
        assert shown == pytest.approx(scene.evidence)
        if scene.weight is not None:
            assert finding.weight == pytest.approx(scene.weight, rel=1e-4)
        for condition in file_of(code).decided_by:
            assert holds(condition, finding.evidence), condition


def holds(condition: str, evidence: Evidence) -> bool:
    """Whether one of the parts between "or" is true: a comparison, or a figure that is there."""
    return any(_is_true(part.split(), evidence) for part in condition.split(" or "))


def _is_true(words: list[str], evidence: Evidence) -> bool:
    if len(words) == 1:
        return words[0] in evidence
    figure, sign, line = words
    one, other = (_number(each, evidence) for each in (figure, line))
    if one is None or other is None:
        return False
    return abs(one) > other if sign == ">" else abs(one) < other


def _number(word: str, evidence: Evidence) -> float | None:
    """A number, or a figure; where that is the name of another, that one."""
    if word.isdecimal():
        return float(word)
    value = evidence.get(word)
    return _number(value, evidence) if isinstance(value, str) else value
