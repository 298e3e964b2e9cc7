"""vLLM's development endpoints: open for a reset of the prefix cache only, and only behind a fence."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Manifest
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, Json, endpoint_body, spec_body

RESET: Json = {"measurement": {"cachePolicy": "Reset"}}


def children(body: Json) -> list[Manifest]:
    return objects(OWNER, BenchmarkRunSpec.model_validate(body))


def kinds(body: Json) -> set[str]:
    return {manifest["kind"] for manifest in children(body)}


def variables(body: Json) -> dict[str, Any]:
    (container,) = of_kind(children(body), "Deployment")["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable.get("value") for variable in container["env"]}


def with_variable(value: str, **changes: Any) -> Json:
    return spec_body(server={"image": "v", "env": [{"name": "VLLM_SERVER_DEV_MODE", "value": value}]}, **changes)


def test_reset_opens_the_endpoints_behind_a_fence() -> None:
    assert variables(spec_body(**RESET))["VLLM_SERVER_DEV_MODE"] == "1"
    assert "NetworkPolicy" in kinds(spec_body(**RESET))


@pytest.mark.parametrize("policy", ["Isolate", "Share"])
def test_no_other_policy_does(policy: str) -> None:
    body = spec_body(measurement={"cachePolicy": policy})
    assert "VLLM_SERVER_DEV_MODE" not in variables(body)
    assert "NetworkPolicy" not in kinds(body)


@pytest.mark.parametrize(
    ("fenced", "body"),
    [
        pytest.param(True, with_variable("1"), id="the user opens them"),
        pytest.param(True, with_variable("1", **RESET), id="the user does too"),
        pytest.param(False, with_variable("0"), id="the user keeps them shut"),
        pytest.param(
            False,
            endpoint_body({"url": "http://llm", "allowCacheReset": True}, **RESET),
            id="another's server is another's to fence",
        ),
    ],
)
def test_whoever_opens_them_there_is_a_fence(fenced: bool, body: Json) -> None:
    assert ("NetworkPolicy" in kinds(body)) is fenced
