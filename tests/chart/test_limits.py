"""The limits of the chart, by the API server's own language over whole specs."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import gpus
from cel_expr_python import cel
from chart.rendering import Object, refusal, render
from unit.api.agreement import with_defaults
from unit.api.examples import EXAMPLES
from unit.api.schemas import RUN_SPEC
from unit.api.spec_cases import ACCEPTED, minimal

LIMIT: Object = {
    "namespaces": ["lab"],
    "gpus": 2,
    "holdSeconds": 18_000,
    "imagePrefixes": ["vllm/", "registry.example/"],
}
OF_A_CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
SPECS = {
    **{
        each.name: each.body["spec"]
        for each in EXAMPLES
        if each.kind == "BenchmarkRun"
    },
    **ACCEPTED,
}


def policy(*limits: Object) -> Object:
    """The only policy of these limits."""
    return _policy(json.dumps(limits))


@cache
def _policy(limits: str) -> Object:
    (found,) = (
        each["spec"]
        for each in render({"limits": json.loads(limits)})
        if each["kind"] == "ValidatingAdmissionPolicy"
        and "-limits-" in each["metadata"]["name"]
    )
    return dict(found)


def scope(spec: Object, operation: str, old: Object | None) -> dict[str, Any]:
    """What the policy's rules see: its variables are evaluated in their order."""
    made: dict[str, Any] = {}
    seen = {
        "object": {"spec": with_defaults(spec, RUN_SPEC)},
        "oldObject": {"spec": with_defaults(old or spec, RUN_SPEC)},
        "request": {"operation": operation, "namespace": "lab"},
        "variables": made,
    }
    for variable in policy(LIMIT)["variables"]:
        made[variable["name"]] = evaluated(variable["expression"], seen)
    return seen


def evaluated(text: str, seen: Mapping[str, Any]) -> Any:
    total = cel.Overload(
        "sum",
        return_type=cel.Type.DYN,
        parameters=[cel.Type.LIST],
        is_member=True,
        impl=lambda numbers: sum(map(plain, numbers)),
    )
    environment = cel.NewEnv(
        variables=dict.fromkeys(seen, cel.Type.DYN),
        functions=[cel.FunctionDecl("sum", [total])],
    )
    found = environment.compile(text).eval(data=seen)
    assert found.type() != cel.Type.ERROR, f"{text}: {found.value()}"
    return plain(found.value())


def plain(value: Any) -> Any:
    """A value of CEL with all that is in it, as one of Python."""
    if isinstance(value, cel.Value):
        return plain(value.value())
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    return value


def refused(
    spec: Object, operation: str = "CREATE", old: Object | None = None
) -> list[int]:
    """Which of the rules refuse it: 0 GPUs, 1 images, 2 time."""
    seen = scope(spec, operation, old)
    rules = policy(LIMIT)["validations"]
    return [
        place
        for place, rule in enumerate(rules)
        if evaluated(rule["expression"], seen) is not True
    ]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_gpus_are_counted_as_the_operator_counts_them(spec: Object) -> None:
    found = scope(spec, "CREATE", None)["variables"]["gpus"]
    assert found == gpus(BenchmarkRunSpec.model_validate(spec))


def with_gpus(count: object, **server: Any) -> Object:
    resources = {"limits": {"nvidia.com/gpu": count, "memory": "64Gi"}}
    whole: Object = minimal({})
    return {
        **whole,
        "server": {**whole["server"], "resources": resources, **server},
    }


@pytest.mark.parametrize(
    ("rules", "spec"),
    [
        pytest.param([], with_gpus(2), id="as many as allowed"),
        pytest.param([], with_gpus("2"), id="the same as text"),
        pytest.param([0], with_gpus(3), id="too many"),
        pytest.param([0], with_gpus(1, replicas=3), id="in replicas"),
        pytest.param([0], with_gpus(1, nodesPerReplica=3), id="over nodes"),
        pytest.param(
            [0],
            with_gpus(1)
            | {"client": {"resources": {"limits": {"amd.com/gpu": 8}}}},
            id="in the client",
        ),
        pytest.param(
            [],
            with_gpus(1)
            | {"client": {"resources": {"limits": {"amd.com/gpu": 0, "cpu": 8}}}},
            id="none in the client",
        ),
        pytest.param(
            [0],
            minimal({})
            | {
                "server": {
                    "image": "vllm/vllm-openai:v0.32.0",
                    "disaggregated": {
                        "prefill": {},
                        "decode": {},
                        "proxy": {"resources": {"limits": {"nvidia.com/gpu": 1}}},
                    },
                }
            },
            id="in the proxy",
        ),
        pytest.param(
            [1], with_gpus(1, image="docker.io/any"), id="image of the server"
        ),
        pytest.param(
            [1],
            with_gpus(1) | {"client": {"image": "any"}},
            id="image of the client",
        ),
        pytest.param(
            [1],
            with_gpus(1)
            | {
                "model": {
                    "name": "m",
                    "source": {"imageVolume": {"reference": "any"}},
                }
            },
            id="image of the model",
        ),
        *(
            pytest.param(
                rules,
                with_gpus(1)
                | {
                    "client": {
                        "pod": {"volumes": [{"name": "v", **mounted}, OF_A_CLAIM]}
                    }
                },
                id=f"volume of {mounted}",
            )
            for rules, mounted in (
                ([], {"emptyDir": {}}),
                ([], {"image": {"reference": "vllm/tools:1"}}),
                ([1], {"image": {"reference": "any"}}),
            )
        ),
        pytest.param(
            [2], with_gpus(1) | {"runDeadlineSeconds": 16_201}, id="too long"
        ),
        pytest.param(
            [], with_gpus(1) | {"runDeadlineSeconds": 16_200}, id="just so long"
        ),
        pytest.param(
            [2], with_gpus(1) | {"runDeadlineSeconds": 0}, id="without an end"
        ),
    ],
)
def test_limits(rules: list[int], spec: Object) -> None:
    assert refused(spec) == rules


def test_a_run_from_before_the_limit_can_be_cancelled_and_not_prolonged() -> None:
    old = with_gpus(8, image="any") | {"runDeadlineSeconds": 0}
    assert refused(old) == [0, 1, 2]
    assert refused(old | {"cancel": True}, "UPDATE", old) == []
    assert refused(old | {"runDeadlineSeconds": 90_000}, "UPDATE", old) == [2]


def test_a_limit_holds_in_its_namespaces_or_in_all() -> None:
    (condition,) = policy(LIMIT)["matchConditions"]
    seen = {"request": {"namespace": "lab"}}
    assert evaluated(condition["expression"], seen) is True
    assert (
        evaluated(condition["expression"], {"request": {"namespace": "x"}}) is False
    )
    assert "matchConditions" not in policy({"gpus": 1})


def test_each_limit_has_its_rule_alone() -> None:
    for name, value in LIMIT.items():
        if name != "namespaces":
            assert len(policy({name: value})["validations"]) == 1


@pytest.mark.parametrize(
    "limit", [{}, {"gpus": "2"}, {"imagePrefixes": ["it's"]}, {"gpu": 1}]
)
def test_what_is_no_limit_is_refused(limit: Object) -> None:
    assert "limits" in refusal({"limits": [limit]})
