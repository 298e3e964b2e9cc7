"""What pods have in common: variables, amounts, placement."""

from typing import Any

import pytest
from benchrun.api import PodOverrides, Resources
from benchrun.plan import environment, pod_spec, resources


def variable(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


@pytest.mark.parametrize(
    ("defaults", "given", "expected"),
    [
        ({}, [], []),
        ({"A": "1"}, [], [variable("A", "1")]),
        ({"A": "1"}, [(variable("A", "2"),)], [variable("A", "2")]),
        ({"A": "1"}, [(variable("A", "2"),), (variable("A", "3"),)], [variable("A", "3")]),
        (
            {"A": "1", "B": "1"},
            [(variable("B", "2"), variable("C", "2"))],
            [variable(n, v) for n, v in ("A1", "B2", "C2")],
        ),
        ({"A": "1"}, [({"name": "A", "valueFrom": {"x": {}}},)], [{"name": "A", "valueFrom": {"x": {}}}]),
    ],
)
def test_the_last_value_of_a_variable_holds(
    defaults: dict[str, str], given: list[tuple[dict[str, Any], ...]], expected: list[dict[str, Any]]
) -> None:
    assert environment(defaults, *given) == expected


DEFAULTS = {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"requests": DEFAULTS}),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "2", "memory": "1Gi"}}),
        (
            {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1"}},
            {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1"}},
        ),
        ({"limits": {"nvidia.com/gpu": 1}}, {"limits": {"nvidia.com/gpu": 1}, "requests": DEFAULTS}),
    ],
)
def test_default_requests_stand_for_what_is_left_out_of_both_lists(given: Any, expected: Any) -> None:
    """A default request beside a lower limit would be refused: Kubernetes takes the limit for the request."""
    assert resources(Resources.model_validate(given), requests=DEFAULTS) == expected


def test_without_defaults_an_empty_list_is_left_out() -> None:
    assert resources(Resources()) == {}
    assert resources(Resources(limits={"cpu": 1})) == {"limits": {"cpu": 1}}


EVERYTHING: dict[str, Any] = {
    "nodeSelector": {"gpu": "h100"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "runtimeClassName": "nvidia",
    "priorityClassName": "high",
    "schedulerName": "batch",
    "serviceAccountName": "bench",
}


BARE = pod_spec({}, [], PodOverrides(), user=2000)


def placement(**pod: Any) -> dict[str, Any]:
    made = pod_spec({}, [], PodOverrides.model_validate(pod), user=2000)
    return {name: value for name, value in made.items() if name not in BARE}


def test_placement_is_what_was_said_of_it_and_nothing_else() -> None:
    pod_fields = {"imagePullSecrets": ["a", "b"], "volumes": [{"name": "v"}], "securityContext": {"runAsUser": 1}}
    assert placement(**EVERYTHING, **pod_fields) == {**EVERYTHING, "imagePullSecrets": [{"name": "a"}, {"name": "b"}]}
    assert placement(imagePullSecrets=[]) == {}


@pytest.mark.parametrize("name", EVERYTHING)
def test_each_field_of_it_alone(name: str) -> None:
    assert placement(**{name: EVERYTHING[name]}) == {name: EVERYTHING[name]}


def test_a_pod_runs_as_its_user_unless_the_spec_says_otherwise() -> None:
    assert BARE == {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 2000,
            "runAsGroup": 2000,
            "fsGroup": 2000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{"volumeMounts": []}],
        "volumes": [],
    }
    for given in ({}, {"runAsUser": 5}):
        assert pod_spec({}, [], PodOverrides(security_context=given), user=2000)["securityContext"] == given
