"""The pod of an engine without API server: the user's image and flags, the client's code beside
it."""

from typing import Any

import pytest
from benchrun.plan import CODE_DIRECTORY, IMAGE_CODE_DIRECTORY, gpus, started_args
from unit.plan.objects import CLIENT_IMAGE, objects, of_kind
from unit.plan.specs import OWNER, Json, rates, spec, spec_body, workload

OFFLINE: Json = {
    "image": "vllm/vllm-openai:v0.32.0",
    "args": ["--max-num-seqs=64"],
    "resources": {"limits": {"nvidia.com/gpu": 2}},
}


def pod(**changes: Any) -> Json:
    body: Json = {
        "server": None,
        "offline": OFFLINE,
        "workloads": [workload(load=rates("inf"))],
        **changes,
    }
    deployment = of_kind(objects(OWNER, spec(**body)), "Deployment")
    found: Json = deployment["spec"]["template"]["spec"]
    return found


def test_the_image_and_the_flags_are_the_users() -> None:
    (engine,) = pod()["containers"]
    assert engine["image"] == OFFLINE["image"]
    assert engine["command"] == ["python3", f"{CODE_DIRECTORY}/offline_engine.py"]
    assert engine["args"] == [
        "--model=Qwen/Qwen3-4B",
        "--served-model-name=Qwen/Qwen3-4B",
        "--port=8000",
        "--max-num-seqs=64",
    ]
    assert engine["resources"] == {"limits": {"nvidia.com/gpu": 2}}


@pytest.mark.parametrize(
    ("client", "image"),
    [
        pytest.param({}, CLIENT_IMAGE, id="the operator's"),
        pytest.param({"image": "mine:1"}, "mine:1", id="the run's"),
    ],
)
def test_the_code_is_copied_from_the_clients_image_where_it_takes_no_gpu(
    client: Json, image: str
) -> None:
    made = pod(client=client)
    (copy,) = made["initContainers"]
    assert copy["image"] == image
    assert copy["command"] == [
        "cp",
        "-r",
        f"{IMAGE_CODE_DIRECTORY}/.",
        CODE_DIRECTORY,
    ]
    assert "nvidia.com/gpu" not in copy["resources"].get("limits", {})
    (engine,) = made["containers"]
    (mount,) = [
        m for m in engine["volumeMounts"] if m["mountPath"] == CODE_DIRECTORY
    ]
    assert mount["readOnly"] is True
    assert mount["name"] in {volume["name"] for volume in made["volumes"]}


def test_both_containers_give_up_their_privileges() -> None:
    made = pod()
    for container in (*made["initContainers"], *made["containers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert made["securityContext"]["runAsNonRoot"] is True


def test_its_gpus_are_counted() -> None:
    assert (
        gpus(
            spec(
                server=None,
                offline=OFFLINE,
                workloads=[workload(load=rates("inf"))],
            )
        )
        == 2
    )


def test_arguments_of_whatever_is_started() -> None:
    whole = [workload(load=rates("inf"))]
    assert (
        started_args(spec(server=None, offline=OFFLINE, workloads=whole))[0]
        == "--model=Qwen/Qwen3-4B"
    )
    assert started_args(spec())[0] == "Qwen/Qwen3-4B"
    assert started_args(spec(server=None, endpoint={"url": "http://llm"})) == []


def test_a_server_has_no_copied_code() -> None:
    made = of_kind(objects(OWNER, spec(**spec_body())), "Deployment")["spec"][
        "template"
    ]["spec"]
    assert "initContainers" not in made
