"""A server that can be profiled: what it is given, the container beside it, and the load that it gets."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import network_policy_manifests, plan_of_client, planned_stages, server_roles, stage_ids, workload
from benchrun.plan.server_pod import reader_source
from benchrun_client.contract import PROFILE_STAGE, ProfilePlan
from unit.plan.specs import OWNER, Json, concurrencies, endpoint_body, rates, spec, workload as a_workload


def profiled(**changes: Any) -> BenchmarkRunSpec:
    return spec(measurement={"profile": changes.pop("profile", {})}, **changes)


def pod(run_spec: BenchmarkRunSpec) -> Json:
    (role,) = server_roles(OWNER, run_spec, client_image="client:1", pull_policy="IfNotPresent")
    return role.pod_spec


def engine(run_spec: BenchmarkRunSpec) -> Json:
    return next(each for each in pod(run_spec)["containers"] if each["name"] == "vllm")


def image(tag: str) -> dict[str, Any]:
    return {"server": {"image": f"registry:5000/vllm/vllm-openai{tag}"}}


@pytest.mark.parametrize("tag", [":v0.13.0", ":v0.32.0", ":0.32", ":latest", "", "@sha256:0123", ":v1.0", ":v0.130.1"])
def test_a_current_server_gets_an_argument(tag: str) -> None:
    *before, ours = engine(profiled(**image(tag)))["args"]
    assert before == engine(spec(**image(tag)))["args"]
    settings = json.loads(ours.removeprefix("--profiler-config="))
    assert settings == {
        "profiler": "torch",
        "torch_profiler_dir": "/profile/br-qwen-6316e01c-server",
        "torch_profiler_with_stack": False,
        "ignore_frontend": True,
        "max_iterations": 500,
    }
    assert engine(profiled(**image(tag)))["env"] == engine(spec(**image(tag)))["env"]


@pytest.mark.parametrize("tag", [":v0.8.4", ":0.12.0", ":v0.9", ":v0.10.1.1", ":v0.11.0-cu128", ":v0.8.4@sha256:01"])
def test_an_older_one_would_end_at_it_and_gets_variables(tag: str) -> None:
    run_spec = profiled(**image(tag))
    assert engine(run_spec)["args"] == engine(spec(**image(tag)))["args"]
    variables = {each["name"]: each["value"] for each in engine(run_spec)["env"]}
    assert variables["VLLM_TORCH_PROFILER_DIR"] == "/profile/br-qwen-6316e01c-server"
    assert variables["VLLM_TORCH_PROFILER_WITH_STACK"] == "0"


def test_the_reader_needs_no_image_of_its_own_and_takes_no_whole_core_away() -> None:
    _, reader = pod(profiled())["containers"]
    command = reader["command"]
    assert (reader["name"], reader["image"]) == ("trace-reader", "vllm/vllm-openai:v0.32.0")
    assert (command[:2], command[3:]) == (["python3", "-c"], ["/profile/br-qwen-6316e01c-server", "8092"])
    # Kubernetes would take $(...) for a variable, and an argument may have 128 KiB.
    assert "$(" not in command[2]
    assert len(command[2]) < 16_000
    assert reader["resources"]["limits"] == reader["resources"]["requests"]
    assert reader["volumeMounts"] == [{"name": "profile", "mountPath": "/profile", "readOnly": True}]


@pytest.mark.parametrize(
    ("profile", "volume"),
    [
        ({}, {"emptyDir": {"sizeLimit": "4Gi"}}),
        ({"claimName": "traces"}, {"persistentVolumeClaim": {"claimName": "traces"}}),
    ],
)
def test_the_trace_goes_with_the_pod_or_stays_on_a_claim(profile: Json, volume: Json) -> None:
    assert {"name": "profile", **volume} in pod(profiled(profile=profile))["volumes"]
    assert {"name": "profile", "mountPath": "/profile"} in engine(profiled(profile=profile))["volumeMounts"]


def test_without_a_profile_nothing_is_different() -> None:
    assert [each["name"] for each in pod(spec())["containers"]] == ["vllm"]
    assert plan_of_client(OWNER, spec(), token_digest="0" * 64).profile is None


def test_the_client_may_reach_the_reader_and_nobody_else() -> None:
    def ports(run_spec: BenchmarkRunSpec) -> set[int]:
        rules = network_policy_manifests(OWNER, run_spec, operator_namespace="bench-system")[0]["spec"]["ingress"]
        return {port["port"] for rule in rules for port in rule["ports"]}

    assert ports(profiled()) - ports(spec()) == {8092}


def profile_plan(run_spec: BenchmarkRunSpec) -> ProfilePlan:
    found = plan_of_client(OWNER, run_spec, token_digest="0" * 64).profile
    assert found is not None
    return found


def test_the_last_workloads_highest_load_is_profiled_as_a_closed_loop() -> None:
    workloads = [a_workload("first"), a_workload("second", load=concurrencies(2, 32))]
    found = profile_plan(profiled(workloads=workloads, profile={"seconds": 3}))
    load = found.load
    assert (load.workload, load.concurrency, load.requests, load.prompts) == ("second", 32, 128, None)
    assert (found.seconds, found.max_seconds, found.reader_port) == (3, 300, 8092)
    plan = plan_of_client(OWNER, profiled(workloads=workloads), token_digest="0" * 64)
    assert load.seed not in {each.seed for each in plan.stages} | {each.seed for each in plan.warmups}


def test_a_profile_asks_for_no_more_prompts_than_seconds_of_load_need() -> None:
    large = profile_plan(profiled(workloads=[a_workload(load=concurrencies(1000), requests=2000)])).load
    assert (large.concurrency, large.requests) == (1000, 1256)
    rows = {"shareGPT": {"file": {"path": "/data/rows.json"}}}
    of_file = profile_plan(profiled(workloads=[a_workload(load=rates("100"), dataset=rows)])).load
    assert of_file.prompts == 16


def test_an_endpoint_has_no_reader() -> None:
    body = endpoint_body({"url": "http://llm"}, measurement={"profile": {}})
    assert profile_plan(BenchmarkRunSpec.model_validate(body)).reader_port is None


def test_its_record_comes_after_those_of_all_stages() -> None:
    run_spec = profiled(workloads=[a_workload(load=rates("1", "4"))])
    planned = [stage.id for stage in planned_stages(run_spec, run_uid="u")]
    assert stage_ids(run_spec, run_uid="u") == (*planned, PROFILE_STAGE)
    assert stage_ids(spec(workloads=[a_workload(load=rates("1", "4"))]), run_uid="u") == tuple(planned)


def test_the_deployment_is_one_that_kubernetes_takes() -> None:
    import kubernetes_validate

    (role,) = server_roles(OWNER, profiled(), client_image="client:1", pull_policy="IfNotPresent")
    kubernetes_validate.validate(workload(OWNER, role), "1.31", strict=True)


def test_the_operators_image_holds_the_reader() -> None:
    root = Path(__file__).parents[3]
    copied = re.findall(r"^COPY client-image/(benchrun_client\S*) ", (root / "Dockerfile").read_text(), re.MULTILINE)
    shipped = "\n".join(file.read_text() for path in copied for file in (root / "client-image" / path).rglob("*.py"))
    assert reader_source() in shipped
