"""Argo CD itself, not only its interpreter, runs the health script over every status."""

from functools import cache

import pytest
from gitops.engines import LUA, Answer, asked
from unit.decide.recorded_statuses import RECORDED, STANDINGS, Recorded


@cache
def answers() -> dict[str, Answer]:
    return asked("argocd-health", LUA)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: each.name)
def test_word(recorded: Recorded) -> None:
    expected = STANDINGS[recorded.standing].argo
    assert answers()[recorded.name].word == expected


def test_its_interpreter_says_the_same() -> None:
    assert asked("gitops-health", "lua", LUA) == answers()
