"""The operator, its Lease, and the kinds that the cluster knows."""

import json
from typing import Any

import pytest
from benchrun import names
from benchrun.api.crd import RUN, SWEEP
from benchrun.doctor.asking import ApiAnswer, ApiAnswers
from benchrun.doctor.operators import (
    KINDS,
    SCHEMA,
    SERVER,
    UNKNOWN_IMAGE,
    deployments,
    kinds_check,
    lease_check,
    lease_seconds,
    operator_checks,
    operator_of,
)
from benchrun.plan import RunDefaults
from unit.doctor.worlds import OPERATOR, listed, of, read
from unit.plan.specs import Json

HOME = "benchrun-system"


def deployment(
    *, version: str = "0.1.0", available: int = 1, **variables: str
) -> Json:
    container = {
        "env": [{"name": key, "value": value} for key, value in variables.items()]
    }
    pod = {"serviceAccountName": "benchrun", "containers": [container]}
    return {
        "metadata": {
            "name": "benchrun",
            "namespace": HOME,
            "labels": {"app.kubernetes.io/version": version},
        },
        "spec": {"template": {"spec": pod}},
        "status": {"availableReplicas": available},
    }


def found(
    everywhere: ApiAnswer, at_home: ApiAnswer | None = None
) -> dict[str, str]:
    """Return the state of each check of operators."""
    first, second = deployments(HOME)
    answers = ApiAnswers({first: everywhere, second: at_home or listed()})
    lines = operator_checks(answers, home=HOME, namespace="lab", version="0.1.0")
    assert all(bool(line.remedy) == (line.state != "Ok") for line in lines)
    return {line.name: line.state for line in lines}


FORBIDDEN = ApiAnswer(trouble="Forbidden")


@pytest.mark.parametrize(
    ("everywhere", "at_home", "states"),
    [
        pytest.param(listed(deployment()), None, {"operator": "Ok"}, id="one"),
        pytest.param(listed(), None, {"operator": "Problem"}, id="none"),
        pytest.param(FORBIDDEN, None, {"operator": "NotChecked"}, id="unknown"),
        pytest.param(
            FORBIDDEN, listed(deployment()), {"operator": "Ok"}, id="at home"
        ),
        pytest.param(
            listed(deployment(available=0)),
            None,
            {"operator": "Problem"},
            id="not ready",
        ),
        pytest.param(
            listed(deployment(version="0.0.9")),
            None,
            {"operator": "Ok", "version": "Warning"},
            id="another version",
        ),
        pytest.param(
            listed(deployment(BENCHRUN_NAMESPACES="a, b")),
            None,
            {"operator": "Problem"},
            id="of other namespaces",
        ),
        pytest.param(
            listed(deployment(BENCHRUN_NAMESPACES="a, lab")),
            None,
            {"operator": "Ok"},
            id="of this namespace",
        ),
    ],
)
def test_an_operator_that_works_in_the_namespace(
    everywhere: ApiAnswer, at_home: ApiAnswer | None, states: dict[str, str]
) -> None:
    assert found(everywhere, at_home) == states


def test_two_operators_in_a_namespace_are_told() -> None:
    first, second = deployments(HOME)
    answers = ApiAnswers(
        {first: listed(deployment(), deployment()), second: listed()}
    )
    lines = operator_checks(answers, home=HOME, namespace="lab", version="0.1.0")
    assert [line.state for line in lines] == ["Warning", "Ok"]


def test_a_deployment_says_how_its_runs_are_made() -> None:
    made = operator_of(
        deployment(
            BENCHRUN_CLIENT_IMAGE="c:2",
            BENCHRUN_CLIENT_IMAGE_PULL_POLICY="Always",
            BENCHRUN_NETWORK_POLICIES="true",
            BENCHRUN_LEASE="other",
        )
    )
    assert (made.client_image, made.pull_policy) == ("c:2", "Always")
    assert (made.network_policies, made.lease) == (True, "other")
    assert made.user == f"system:serviceaccount:{HOME}:benchrun"
    assert operator_of({}).client_image == UNKNOWN_IMAGE


def test_an_operator_that_goes_through_the_api_server_fences_no_run() -> None:
    through = deployment(
        BENCHRUN_NETWORK_POLICIES="true", BENCHRUN_POD_ROAD="Proxy"
    )
    assert not operator_of(through).network_policies


