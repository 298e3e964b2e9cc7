"""A spec that can't be acted on is refused with the field's path, and nothing is started for it."""

from __future__ import annotations

from typing import Any

import pytest
from unit.decide.saying import applied, deleted, standing
from unit.decide.scenes import NEWER, REFUSED, Scene
from unit.plan.specs import concurrencies, rates, workload


def _workloads(**changes: Any) -> dict[str, Any]:
    return {"workloads": [workload("fine"), workload("chat", **changes)]}


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("spec: must set exactly one of server, endpoint and offline", {"endpoint": {"url": "http://llm.example"}}),
        ("spec.model.name: ", {"model": {"name": ""}}),
        (
            "spec.model: revision needs source hub",
            {"model": {"name": "m", "revision": "v", "source": {"path": {"path": "/m"}}}},
        ),
        ("spec.server.unknownField: ", {"server": {"image": "v", "unknownField": 1}}),
        ("spec.repeats: ", {"repeats": "3"}),
        ("spec.workloads[1].load.requestRates[0]: must be above 0", _workloads(load=rates("0"))),
        ("spec.workloads[1].load: must set exactly one of", _workloads(load=rates("1") | concurrencies(1))),
        ("spec.workloads[1].dataset: must set exactly one of", _workloads(dataset={})),
        ("spec.workloads[1]: must set exactly one of requests and durationSeconds", _workloads(durationSeconds=5)),
        (
            "spec.workloads[1]: durationSeconds needs finite",
            _workloads(load=rates("inf"), requests=None, durationSeconds=5),
        ),
        (
            "spec.workloads[1]: rate x durationSeconds",
            _workloads(load=rates("2000"), requests=None, durationSeconds=86_400),
        ),
        ("spec.workloads: ", {"workloads": []}),
        (
            "spec.workloads: workloads have 66 load points",
            {"workloads": [workload(n, load=concurrencies(*range(1, 23))) for n in "abc"]},
        ),
        (
            "spec.repeats: 30 load points x 10 repeats = 300 stages",
            _workloads(load=concurrencies(*range(1, 30))) | {"repeats": 10},
        ),
    ],
)
def test_refused_naming(expected: str, changes: dict[str, Any]) -> None:
    status = Scene().with_spec(**changes).decide().status
    assert (status.message or "").startswith(expected)


def test_the_number_of_further_problems_is_told() -> None:
    assert (Scene().with_spec(repeats=0, model={"name": ""}).decide().status.message or "").endswith("(and 1 more)")


def test_refused_is_terminal_and_starts_nothing() -> None:
    refused = Scene().with_spec(repeats=0)
    decision = refused.decide()
    assert (decision.status.phase, applied(decision), decision.forget) == ("Failed", [], True)
    assert standing(decision.status, "Accepted", "Failed", "Stalled", "Ready") == {
        "Accepted": "False (InvalidSpec)",
        "Failed": "True (InvalidSpec)",
        "Stalled": "True (InvalidSpec)",
        "Ready": "False (InvalidSpec)",
    }
    assert refused.settled().decide().status == decision.status


# ---- accepted by an operator of another version ----------------------------------------------------------------------

UNREADABLE = Scene().measuring().arrived(0).with_spec(**REFUSED)


def test_a_field_of_a_newer_operator_stops_no_run_that_it_accepted() -> None:
    decision = Scene().measuring().arrived(0).with_spec(**NEWER).decide()
    assert (decision.status.phase, applied(decision)) == ("Running", ["ConfigMap stage 0"])
    assert Scene().with_spec(**NEWER).decide().status.phase == "Failed"


def test_what_it_accepted_and_we_can_not_read_is_left_alone_and_says_so() -> None:
    decision = UNREADABLE.decide()
    assert (applied(decision), deleted(decision), decision.forget) == ([], [], False)
    assert decision.status.phase == "Running"
    assert "accepted by an operator of another version" in (decision.status.message or "")
    assert "spec.repeats" in (decision.status.message or "")


def test_cancelled_it_is_let_go_all_the_same() -> None:
    decision = UNREADABLE.with_spec(cancel=True).decide()
    assert (deleted(decision), decision.status.phase, decision.forget) == (["Deployment", "Job"], "Failed", True)


def test_a_server_that_was_to_go_still_goes() -> None:
    scene = Scene().measuring().arrived(0, 1).settled().with_spec(**REFUSED)
    assert deleted(scene.decide()) == ["Deployment"]


def test_what_is_left_of_a_refused_run_is_removed_again_and_again() -> None:
    refused = UNREADABLE.with_spec(cancel=True).settled()
    assert deleted(refused.decide()) == ["Deployment", "Job"]
    assert deleted(refused.without("Deployment", "server").decide()) == ["Job"]
