"""A command in place of the image's entry point: what it carries is not repeated, and what it gives
is read like arguments."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.names import ROLE_DECODE, ROLE_PREFILL
from benchrun.plan import (
    Manifest,
    answering_args,
    engine_pod,
    plan_of_client,
    planned_stages,
    server_roles,
    stage_ids,
    started_args,
    worker_pod,
    workload,
)
from benchrun.plan.network_policies import network_policy_manifests
from benchrun.plan.server_pod import reader_source
from benchrun_client.contract import PROFILE_STAGE, ProfilePlan
from benchrun_client.engines import ENGINES
from unit.client.plans import TOKEN_DIGEST
from unit.plan.objects import objects, of_kind
from unit.plan.specs import (
    OWNER,
    Json,
    concurrencies,
    endpoint_body,
    rates,
    spec,
    spec_body,
    workload as a_workload,
)

VLLM = ENGINES["VLLM"]

MODULE = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
NAME = "--served-model-name=Qwen/Qwen3-4B"
PORT = "--port=8000"


def containers(**server: Any) -> dict[str, Json]:
    """Of each role, the container of the engine."""
    run = spec(server={"image": "vllm/vllm-openai:v0.8.4", **server})
    started = server_roles(OWNER, run, client_image="c", pull_policy="Always")
    return {role.name: role.pod_spec["containers"][0] for role in started}


@pytest.mark.parametrize(
    ("given", "command", "args"),
    [
        pytest.param(
            [],
            None,
            ["Qwen/Qwen3-4B", NAME, PORT, "--dtype=half"],
            id="the image's own entry point",
        ),
        pytest.param(
            ["vllm", "serve"],
            ["vllm", "serve"],
            ["Qwen/Qwen3-4B", NAME, PORT, "--dtype=half"],
            id="carries nothing",
        ),
        pytest.param(
            [*MODULE, "--model", "$(MODEL)"],
            [*MODULE, "--model", "Qwen/Qwen3-4B"],
            [NAME, PORT, "--dtype=half"],
            id="carries the model",
        ),
        pytest.param(
            [
                *MODULE,
                "--model=$(MODEL)",
                "--port=$(PORT)",
                "--served-model-name=$(SERVED_NAME)",
            ],
            [*MODULE, "--model=Qwen/Qwen3-4B", PORT, NAME],
            ["--dtype=half"],
            id="carries all",
        ),
        pytest.param(
            ["bash", "-c", "exec vllm serve $(MODEL) --port $(PORT)"],
            ["bash", "-c", "exec vllm serve Qwen/Qwen3-4B --port 8000"],
            [NAME, "--dtype=half"],
            id="in a script",
        ),
    ],
)
def test_the_operator_adds_what_a_command_does_not_carry(
    given: list[str], command: list[str] | None, args: list[str]
) -> None:
    started = containers(command=given, args=["--dtype=half"], replicas=2)["server"]
    assert (started.get("command"), started["args"]) == (command, args)


def test_servers_of_two_roles_begin_alike_and_carry_no_model_twice() -> None:
    roles = {
        "kvTransfer": {"connector": "C"},
        "decode": {"args": ["--max-num-seqs=4"]},
    }
    started = containers(command=[*MODULE, "--model=$(MODEL)"], disaggregated=roles)
    for role in (ROLE_PREFILL, ROLE_DECODE):
        assert started[role]["command"] == [*MODULE, "--model=Qwen/Qwen3-4B"]
        assert started[role]["args"][:2] == [NAME, PORT]
    assert started[ROLE_DECODE]["args"][-1] == "--max-num-seqs=4"


def test_every_pod_of_a_server_over_several_nodes_begins_with_it() -> None:
    run = spec(
        server={"image": "v", "command": ["vllm", "serve"], "nodesPerReplica": 2}
    )
    (role,) = server_roles(OWNER, run, client_image="c", pull_policy="Always")
    (worker,) = worker_pod(VLLM, role.pod_spec)["containers"]
    assert worker["command"] == ["vllm", "serve"]
    assert (worker["args"][0], worker["args"][-1]) == (
        "Qwen/Qwen3-4B",
        "--headless",
    )


def test_flags_in_a_command_are_read_like_arguments() -> None:
    command = [*MODULE, "--model", "$(MODEL)", "--max-model-len", "4096"]
    run = spec(
        server={"image": "v", "command": command, "args": ["--max-num-seqs=9"]}
    )
    assert run.server is not None
    assert (
        plan_of_client(OWNER, run, token_digest=TOKEN_DIGEST).target.context_tokens
        == 4096
    )
    assert run.server.words_of("server") == [*command, "--max-num-seqs=9"]
    assert "--max-num-seqs=9" in answering_args(run)


def test_flags_in_a_script_are_not_checked() -> None:
    run = spec(
        server={
            "image": "v",
            "command": ["bash", "-c", "vllm serve $(MODEL) --max-model-len 4096"],
        }
    )
    assert run.server is not None
    assert run.server.words_of("server") is None
    assert (
        plan_of_client(OWNER, run, token_digest=TOKEN_DIGEST).target.context_tokens
        is None
    )


# What `vllm serve` is told: ours first, the user's own flags last, so that theirs win.

PVC = {"pvc": {"claimName": "models", "path": "qwen"}}


@pytest.mark.parametrize(
    ("expected", "model"),
    [
        pytest.param(
            ["org/m", "--served-model-name=org/m", "--port=8000"],
            {"name": "org/m"},
            id="hub",
        ),
        pytest.param(
            ["org/m", "--served-model-name=org/m", "--port=8000", "--revision=v2"],
            {"name": "org/m", "revision": "v2"},
            id="hub at a revision",
        ),
        pytest.param(
            [
                "org/m",
                "--served-model-name=org/m",
                "--port=8000",
                "--tokenizer=org/t",
            ],
            {"name": "org/m", "tokenizer": "org/t"},
            id="own tokenizer",
        ),
        pytest.param(
            ["/model/qwen", "--served-model-name=chatty", "--port=8000"],
            {"name": "m", "servedName": "chatty", "source": PVC},
            id="claim, under another name",
        ),
        pytest.param(
            ["/model", "--served-model-name=m", "--port=8000"],
            {"name": "m", "source": {"imageVolume": {"reference": "r/m:1"}}},
            id="image volume",
        ),
        pytest.param(
            ["/in/image", "--served-model-name=m", "--port=8000"],
            {"name": "m", "source": {"path": {"path": "/in/image"}}},
            id="path",
        ),
    ],
)
def test_arguments_name_the_model(expected: list[str], model: Json) -> None:
    assert started_args(spec(model=model)) == expected


def test_the_users_flags_come_last_and_verbatim() -> None:
    flags = ["--max-model-len=100", '--override={"a b": 1}']
    assert started_args(spec(server={"image": "v", "args": flags}))[-2:] == flags


def test_an_engine_whose_image_does_not_begin_with_its_server_has_a_command() -> (
    None
):
    run = spec(server={"image": "s", "engine": "SGLang"})
    assert run.server is not None
    (container,) = engine_pod(
        OWNER, run, run.server, args=["--x"], resources=run.server.resources
    )["containers"]
    command = ["python3", "-m", "sglang.launch_server"]
    assert (container["command"], container["args"]) == (command, ["--x"])


# vLLM's development endpoints: open for a reset of the prefix cache only, and only behind a fence.

RESET: Json = {"measurement": {"cachePolicy": "Reset"}}


def children(body: Json) -> list[Manifest]:
    return objects(OWNER, BenchmarkRunSpec.model_validate(body))


def kinds(body: Json) -> set[str]:
    return {manifest["kind"] for manifest in children(body)}


def variables(body: Json) -> dict[str, Any]:
    (container,) = of_kind(children(body), "Deployment")["spec"]["template"][
        "spec"
    ]["containers"]
    return {
        variable["name"]: variable.get("value") for variable in container["env"]
    }


def with_variable(value: str, **changes: Any) -> Json:
    return spec_body(
        server={
            "image": "v",
            "env": [{"name": "VLLM_SERVER_DEV_MODE", "value": value}],
        },
        **changes,
    )


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


# A server that can be profiled: what it is given, the container beside it, and the load that it
# gets.


def profiled(**changes: Any) -> BenchmarkRunSpec:
    return spec(measurement={"profile": changes.pop("profile", {})}, **changes)


def pod(run_spec: BenchmarkRunSpec) -> Json:
    (role,) = server_roles(
        OWNER, run_spec, client_image="client:1", pull_policy="IfNotPresent"
    )
    return role.pod_spec


def engine(run_spec: BenchmarkRunSpec) -> Json:
    return next(
        each for each in pod(run_spec)["containers"] if each["name"] == "server"
    )


def image(tag: str) -> dict[str, Any]:
    return {"server": {"image": f"registry:5000/vllm/vllm-openai{tag}"}}


@pytest.mark.parametrize(
    "tag",
    [
        ":v0.13.0",
        ":v0.32.0",
        ":0.32",
        ":latest",
        "",
        "@sha256:0123",
        ":v1.0",
        ":v0.130.1",
    ],
)
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
    assert (
        engine(profiled(**image(tag)))["env"] == engine(spec(**image(tag)))["env"]
    )


@pytest.mark.parametrize(
    "tag",
    [
        ":v0.8.4",
        ":0.12.0",
        ":v0.9",
        ":v0.10.1.1",
        ":v0.11.0-cu128",
        ":v0.8.4@sha256:01",
    ],
)
def test_an_older_one_would_end_at_it_and_gets_variables(tag: str) -> None:
    run_spec = profiled(**image(tag))
    assert engine(run_spec)["args"] == engine(spec(**image(tag)))["args"]
    variables = {each["name"]: each["value"] for each in engine(run_spec)["env"]}
    assert (
        variables["VLLM_TORCH_PROFILER_DIR"] == "/profile/br-qwen-6316e01c-server"
    )
    assert variables["VLLM_TORCH_PROFILER_WITH_STACK"] == "0"


def test_the_reader_needs_no_image_of_its_own_and_takes_no_whole_core_away() -> (
    None
):
    _, reader = pod(profiled())["containers"]
    command = reader["command"]
    assert (reader["name"], reader["image"]) == (
        "trace-reader",
        "vllm/vllm-openai:v0.32.0",
    )
    assert (command[:2], command[3:]) == (
        ["python3", "-c"],
        ["/profile/br-qwen-6316e01c-server", "8092"],
    )
    # Kubernetes would take $(...) for a variable, and an argument may have 128 KiB.
    assert "$(" not in command[2]
    assert len(command[2]) < 16_000
    assert reader["resources"]["limits"] == reader["resources"]["requests"]
    assert reader["volumeMounts"] == [
        {"name": "profile", "mountPath": "/profile", "readOnly": True}
    ]


@pytest.mark.parametrize(
    ("profile", "volume"),
    [
        ({}, {"emptyDir": {"sizeLimit": "4Gi"}}),
        (
            {"claimName": "traces"},
            {"persistentVolumeClaim": {"claimName": "traces"}},
        ),
    ],
)
def test_the_trace_goes_with_the_pod_or_stays_on_a_claim(
    profile: Json, volume: Json
) -> None:
    assert {"name": "profile", **volume} in pod(profiled(profile=profile))[
        "volumes"
    ]
    assert {"name": "profile", "mountPath": "/profile"} in engine(
        profiled(profile=profile)
    )["volumeMounts"]


def test_without_a_profile_nothing_is_different() -> None:
    assert [each["name"] for each in pod(spec())["containers"]] == ["server"]
    assert plan_of_client(OWNER, spec(), token_digest="0" * 64).profile is None


def test_the_client_may_reach_the_reader_and_nobody_else() -> None:
    def ports(run_spec: BenchmarkRunSpec) -> set[int]:
        rules = network_policy_manifests(
            OWNER, run_spec, operator_namespace="bench-system"
        )[0]["spec"]["ingress"]
        return {port["port"] for rule in rules for port in rule["ports"]}

    assert ports(profiled()) - ports(spec()) == {8092}


def profile_plan(run_spec: BenchmarkRunSpec) -> ProfilePlan:
    found = plan_of_client(OWNER, run_spec, token_digest="0" * 64).profile
    assert found is not None
    return found


def test_the_last_workloads_highest_load_is_profiled_as_a_closed_loop() -> None:
    workloads = [
        a_workload("first"),
        a_workload("second", load=concurrencies(2, 32)),
    ]
    found = profile_plan(profiled(workloads=workloads, profile={"seconds": 3}))
    load = found.load
    assert (load.workload, load.concurrency, load.requests, load.prompts) == (
        "second",
        32,
        128,
        None,
    )
    assert (found.seconds, found.max_seconds, found.reader_port) == (3, 300, 8092)
    plan = plan_of_client(
        OWNER, profiled(workloads=workloads), token_digest="0" * 64
    )
    assert load.seed not in {each.seed for each in plan.stages} | {
        each.seed for each in plan.warmups
    }


def test_a_profile_asks_for_no_more_prompts_than_seconds_of_load_need() -> None:
    large = profile_plan(
        profiled(workloads=[a_workload(load=concurrencies(1000), requests=2000)])
    ).load
    assert (large.concurrency, large.requests) == (1000, 1256)
    rows = {"shareGPT": {"file": {"path": "/data/rows.json"}}}
    of_file = profile_plan(
        profiled(workloads=[a_workload(load=rates("100"), dataset=rows)])
    ).load
    assert of_file.prompts == 16


def test_an_endpoint_has_no_reader() -> None:
    body = endpoint_body({"url": "http://llm"}, measurement={"profile": {}})
    assert profile_plan(BenchmarkRunSpec.model_validate(body)).reader_port is None


def test_its_record_comes_after_those_of_all_stages() -> None:
    run_spec = profiled(workloads=[a_workload(load=rates("1", "4"))])
    planned = [stage.id for stage in planned_stages(run_spec, run_uid="u")]
    assert stage_ids(run_spec, run_uid="u") == (*planned, PROFILE_STAGE)
    assert stage_ids(
        spec(workloads=[a_workload(load=rates("1", "4"))]), run_uid="u"
    ) == tuple(planned)


def test_the_deployment_is_one_that_kubernetes_takes() -> None:
    import kubernetes_validate

    (role,) = server_roles(
        OWNER, profiled(), client_image="client:1", pull_policy="IfNotPresent"
    )
    kubernetes_validate.validate(workload(OWNER, role), "1.31", strict=True)


def test_the_operators_image_holds_the_reader() -> None:
    root = Path(__file__).parents[3]
    copied = re.findall(
        r"^COPY client-image/(benchrun_client\S*) ",
        (root / "Dockerfile").read_text(),
        re.MULTILINE,
    )
    shipped = "\n".join(
        file.read_text()
        for path in copied
        for file in (root / "client-image" / path).rglob("*.py")
    )
    assert reader_source("vllm/trace_reader.py") in shipped
