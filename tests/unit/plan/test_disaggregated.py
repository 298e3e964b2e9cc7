"""A server in two roles: what each is told, and where the client and the proxy find them."""

import json
from typing import Any

import pytest
from benchrun.names import ROLE_DECODE, ROLE_PREFILL, ROLE_PROXY
from benchrun.observe import main_container
from benchrun.plan import (
    answering_args,
    answering_servers,
    front_role,
    gpus,
    plan_of_client,
    server_roles,
    started_args,
)
from benchrun_client.contract import RoleTarget
from unit.client.plans import TOKEN_DIGEST
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, Json, spec

GPU: Json = {"limits": {"nvidia.com/gpu": 1}}
NIXL: Json = {"connector": "NixlConnector"}


def server(**changes: Any) -> Json:
    """One prefill server and two that decode."""
    split: Json = {
        "prefill": {"resources": GPU, "args": ["--max-num-seqs=8"]},
        "decode": {"resources": {"limits": {"nvidia.com/gpu": 2}}, "replicas": 2},
        "kvTransfer": NIXL,
        **changes,
    }
    return {
        "image": "vllm:1",
        "args": ["--max-model-len=2048"],
        "disaggregated": split,
    }


def containers(**changes: Any) -> dict[str, Json]:
    """The main container of every role."""
    started = server_roles(
        OWNER,
        spec(server=server(**changes)),
        client_image="client:1",
        pull_policy="Always",
    )
    return {role.name: role.pod_spec["containers"][0] for role in started}


def kv_config(args: list[str]) -> Json:
    (found,) = [
        arg.partition("=")[2]
        for arg in args
        if arg.startswith("--kv-transfer-config=")
    ]
    config: Json = json.loads(found)
    return config


def test_a_deployment_and_a_service_for_each_role() -> None:
    made = objects(OWNER, spec(server=server()))
    replicas = {
        m["metadata"]["name"]: m["spec"]["replicas"]
        for m in made
        if m["kind"] == "Deployment"
    }
    assert replicas == {
        "br-qwen-6316e01c-prefill": 1,
        "br-qwen-6316e01c-decode": 2,
        "br-qwen-6316e01c-proxy": 1,
    }
    services = {
        m["metadata"]["name"]: m["spec"]["selector"]["benchrun.dev/role"]
        for m in made
        if m["kind"] == "Service"
    }
    assert services == {
        "br-qwen-6316e01c-prefill": "prefill",
        "br-qwen-6316e01c-decode": "decode",
        "br-qwen-6316e01c-proxy": "proxy",
    }


def test_roles_get_transfer_flags_then_server_flags_then_their_own() -> None:
    spoken = containers()
    assert [
        arg for arg in spoken[ROLE_PREFILL]["args"] if arg.startswith("--max")
    ] == [
        "--max-model-len=2048",
        "--max-num-seqs=8",
    ]
    assert [
        arg for arg in spoken[ROLE_DECODE]["args"] if arg.startswith("--max")
    ] == ["--max-model-len=2048"]
    for role in (ROLE_PREFILL, ROLE_DECODE):
        args = spoken[role]["args"]
        assert args[0] == "Qwen/Qwen3-4B"
        transfer = next(
            n
            for n, arg in enumerate(args)
            if arg.startswith("--kv-transfer-config=")
        )
        assert kv_config(args[transfer : transfer + 1]) == {
            "kv_connector": "NixlConnector",
            "kv_role": "kv_both",
        }
        assert transfer < args.index("--max-model-len=2048")


@pytest.mark.parametrize(
    ("transfer", "prefill", "decode"),
    [
        ({"connector": "C"}, {}, {}),
        (
            {"connector": "C", "roles": "ProducerConsumer"},
            {"kv_role": "kv_producer"},
            {"kv_role": "kv_consumer"},
        ),
        (
            {"connector": "C", "extraConfig": {"shared_storage_path": "/kv"}},
            {"kv_connector_extra_config": {"shared_storage_path": "/kv"}},
            {"kv_connector_extra_config": {"shared_storage_path": "/kv"}},
        ),
    ],
)
def test_the_transfer_is_written_for_each_role(
    transfer: Json, prefill: Json, decode: Json
) -> None:
    spoken = containers(kvTransfer=transfer)
    common = {"kv_connector": "C", "kv_role": "kv_both"}
    assert kv_config(spoken[ROLE_PREFILL]["args"]) == common | prefill
    assert kv_config(spoken[ROLE_DECODE]["args"]) == common | decode