def lease(
    renewed: str = "1", holder: str = "pod-a", seconds: Any = 10
) -> ApiAnswer:
    spec = {
        "holderIdentity": holder,
        "renewTime": renewed,
        "leaseDurationSeconds": seconds,
    }
    return ApiAnswer({"spec": spec})


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        pytest.param(lease("1"), lease("2"), "Ok", id="renewed"),
        pytest.param(lease("1"), lease("1"), "Problem", id="not renewed"),
        pytest.param(lease("1"), lease("2", ""), "Problem", id="given up"),
        pytest.param(
            ApiAnswer(trouble="NotFound"), lease(), "Problem", id="not there"
        ),
        pytest.param(FORBIDDEN, FORBIDDEN, "NotChecked", id="forbidden"),
        pytest.param(
            lease(),
            ApiAnswer(trouble="Failed", words="x"),
            "NotChecked",
            id="failed",
        ),
    ],
)
def test_a_lease_lives_by_being_renewed(
    before: ApiAnswer, after: ApiAnswer, state: str
) -> None:
    assert lease_check(OPERATOR, before, after).state == state


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (lease(), 10.0),
        (lease(seconds=10**9), 60.0),
        (lease(seconds=-1), 1.0),
        (lease(holder=""), 0.0),
        (FORBIDDEN, 0.0),
    ],
)
def test_a_lease_is_watched_for_a_bounded_time(
    answer: ApiAnswer, seconds: float
) -> None:
    assert lease_seconds(answer) == seconds


def schema_of(definition: Any, **changed: Any) -> Json:
    group = {"group": names.GROUP, "version": "v1alpha1", "kind": definition.kind}
    root = definition.root_schema()
    spec = {**root["properties"]["spec"]}
    spec["properties"] = {
        name: value
        for name, value in {**spec["properties"], **changed}.items()
        if value is not None
    }
    properties = {**root["properties"], "spec": spec}
    return {
        **root,
        "properties": properties,
        "x-kubernetes-group-version-kind": [group],
    }


def kinds(run: Json, *, minor: str = "34") -> dict[str, str]:
    resources = [{"name": each.plural} for each in (RUN, SWEEP)]
    schemas = {"a": run, "b": schema_of(SWEEP), "c": {"type": "string"}}
    answers = {
        KINDS: ApiAnswer({"resources": resources}),
        SCHEMA: ApiAnswer({"components": {"schemas": schemas}}),
        SERVER: ApiAnswer(
            {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}"}
        ),
    }
    lines = read(kinds_check(), answers)
    return {f"{line.name} {line.subject}": line.state for line in lines}


OF_RUN = "schema fields of BenchmarkRun"


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "Ok"),
        ({"cost": None}, "Problem"),
        ({"later": {"type": "string"}}, "Warning"),
    ],
)
def test_the_cluster_must_know_the_fields(
    changed: dict[str, Any], state: str
) -> None:
    found = kinds(schema_of(RUN, **changed))
    assert found[OF_RUN] == state
    assert found["schema fields of BenchmarkSweep"] == "Ok"


@pytest.mark.parametrize(
    ("minor", "state"), [("29", "Ok"), ("28+", "Problem"), ("", "NotChecked")]
)
def test_the_cluster_must_be_new_enough(minor: str, state: str) -> None:
    assert kinds(schema_of(RUN), minor=minor)["kubernetes Kubernetes"] == state


def test_kinds_that_are_missing_are_one_line() -> None:
    missing = ApiAnswer(trouble="NotFound")
    lines = read(kinds_check(), {KINDS: missing, SCHEMA: missing})
    assert of(lines, "kinds").state == "Problem"
    assert [line for line in lines if line.name == "schema"] == []


def test_the_platforms_defaults_are_those_that_the_operator_has() -> None:
    asked = {"server": {"nodeSelector": {"pool": "gpu"}}, "copyLabels": ["team"]}
    text = json.dumps(asked)
    defaults = operator_of(deployment(BENCHRUN_RUN_DEFAULTS=text)).defaults
    assert defaults == RunDefaults.model_validate(asked)
    assert operator_of(deployment()).defaults == RunDefaults()
    notes = dict.fromkeys("abc", "x" * 4000)
    long = json.dumps({"server": {"annotations": notes}})
    found = operator_of(deployment(BENCHRUN_RUN_DEFAULTS=long)).defaults
    assert found is not None
    assert found.to_json() == long.replace(" ", "")
