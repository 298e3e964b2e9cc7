"""Quotas for all pods of a run, and the namespace's NetworkPolicies."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.doctor.asking import ApiAnswer, CheckLine
from benchrun.doctor.limits import network_check, quota_check
from unit.doctor.worlds import OPERATOR, a_server, a_target, listed, read
from unit.plan.specs import Json

GPUS = "requests.nvidia.com/gpu"


def quotas(*items: Json, **changes: Any) -> list[CheckLine]:
    check = quota_check(a_target(**changes))
    return read(check, {check.queries[0]: listed(*items)})


def quota(hard: Json, used: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": "q"},
        "spec": {"hard": hard, **spec},
        "status": {"used": used or {}},
    }


@pytest.mark.parametrize(
    ("given", "states"),
    [
        (quota({GPUS: "2"}), ["Ok"]),
        (quota({GPUS: "1"}), ["Problem"]),
        (quota({GPUS: "2"}, {GPUS: "1"}), ["Warning"]),
        (quota({"pods": "2"}), ["Problem"]),
        (quota({"pods": "3"}), ["Ok"]),
        (quota({GPUS: "1", "pods": "3"}, {"pods": "1"}), ["Problem", "Warning"]),
        (quota({GPUS: "1"}, scopes=["Terminating"]), ["Ok"]),
        (quota({"requests.memory": "1Gi"}), ["Ok"]),
        (quota({"memory": "1023Mi"}), ["Problem"]),
    ],
)
def test_all_pods_of_a_run_must_have_room_at_once(
    given: Json, states: list[str]
) -> None:
    lines = quotas(given, server=a_server(replicas=2))
    assert [line.state for line in lines] == states
    assert all(bool(line.remedy) == (line.state != "Ok") for line in lines)


def test_quotas_that_may_not_be_read_are_not_fine() -> None:
    check = quota_check(a_target())
    (line,) = read(check, {check.queries[0]: ApiAnswer(trouble="Forbidden")})
    assert line.state == "NotChecked"
    assert "list resourcequotas in namespace lab" in line.remedy


def policies(*items: Json, opened: bool = True) -> dict[str, str]:
    """Return state by subject."""
    operator = replace(OPERATOR, network_policies=opened)
    check = network_check(a_target(operator), operator)
    lines = read(check, {check.queries[0]: listed(*items)})
    return {line.subject: line.state for line in lines}


def policy(types: list[str], **spec: Any) -> Json:
    body = {"podSelector": {}, "policyTypes": types, **spec}
    return {"metadata": {"name": "deny"}, "spec": body}


BOTH = {"pod of client": "Warning", "pod of server": "Warning"}
NONE = {"NetworkPolicies": "Ok"}
SERVERS = {"matchLabels": {"benchrun.dev/role": "server"}}
OTHERS = {
    "matchExpressions": [{"key": "benchrun.dev/role", "operator": "DoesNotExist"}]
}


@pytest.mark.parametrize(
    ("given", "opened", "states"),
    [
        pytest.param(policy(["Egress"]), True, BOTH, id="nothing leaves"),
        pytest.param(policy(["Egress"], egress=[{}]), True, NONE, id="all leaves"),
        pytest.param(
            policy(["Egress"], podSelector=SERVERS),
            True,
            {"pod of server": "Warning"},
            id="of the server alone",
        ),
        pytest.param(
            policy(["Egress"], podSelector=OTHERS), True, NONE, id="of other pods"
        ),
        pytest.param(policy(["Ingress"]), True, NONE, id="the operator opens"),
        pytest.param(policy(["Ingress"]), False, BOTH, id="nobody opens"),
        pytest.param(
            policy(["Ingress"], ingress=[{}]), False, NONE, id="all may enter"
        ),
    ],
)
def test_policies_of_others_are_told_where_they_hold(
    given: Json, opened: bool, states: dict[str, str]
) -> None:
    assert policies(given, opened=opened) == states


def test_policies_add_up() -> None:
    allow = policy(["Egress"], egress=[{}], podSelector=SERVERS)
    assert policies(policy(["Egress"]), allow) == {"pod of client": "Warning"}
