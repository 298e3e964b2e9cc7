"""Models that nobody asked for: at a server that runs, and by the spec."""

from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest
from benchrun.judge.rules.rule import Code
from benchrun.judge.rules.server_identity import wrong_model
from benchrun.judge.stage_facts import ExpectedStage, expected_stage
from benchrun.plan import started_command
from benchrun_client.contract import ServedModel
from benchrun_client.engines import ENGINES
from benchrun_client.server.counter_snapshots import identify
from benchrun_simulator.launch import running
from unit.judge.specs import SERVER, spec
from unit.judge.stages import context, findings, open_loop_load
from unit.measure.records import edge, load_point, record

VLLM = ENGINES["VLLM"]

ROLE = "server"


def _model(**source: Any) -> dict[str, Any]:
    return {"name": "tiny", "source": source}


def is_wrong(load: ExpectedStage, served: ServedModel | None) -> bool:
    server = edge().model_copy(update={"served": served})
    found = wrong_model(context(load=load)(record(servers=(server,))))
    return [each.code for each in findings(found)] == [Code.WRONG_MODEL]


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        pytest.param("tiny", {"server": SERVER}, id="the hub"),
        pytest.param(
            "/model/a",
            {
                "server": SERVER,
                "model": _model(pvc={"claimName": "c", "path": "a"}),
            },
            id="a claim",
        ),
        pytest.param(
            "/models/x",
            {"server": SERVER, "model": _model(path={"path": "/models/x"})},
            id="a path",
        ),
        pytest.param(
            None, {"endpoint": {"url": "http://server:8000"}}, id="an endpoint"
        ),
    ],
)
def test_what_a_spec_has_its_servers_told(
    model: str | None, changes: dict[str, Any]
) -> None:
    load = expected_stage(
        spec(**({"endpoint": None, "model": _model(hub={})} | changes)),
        load_point(),
    )
    assert (load.served_name, load.model, dict(load.servers)) == (
        "tiny",
        model,
        {} if model is None else {ROLE: 1},
    )


async def test_a_command_that_starts_another_model_is_found_by_where_it_comes_from() -> (
    None
):
    script = "exec vllm serve org/other --served-model-name $(SERVED_NAME) --tokenizer=tiny"
    server = {"image": "v", "command": ["bash", "-c", script], "args": ["--seed=1"]}
    run = spec(
        endpoint=None,
        server=server,
        model={"name": "org/model", "servedName": "tiny"},
    )
    flags = started_command(run)[-1].removeprefix("exec vllm serve ").split()
    with running(*flags) as process:
        async with aiohttp.ClientSession() as session:
            identity = await identify(
                session, f"{process.url}/metrics", VLLM, role="server", model="tiny"
            )
    assert is_wrong(expected_stage(run, load_point()), identity.served)


@pytest.mark.parametrize(
    ("wrong", "flags"),
    [(False, []), (True, ["--sim-root=facebook/opt-125m"])],
)
async def test_a_server_that_serves_another_model_under_the_asked_name(
    wrong: bool, flags: Sequence[str]
) -> None:
    with running(
        "org/model", "--served-model-name=tiny", "--tokenizer=tiny", *flags
    ) as server:
        async with aiohttp.ClientSession() as session:
            identity = await identify(
                session, f"{server.url}/metrics", VLLM, role="server", model="tiny"
            )
    load = open_loop_load(servers={ROLE: 1}, served_name="tiny", model="org/model")
    assert is_wrong(load, identity.served) == wrong
