"""What `vllm serve` is told: ours first, the user's own flags last, so that theirs win."""

from dataclasses import replace

import pytest
from benchrun.plan import engine_pod, server_pod, started_args
from benchrun_client.engines import ENGINE
from unit.plan.specs import OWNER, Json, spec

PVC = {"pvc": {"claimName": "models", "path": "qwen"}}


@pytest.mark.parametrize(
    ("expected", "model"),
    [
        pytest.param(["org/m", "--served-model-name=org/m", "--port=8000"], {"name": "org/m"}, id="hub"),
        pytest.param(
            ["org/m", "--served-model-name=org/m", "--port=8000", "--revision=v2"],
            {"name": "org/m", "revision": "v2"},
            id="hub at a revision",
        ),
        pytest.param(
            ["org/m", "--served-model-name=org/m", "--port=8000", "--tokenizer=org/t"],
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


def test_an_engine_whose_image_does_not_begin_with_its_server_has_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_pod, "ENGINE", replace(ENGINE, command=("python3", "-m", "server")))
    run = spec()
    assert run.server is not None
    (container,) = engine_pod(OWNER, run, run.server, args=["--x"], resources=run.server.resources)["containers"]
    assert (container["command"], container["args"]) == (["python3", "-m", "server"], ["--x"])
