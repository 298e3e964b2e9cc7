"""A command in place of the image's entry point: what it carries is not repeated, and what it gives is read like arguments."""

from typing import Any

import pytest
from benchrun.names import ROLE_DECODE, ROLE_PREFILL
from benchrun.plan import answering_args, plan_of_client, server_roles, worker_pod
from unit.client.plans import TOKEN_DIGEST
from unit.plan.specs import OWNER, Json, spec

MODULE = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
NAME, PORT = "--served-model-name=Qwen/Qwen3-4B", "--port=8000"


def containers(**server: Any) -> dict[str, Json]:
    """Of each role, the container of the engine."""
    run = spec(server={"image": "vllm/vllm-openai:v0.8.4", **server})
    started = server_roles(OWNER, run, client_image="c", pull_policy="Always")
    return {role.name: role.pod_spec["containers"][0] for role in started}


@pytest.mark.parametrize(
    ("given", "command", "args"),
    [
        pytest.param([], None, ["Qwen/Qwen3-4B", NAME, PORT, "--dtype=half"], id="the image's own entry point"),
        pytest.param(
            ["vllm", "serve"], ["vllm", "serve"], ["Qwen/Qwen3-4B", NAME, PORT, "--dtype=half"], id="carries nothing"
        ),
        pytest.param(
            [*MODULE, "--model", "$(MODEL)"],
            [*MODULE, "--model", "Qwen/Qwen3-4B"],
            [NAME, PORT, "--dtype=half"],
            id="carries the model",
        ),
        pytest.param(
            [*MODULE, "--model=$(MODEL)", "--port=$(PORT)", "--served-model-name=$(SERVED_NAME)"],
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
    roles = {"kvTransfer": {"connector": "C"}, "decode": {"args": ["--max-num-seqs=4"]}}
    started = containers(command=[*MODULE, "--model=$(MODEL)"], disaggregated=roles)
    for role in (ROLE_PREFILL, ROLE_DECODE):
        assert started[role]["command"] == [*MODULE, "--model=Qwen/Qwen3-4B"]
        assert started[role]["args"][:2] == [NAME, PORT]
    assert started[ROLE_DECODE]["args"][-1] == "--max-num-seqs=4"


def test_every_pod_of_a_server_over_several_nodes_begins_with_it() -> None:
    run = spec(server={"image": "v", "command": ["vllm", "serve"], "nodesPerReplica": 2})
    (role,) = server_roles(OWNER, run, client_image="c", pull_policy="Always")
    (worker,) = worker_pod(role.pod_spec)["containers"]
    assert worker["command"] == ["vllm", "serve"]
    assert (worker["args"][0], worker["args"][-1]) == ("Qwen/Qwen3-4B", "--headless")


def test_flags_in_a_command_are_read_like_arguments() -> None:
    command = [*MODULE, "--model", "$(MODEL)", "--max-model-len", "4096"]
    run = spec(server={"image": "v", "command": command, "args": ["--max-num-seqs=9"]})
    assert run.server is not None
    assert plan_of_client(OWNER, run, token_digest=TOKEN_DIGEST).target.context_tokens == 4096
    assert run.server.words_of("server") == [*command, "--max-num-seqs=9"]
    assert "--max-num-seqs=9" in answering_args(run)


def test_flags_in_a_script_are_not_checked() -> None:
    run = spec(server={"image": "v", "command": ["bash", "-c", "vllm serve $(MODEL) --max-model-len 4096"]})
    assert run.server is not None
    assert run.server.words_of("server") is None
    assert plan_of_client(OWNER, run, token_digest=TOKEN_DIGEST).target.context_tokens is None
