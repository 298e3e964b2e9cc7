"""Flags and commands that would make another server than the run measures: refused with the spec,
naming what to set instead."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, first_problem
from benchrun.api.sweep import BenchmarkSweepSpec
from benchrun.plan import planned_variants
from benchrun.preflight.server_flags import table_for
from benchrun_client.engines import ENGINES
from benchrun_client.engines.vllm.launch import OWNED_FLAGS
from pydantic import ValidationError
from unit.api.spec_cases import absent, minimal

VLLM = ENGINES["VLLM"]

MODULE = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
IMAGE = {"image": "vllm/vllm-openai:v0.32.0"}


def problem(changes: dict[str, Any]) -> str | None:
    """What is wrong with the minimal spec and these changes; None: nothing."""
    try:
        BenchmarkRunSpec.model_validate(minimal(changes))
    except ValidationError as error:
        return first_problem(error)
    return None


@pytest.mark.parametrize(
    ("words", "place", "instead"),
    [
        pytest.param(["--port=9000"], 0, "port 8000", id="a port"),
        pytest.param(
            ["--seed=1", "--port", "9000"],
            1,
            "port 8000",
            id="in two words, behind another",
        ),
        pytest.param(
            ["--served_model_name=x"], 0, "model.servedName", id="with underscores"
        ),
        pytest.param(
            ["--served-model", "x"],
            0,
            "model.servedName",
            id="shortened, as argparse allows it",
        ),
        pytest.param(
            ["--mod=x"],
            0,
            "model.name",
            id="shortened to what several flags begin with",
        ),
        pytest.param(["--host=::1"], 0, "other pods", id="a host"),
        pytest.param(["--uds=/tmp/s"], 0, "other pods", id="a socket"),
        pytest.param(["--ssl-keyfile=/k"], 0, "plain HTTP", id="TLS"),
        pytest.param(["--tokenizer=x"], 0, "model.tokenizer", id="a tokenizer"),
        pytest.param(["--revision=x"], 0, "model.revision", id="a revision"),
        pytest.param(
            ["--chat-template=/t.jinja"],
            0,
            "set chatTemplate",
            id="a chat template",
        ),
        pytest.param(
            ["--config=server.yaml"], 0, "list them in args", id="a file of flags"
        ),
        pytest.param(
            ["-n=2"], 0, "nodesPerReplica", id="nodes, by their short name"
        ),
        pytest.param(["-r", "1"], 0, "nodesPerReplica", id="a rank"),
        pytest.param(["--headless"], 0, "nodesPerReplica", id="no API server"),
        pytest.param(
            ["--port=$(PORT)"],
            0,
            "port 8000",
            id="a placeholder, which is for commands",
        ),
    ],
)
def test_a_flag_of_the_operators_is_rejected_in_every_place_of_flags(
    words: list[str], place: int, instead: str
) -> None:
    roles = {"kvTransfer": {"connector": "C"}, "decode": {"args": words}}
    whole = {"workloads.0.load": {"requestRates": ["inf"]}, "server": absent()}
    spelled: dict[str, dict[str, Any]] = {
        f"spec.server.args[{place}]": {"server.args": words},
        f"spec.server.disaggregated.decode.args[{place}]": {
            "server.disaggregated": roles
        },
        f"spec.offline.args[{place}]": whole
        | {"offline": {**IMAGE, "args": words}},
    }
    found = {path: problem(changes) for path, changes in spelled.items()}
    assert [
        path
        for path, text in found.items()
        if text is None or not text.startswith(f"{path}: ")
    ] == []
    assert [path for path, text in found.items() if instead not in str(text)] == []


def test_a_secret_is_not_repeated() -> None:
    found = problem({"server.args": ["--api-key=topsecret"]})
    assert found is not None
    assert ("--api-key" in found, "topsecret" in found) == (True, False)


def test_a_variable_that_sets_a_key_is_rejected_and_not_repeated() -> None:
    found = problem(
        {
            "server.env": [
                {"name": "HF_HOME", "value": "/x"},
                {"name": "VLLM_API_KEY", "value": "topsecret"},
            ]
        }
    )
    assert found is not None
    assert found.startswith("spec.server.env[1]: VLLM_API_KEY: ")
    assert "topsecret" not in found


@pytest.mark.parametrize(
    "words",
    [
        ["--max-model-len=4096", "--no-enable-prefix-caching"],
        [
            "--tokenizer-mode=slow",
            "--model-impl=auto",
            "--chat-template-content-format=string",
            "-tp",
            "2",
        ],
        ["--hf-overrides", '{"model": "x"}', "--seed", "-1"],
    ],
)
def test_other_flags_are_the_users(words: list[str]) -> None:
    assert problem({"server.args": words}) is None


def test_no_flag_of_vllm_is_taken_for_a_shortened_one_of_ours() -> None:
    real = table_for("0.32")
    assert real is not None
    assert {name for name in real.flags if VLLM.owned_flag([name]) is not None} - {
        *OWNED_FLAGS,
        "-n",
        "-r",
    } == set()
    assert set(OWNED_FLAGS) - set(real.flags) == set()


def test_a_variant_of_a_sweep_is_rejected_with_its_name() -> None:
    body = {
        "template": minimal(),
        "matrix": {
            "variants": [{"name": "a"}, {"name": "b", "args": ["--port=1"]}]
        },
    }
    with pytest.raises(
        ValueError,
        match=r"variant b: its run's spec\.server\.args\[0\]: --port belongs",
    ):
        planned_variants(BenchmarkSweepSpec.model_validate(body))


@pytest.mark.parametrize(
    ("command", "place", "text"),
    [
        pytest.param(
            [*MODULE, "--model=facebook/opt-125m"],
            3,
            "(only the value $(MODEL) is allowed)",
            id="another model",
        ),
        pytest.param(
            [*MODULE, "--model", "facebook/opt-125m"],
            3,
            "model.name",
            id="another model, in two words",
        ),
        pytest.param(
            ["vllm", "serve", "facebook/opt-125m"],
            2,
            r"$(MODEL)",
            id="another model, by place",
        ),
        pytest.param(
            ["/opt/vllm", "serve", "o/m"],
            2,
            r"$(MODEL)",
            id="another model, by place, with a path",
        ),
        pytest.param(
            MODULE, 2, "by flag only", id="a module that would pass the model over"
        ),
        pytest.param(
            [*MODULE, "--model=$(MODEL)", "--port=80"],
            4,
            "port 8000",
            id="another port",
        ),
        pytest.param(
            [*MODULE, "--model=$(MODEL)", "--host=0.0.0.0"],
            4,
            "remove the flag",
            id="a host",
        ),
    ],
)
def test_a_command_that_would_start_another_server_is_rejected(
    command: list[str], place: int, text: str
) -> None:
    found = problem({"server.command": command})
    assert found is not None
    assert found.startswith(f"spec.server.command[{place}]: ")
    assert text in found


@pytest.mark.parametrize(
    "command",
    [
        [
            *MODULE,
            "--model",
            "$(MODEL)",
            "--port",
            "$(PORT)",
            "--served-model-name",
            "$(SERVED_NAME)",
        ],
        [*MODULE, "--model=$(MODEL)", "--max-model-len", "4096"],
        ["vllm", "serve"],
        ["vllm", "serve", "$(MODEL)", "--enforce-eager"],
        ["bash", "-c", "ulimit -n 65536; exec vllm serve $(MODEL) --port $(PORT)"],
    ],
)
def test_a_command_that_takes_the_runs_model_is_accepted(
    command: list[str],
) -> None:
    assert problem({"server.command": command}) is None


def test_over_several_nodes_only_vllm_serve_can_be_the_command() -> None:
    several = {"server.nodesPerReplica": 2}
    assert problem(several | {"server.command": ["vllm", "serve"]}) is None
    found = problem(several | {"server.command": [*MODULE, "--model=$(MODEL)"]})
    assert str(found).startswith(
        "spec.server.command: only `vllm serve` starts a server over several nodes"
    )


def test_an_engine_without_api_server_has_no_command() -> None:
    whole = {
        "workloads.0.load": {"requestRates": ["inf"]},
        "server": absent(),
        "offline": {**IMAGE, "command": ["x"]},
    }
    assert str(problem(whole)).startswith("spec.offline.command: ")
