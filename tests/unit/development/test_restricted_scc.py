"""The two forms of `restricted-v2` that tests hold pods against say the same: the function, and the
admission policy for real clusters."""

from typing import Any

import pytest
from cel_expr_python import cel
from kit.restricted_scc import (
    UIDS,
    admission_policy,
    assigning_policy,
    requiring_label,
    violations,
)

CONTAINER: dict[str, Any] = {
    "name": "c",
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    },
}
PROPER: dict[str, Any] = {
    "containers": [CONTAINER],
    "securityContext": {"runAsNonRoot": True},
}


def container(**changes: Any) -> dict[str, Any]:
    """Build a pod whose container has these changes in its security context."""
    security = {**CONTAINER["securityContext"], **changes}
    return {**PROPER, "containers": [{**CONTAINER, "securityContext": security}]}


def pod(**security: Any) -> dict[str, Any]:
    return {**PROPER, "securityContext": security}


@pytest.mark.parametrize(
    ("refused", "spec"),
    [
        ([], PROPER),
        ([], pod(runAsUser=UIDS[0], fsGroup=UIDS[-1])),
        (
            [],
            container(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
        ),
        ([], {**PROPER, "volumes": [{"name": "v", "emptyDir": {}}]}),
        (["runAsUser"], pod(runAsUser=65532)),
        (["fsGroup"], pod(fsGroup=2000)),
        (["seccompProfile"], pod(seccompProfile={"type": "Unconfined"})),
        (["seLinuxOptions"], pod(seLinuxOptions={"level": "s0"})),
        (["hostPID"], {**PROPER, "hostPID": True}),
        (
            ["volumes.v"],
            {**PROPER, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        ),
        (["c.runAsUser"], container(runAsUser=0)),
        (["c.privileged"], container(privileged=True)),
        (
            ["c.allowPrivilegeEscalation", "c.capabilities.drop"],
            {**PROPER, "containers": [{"name": "c"}]},
        ),
        (
            ["c.capabilities.add"],
            container(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK"]}),
        ),
        (
            ["c.hostPort"],
            {**PROPER, "containers": [{**CONTAINER, "ports": [{"hostPort": 80}]}]},
        ),
        (
            ["i.capabilities.drop"],
            {
                **PROPER,
                "initContainers": [
                    {
                        "name": "i",
                        "securityContext": {"allowPrivilegeEscalation": False},
                    }
                ],
            },
        ),
    ],
)
def test_function_and_policy_agree(
    refused: list[str], spec: dict[str, Any]
) -> None:
    assert violations(spec) == refused
    environment = cel.NewEnv(variables={"object": cel.Type.DYN})
    policy, _ = admission_policy("scc", "lab")
    failed = [
        rule["message"]
        for rule in policy["spec"]["validations"]
        if environment.compile(rule["expression"])
        .eval(data={"object": {"spec": spec}})
        .value()
        is not True
    ]
    assert bool(failed) == bool(refused), failed


def evaluated(expression: str, **pod: Any) -> bool:
    environment = cel.NewEnv(variables={"object": cel.Type.DYN})
    program = environment.compile(expression)
    return program.eval(data={"object": pod}).value() is True


def test_users_are_assigned_to_pods_that_name_none() -> None:
    policy, binding = assigning_policy("user", "lab")
    (condition,) = policy["spec"]["matchConditions"]
    expected = {"runAsUser": False, "runAsNonRoot": True}
    for field, is_assigned in expected.items():
        spec = pod(**{field: 1})
        assert evaluated(condition["expression"], spec=spec) is is_assigned
    assert evaluated(condition["expression"], spec={"containers": []})
    assert binding["kind"] == f"{policy['kind']}Binding"
    assert binding["spec"].keys() == {"policyName", "matchResources"}


@pytest.mark.parametrize(
    ("metadata", "admitted"),
    [
        ({}, False),
        ({"labels": {"team": "a"}}, False),
        ({"labels": {"example.com/cost": "1"}}, True),
    ],
)
def test_a_label_is_required(metadata: dict[str, Any], admitted: bool) -> None:
    policy, binding = requiring_label("label", "lab", "example.com/cost")
    (rule,) = policy["spec"]["validations"]
    assert evaluated(rule["expression"], metadata=metadata) is admitted
    assert binding["spec"]["validationActions"] == ["Deny"]