def test_each_pod_tells_nixl_its_own_address_unless_the_user_does() -> None:
    named = "VLLM_NIXL_SIDE_CHANNEL_HOST"
    (own,) = [v for v in containers()[ROLE_DECODE]["env"] if v["name"] == named]
    assert own["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    body = server() | {"env": [{"name": named, "value": "10.1.1.1"}]}
    started = server_roles(
        OWNER, spec(server=body), client_image="c", pull_policy="Always"
    )
    (given,) = [
        v for v in started[0].pod_spec["containers"][0]["env"] if v["name"] == named
    ]
    assert given == {"name": named, "value": "10.1.1.1"}


def test_the_proxy_is_ours_and_gets_the_number_of_servers() -> None:
    proxy = containers(proxy={"args": ["--max-in-flight=9"]})[ROLE_PROXY]
    assert (proxy["image"], proxy["command"]) == (
        "client:1",
        ["python3", "-m", "benchrun_client.proxy"],
    )
    assert proxy["args"] == [
        "--engine=VLLM",
        "--prefill=$(PREFILL_URL)",
        "--decode=$(DECODE_URL)",
        "--port=8000",
        "--prefill-replicas=1",
        "--decode-replicas=2",
        "--max-in-flight=9",
    ]
    assert {v["name"]: v["value"] for v in proxy["env"]} == {
        "PREFILL_URL": "http://br-qwen-6316e01c-prefill.lab.svc:8000",
        "DECODE_URL": "http://br-qwen-6316e01c-decode.lab.svc:8000",
    }
    assert proxy["securityContext"]["readOnlyRootFilesystem"] is True
    assert main_container(ROLE_PROXY) == proxy["name"]


def test_the_proxy_is_placed_as_the_client_is() -> None:
    client = {
        "pod": {
            "nodeSelector": {"pool": "cpu"},
            "imagePullSecrets": ["ours"],
            "volumes": [{"name": "data"}],
        }
    }
    body = server() | {
        "pod": {"imagePullSecrets": ["theirs"], "tolerations": [{"key": "gpu"}]}
    }
    made = server_roles(
        OWNER,
        spec(server=body, client=client),
        client_image="client:1",
        pull_policy="Always",
    )
    (pod,) = (role.pod_spec for role in made if role.name == ROLE_PROXY)
    assert (pod["nodeSelector"], "tolerations" in pod) == ({"pool": "cpu"}, False)
    assert [each["name"] for each in pod["imagePullSecrets"]] == ["ours", "theirs"]
    assert [each["name"] for each in pod["volumes"]] == ["tmp"]


def test_anothers_proxy_has_its_own_entry_point() -> None:
    proxy = containers(proxy={"image": "theirs:2", "args": ["--to=$(DECODE_URL)"]})[
        ROLE_PROXY
    ]
    assert (proxy["image"], proxy["args"], "command" in proxy) == (
        "theirs:2",
        ["--to=$(DECODE_URL)"],
        False,
    )


def test_the_client_asks_the_proxy_and_reads_the_pages_of_all() -> None:
    target = plan_of_client(
        OWNER, spec(server=server()), token_digest=TOKEN_DIGEST
    ).target
    assert (target.base_url, target.servers) == (
        "http://br-qwen-6316e01c-proxy.lab.svc:8000",
        1,
    )
    assert target.behind == (
        RoleTarget(
            role="prefill",
            base_url="http://br-qwen-6316e01c-prefill.lab.svc:8000",
            servers=1,
        ),
        RoleTarget(
            role="decode",
            base_url="http://br-qwen-6316e01c-decode.lab.svc:8000",
            servers=2,
        ),
    )
    assert target.context_tokens == 2048


def test_a_plan_without_a_proxy_does_not_speak_of_one() -> None:
    assert (
        '"behind"'
        not in plan_of_client(OWNER, spec(), token_digest=TOKEN_DIGEST).to_json()
    )
    split = plan_of_client(OWNER, spec(server=server()), token_digest=TOKEN_DIGEST)
    assert '"behind"' in split.to_json()
    assert split.model_validate_json(split.to_json()) == split


def test_gpus_are_those_of_both_roles() -> None:
    assert gpus(spec(server=server())) == 1 + 2 * 2


def test_who_answers_and_by_which_arguments() -> None:
    split = spec(server=server())
    assert (front_role(split), answering_servers(split)) == (ROLE_PROXY, 2)
    assert answering_args(split) == started_args(split, ROLE_DECODE)
    assert "--max-num-seqs=8" in started_args(split, ROLE_PREFILL)
    assert "--max-num-seqs=8" not in answering_args(split)


def test_under_reset_both_roles_open_the_endpoint_and_are_fenced() -> None:
    body = spec(server=server(), measurement={"cachePolicy": "Reset"})
    made = objects(OWNER, body)
    (selected,) = of_kind(made, "NetworkPolicy")["spec"]["podSelector"][
        "matchExpressions"
    ]
    assert set(selected["values"]) == {"prefill", "decode", "proxy"}
