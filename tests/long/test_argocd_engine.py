"""Argo CD itself, not only its interpreter: the health script over every status, and no difference
between what lies in Git and what the API server makes of it."""

import json
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from gitops.engines import LUA, Answer, asked
from kit.tools import tool
from unit.api.agreement import with_defaults
from unit.api.examples import EXAMPLES, Example
from unit.api.schemas import RUN_SPEC, SWEEP_SPEC
from unit.decide.recorded_statuses import STANDINGS, Recorded, recordings

Json = dict[str, Any]
SCHEMAS = {"BenchmarkRun": RUN_SPEC, "BenchmarkSweep": SWEEP_SPEC}
OURS = [example for example in EXAMPLES if example.kind in SCHEMAS]
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@cache
def healths() -> dict[str, Answer]:
    return asked("argocd-engine", "health", LUA)


@pytest.mark.parametrize("recorded", recordings(), ids=lambda each: each.name)
def test_word(recorded: Recorded) -> None:
    expected = STANDINGS[recorded.standing].argo
    assert healths()[recorded.name].word == expected


def test_its_interpreter_says_the_same() -> None:
    assert asked("gitops-health", "lua", LUA) == healths()


def in_cluster(body: Json, kind: str) -> Json:
    """The object as the API server has it, which tests/cluster holds against a real one."""
    live = deepcopy(body)
    live["spec"] = with_defaults(body["spec"], SCHEMAS[kind])
    live["status"] = {"phase": "Running", "observedGeneration": 1}
    live["metadata"] |= {
        "uid": "5f1",
        "resourceVersion": "7",
        "generation": 1,
        "annotations": {
            **body["metadata"].get("annotations", {}),
            APPLIED: json.dumps(body),
        },
    }
    return live


def is_out_of_sync(in_git: Json, live: Json) -> bool:
    pair = json.dumps(in_git) + "\n" + json.dumps(live)
    found = json.loads(tool("argocd-engine", "diff", text=pair))
    return bool(found["modified"])


@pytest.mark.parametrize("example", OURS, ids=lambda each: each.name)
def test_defaults_are_no_difference(example: Example) -> None:
    live = in_cluster(example.body, example.kind)
    assert live["spec"] != example.body["spec"]
    assert not is_out_of_sync(example.body, live)


def test_an_edit_is_a_difference() -> None:
    body = deepcopy(OURS[0].body)
    live = in_cluster(body, OURS[0].kind)
    body["spec"]["cancel"] = True
    assert is_out_of_sync(body, live)
