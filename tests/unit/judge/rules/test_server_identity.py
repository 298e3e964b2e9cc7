"""Servers that are not the run's own, and models that nobody asked for."""

from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest
from benchrun.api import ServerStatus
from benchrun.judge.rules.rule import Code, Found, StageFinding
from benchrun.judge.rules.server_identity import (
    foreign_traffic,
    server_restarted,
    wrong_model,
    wrong_server,
)
from benchrun.judge.stage_facts import ExpectedStage, expected_stage
from benchrun.measure import Window
from benchrun.measure.metrics_page import Sample
from benchrun.plan import started_command
from benchrun_client.contract import (
    START_TIME,
    ServedModel,
    ServerEdge,
    StageRecord,
)
from benchrun_client.engines import ENGINES
from benchrun_client.server.counter_snapshots import identify
from benchrun_simulator.launch import running
from unit.judge.specs import SERVER, spec
from unit.judge.stages import (
    Profiled,
    context,
    findings,
    one_finding,
    open_loop_load,
    unchecked,
)
from unit.measure.records import ZERO, edge, load_point, record, requests, sample

VLLM = ENGINES["VLLM"]

ROLE = "server"


def _model(**source: Any) -> dict[str, Any]:
    return {"name": "tiny", "source": source}


def own(**changes: Any) -> ExpectedStage:
    """Of a run that starts one server."""
    return open_loop_load(
        **({"servers": {ROLE: 1}, "served_name": "tiny", "model": "tiny"} | changes)
    )


def pods(*addresses: str, role: str = ROLE) -> ServerStatus:
    return ServerStatus(engine="VLLM", role=role, addresses=list(addresses))


def codes_of(found: Found) -> list[tuple[Code, str]]:
    """What was found, with its severity, or `?` where it could not be checked."""
    return [
        (each.code, each.severity if isinstance(each, StageFinding) else "?")
        for each in found
    ]


WRONG_SERVER = [(Code.WRONG_SERVER, "Invalid")]
UNKNOWN_SERVER = [(Code.WRONG_SERVER, "?")]
WRONG_MODEL = [(Code.WRONG_MODEL, "Invalid")]
UNKNOWN_MODEL = [(Code.WRONG_MODEL, "?")]


@pytest.mark.parametrize(
    ("expected", "measured", "known"),
    [
        pytest.param([], ["10.0.0.1:8000"], ["10.0.0.1"], id="the pod"),
        pytest.param(
            UNKNOWN_SERVER,
            ["10.0.0.1"],
            ["10.0.0.1"],
            id="without a port: not what a client writes",
        ),
        pytest.param(
            [],
            ["10.0.0.1:8000"],
            ["10.0.0.7", "10.0.0.1"],
            id="one that was replaced is known too",
        ),
        pytest.param(
            [], ["[fd00::1]:8000"], ["fd00:0:0::1"], id="another spelling"
        ),
        pytest.param(
            WRONG_SERVER, ["10.0.0.9:8000"], ["10.0.0.1"], id="no pod of the run"
        ),
        pytest.param(
            WRONG_SERVER,
            ["10.0.0.1:8000", "10.0.0.9:8000"],
            ["10.0.0.1"],
            id="one of two",
        ),
        pytest.param(
            UNKNOWN_SERVER, ["10.0.0.1:8000"], [], id="no pod's address is known"
        ),
        pytest.param(
            UNKNOWN_SERVER, ["10.0.0.1:8000"], ["fd00::1"], id="another family only"
        ),
        pytest.param(UNKNOWN_SERVER, ["host:8000"], ["10.0.0.1"], id="a name"),
        pytest.param(
            UNKNOWN_SERVER, ["[bad"], ["10.0.0.1"], id="garbage from the client"
        ),
        pytest.param(
            UNKNOWN_SERVER,
            ["10.0.0.9:8000"],
            ["nonsense"],
            id="garbage in the status",
        ),
        pytest.param(
            UNKNOWN_SERVER, [], ["10.0.0.1"], id="no server in the record"
        ),
    ],
)
def test_addresses_are_held_against_the_runs_pods(
    expected: object, measured: list[str], known: list[str]
) -> None:
    servers = tuple(edge(address) for address in measured)
    found = wrong_server(
        context(load=own(), servers=[pods(*known)])(record(servers=servers))
    )
    assert codes_of(found) == expected


def test_pods_count_in_their_own_role_only() -> None:
    split = own(servers={"prefill": 1, "decode": 1})
    swapped = (
        edge("10.0.0.1:8000", role="decode"),
        edge("10.0.0.2:8000", role="prefill"),
    )
    known = [pods("10.0.0.1", role="prefill"), pods("10.0.0.2", role="decode")]
    assert (
        codes_of(
            wrong_server(
                context(load=split, servers=known)(record(servers=swapped))
            )
        )
        == WRONG_SERVER
    )


def test_where_a_replicas_address_was_missed_nothing_is_claimed() -> None:
    found = wrong_server(
        context(load=own(servers={ROLE: 2}), servers=[pods("10.0.0.1")])(
            record(servers=(edge("10.0.0.2:8000"),))
        )
    )
    assert codes_of(found) == UNKNOWN_SERVER


def test_an_endpoint_has_no_pods_of_the_run() -> None:
    assert (
        codes_of(
            wrong_server(
                context(load=open_loop_load(), servers=[pods("10.0.0.7")])(record())
            )
        )
        == []
    )


def test_the_evidence_names_both_sides() -> None:
    (found,) = wrong_server(
        context(load=own(), servers=[pods("10.0.0.1")])(
            record(servers=(edge("10.0.0.9:8000"),))
        )
    )
    assert isinstance(found, StageFinding)
    assert found.evidence == {
        "servers": 1,
        "server": "10.0.0.9:8000",
        "role": ROLE,
        "ownServers": "10.0.0.1",
    }


def serving(served: ServedModel | None, **changes: Any) -> ServerEdge:
    return edge().model_copy(update={"served": served, **changes})


def wrong_model_of(
    load: ExpectedStage, *servers: ServerEdge
) -> list[tuple[Code, str]]:
    return codes_of(wrong_model(context(load=load)(record(servers=servers))))


def card(root: str | None, name: str = "tiny") -> ServedModel:
    return ServedModel(id=name, root=root)


@pytest.mark.parametrize(
    ("expected", "root", "model"),
    [
        pytest.param([], "Qwen/Qwen3-4B", "Qwen/Qwen3-4B", id="as it was told"),
        pytest.param([], "/model/", "/model", id="a slash more"),
        pytest.param(
            [],
            "/models/Qwen3-4B",
            "Qwen/Qwen3-4B",
            id="a folder that comes with the image",
        ),
        pytest.param(
            [],
            "/hub/models--Qwen--Qwen3-4B/snapshots/1a",
            "Qwen/Qwen3-4B",
            id="in the hub's cache",
        ),
        pytest.param(
            WRONG_MODEL,
            "facebook/opt-125m",
            "Qwen/Qwen3-4B",
            id="an image's default",
        ),
        pytest.param(
            WRONG_MODEL, "other/Qwen3-4B", "Qwen/Qwen3-4B", id="somebody else's"
        ),
        pytest.param(
            WRONG_MODEL, "Qwen/Qwen3-4B", "/model", id="from the hub, not the mount"
        ),
        pytest.param(WRONG_MODEL, "/opt/default", "/model", id="another folder"),
        pytest.param(
            WRONG_MODEL,
            "/opt/default",
            "Qwen/Qwen3-4B",
            id="a folder that nobody named",
        ),
        pytest.param(UNKNOWN_MODEL, "", "Qwen/Qwen3-4B", id="no text"),
        pytest.param(
            UNKNOWN_MODEL, "tiny", "Qwen/Qwen3-4B", id="the name once more"
        ),
        pytest.param([], "tiny", "tiny", id="the name, which is the model"),
        pytest.param(UNKNOWN_MODEL, None, "Qwen/Qwen3-4B", id="not told"),
    ],
)
def test_the_model_is_held_against_what_the_server_was_told(
    expected: object, root: str | None, model: str
) -> None:
    assert wrong_model_of(own(model=model), serving(card(root))) == expected


def test_a_name_that_the_runs_own_server_does_not_list() -> None:
    assert (
        wrong_model_of(own(), serving(card("tiny", name="default"))) == WRONG_MODEL
    )


def test_a_server_that_lists_nothing() -> None:
    assert wrong_model_of(own(), serving(None)) == UNKNOWN_MODEL
    assert wrong_model_of(own()) == UNKNOWN_MODEL


def test_one_of_two_is_enough_and_a_proxy_is_not_asked() -> None:
    proxy = serving(card("elsewhere"), role="proxy")
    assert wrong_model_of(own(), serving(card("tiny")), proxy) == []
    assert (
        wrong_model_of(own(), serving(card("tiny")), serving(card("other")))
        == WRONG_MODEL
    )


def test_an_engine_without_api_server_loads_what_our_code_tells_it() -> None:
    assert wrong_model_of(own(offline=True), serving(None)) == []


@pytest.mark.parametrize(
    ("expected", "load", "server"),
    [
        pytest.param(
            [],
            open_loop_load(served_name="tiny"),
            serving(card("/weights/v7")),
            id="where it lies is the owner's choice",
        ),
        pytest.param(
            UNKNOWN_MODEL,
            open_loop_load(),
            serving(card("x", name="y")),
            id="a gateway may know more names",
        ),
        pytest.param(
            WRONG_MODEL,
            open_loop_load(through_service=True),
            serving(card("x", name="y")),
            id="vLLM's pod may not",
        ),
        pytest.param(
            UNKNOWN_MODEL,
            open_loop_load(through_service=True),
            serving(card("x", name="y"), after=None),
            id="a pod that is not known for vLLM's",
        ),
    ],
)
def test_an_endpoint_is_held_to_its_name_alone(
    expected: object, load: ExpectedStage, server: ServerEdge
) -> None:
    assert wrong_model_of(load, server) == expected


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
    assert (
        wrong_model_of(expected_stage(run, load_point()), serving(identity.served))
        == WRONG_MODEL
    )


@pytest.mark.parametrize(
    ("expected", "flags"),
    [([], []), (WRONG_MODEL, ["--sim-root=facebook/opt-125m"])],
)
async def test_a_server_that_serves_another_model_under_the_asked_name(
    expected: object, flags: Sequence[str]
) -> None:
    with running(
        "org/model", "--served-model-name=tiny", "--tokenizer=tiny", *flags
    ) as server:
        async with aiohttp.ClientSession() as session:
            identity = await identify(
                session, f"{server.url}/metrics", VLLM, role="server", model="tiny"
            )
    assert (
        wrong_model_of(own(model="org/model"), serving(identity.served)) == expected
    )


# A server replaced in the middle of a stage, seen by its start time or by falling counters.

QUIET = context()
UNREAD = ServerEdge(address="a", before=ZERO, after=None)


def seen(*samples: Sample) -> Profiled:
    return context(windows=(Window("server", samples, (), 10.0),))


@pytest.mark.parametrize(
    ("code", "servers"),
    [
        pytest.param(None, (edge(),), id="a steady server"),
        pytest.param(
            Code.SERVER_RESTARTED,
            (edge(after={START_TIME: 5.0}),),
            id="another start time",
        ),
        pytest.param(
            Code.SERVER_RESTARTED,
            (edge(), edge("b", after={START_TIME: 5.0})),
            id="one of two",
        ),
        pytest.param(
            Code.COUNTERS_RESET,
            (
                edge(
                    before={"prompt_tokens_total": 9.0},
                    after={"prompt_tokens_total": 8.0},
                ),
            ),
            id="a fall",
        ),
        pytest.param(
            Code.SERVER_RESTARTED,
            (
                edge(
                    before={"prompt_tokens_total": 9.0},
                    after={"prompt_tokens_total": 8.0, START_TIME: 5.0},
                ),
            ),
            id="both are one finding",
        ),
    ],
)
def test_a_restart_is_found_in_the_edges(
    code: Code | None, servers: tuple[ServerEdge, ...]
) -> None:
    found = findings(server_restarted(QUIET(record(servers=servers))))
    assert [(f.code, f.severity) for f in found] == (
        [(code, "Invalid")] if code else []
    )


@pytest.mark.parametrize(
    ("found", "samples"),
    [
        pytest.param(False, (sample(1.0), sample(2.0)), id="one start time"),
        pytest.param(
            True,
            (sample(1.0), sample(2.0, start_time=1999.0)),
            id="two start times of one pod",
        ),
        pytest.param(
            False,
            (sample(1.0), sample(2.0, start_time=None)),
            id="a reading that does not tell",
        ),
        pytest.param(
            False,
            (sample(1.0), sample(2.0, pod="other", start_time=1999.0)),
            id="two pods",
        ),
    ],
)
def test_samples_replace_a_missing_closing_edge(
    found: bool, samples: tuple[Sample, ...]
) -> None:
    assert (
        bool(server_restarted(seen(*samples)(record(servers=(UNREAD,))))) == found
    )


@pytest.mark.parametrize(
    "servers",
    [pytest.param((), id="no edges"), pytest.param((UNREAD,), id="an unread edge")],
)
def test_a_restart_that_cannot_be_checked_is_reported(
    servers: tuple[ServerEdge, ...],
) -> None:
    assert [
        missed.code
        for missed in unchecked(server_restarted(QUIET(record(servers=servers))))
    ] == [Code.SERVER_RESTARTED]
    assert (
        list(
            server_restarted(
                seen(sample(1.0), sample(2.0))(record(servers=servers))
            )
        )
        == []
    )


@pytest.mark.parametrize(
    ("found", "tokens", "pods"),
    [
        pytest.param(False, (1.0, 2.0, 3.0), "aaa", id="counters rise"),
        pytest.param(
            True,
            (1.0, 3.0, 2.0),
            "aaa",
            id="one falls and rises past where it was by the closing edge",
        ),
        pytest.param(False, (1.0, 3.0, 2.0), "aab", id="two servers"),
        pytest.param(
            True, (1.0, None, 0.5), "aaa", id="a reading without it in between"
        ),
    ],
)
def test_counters_that_fell_between_samples(
    found: bool, tokens: tuple[float | None, ...], pods: str
) -> None:
    samples = [
        sample(n, pod=pod, generation_tokens=t)
        for n, (t, pod) in enumerate(zip(tokens, pods, strict=True))
    ]
    codes = [f.code for f in findings(server_restarted(seen(*samples)(record())))]
    assert codes == ([Code.COUNTERS_RESET] if found else [])


def test_evidence_names_server_and_counter() -> None:
    fallen = edge(
        "10.0.0.9:8000",
        before={"prompt_tokens_total": 9.0},
        after={"prompt_tokens_total": 8.0},
    )
    assert server_restarted(QUIET(record(servers=(edge(), fallen)))) == one_finding(
        Code.COUNTERS_RESET,
        "Invalid",
        1,
        servers=1,
        server="10.0.0.9:8000",
        counter="prompt_tokens_total",
        before=9.0,
        after=8.0,
    )


def test_evidence_of_a_fall_between_samples() -> None:
    read = [
        sample(n, generation_tokens=tokens)
        for n, tokens in enumerate((1.0, 3.0, 2.0))
    ]
    (found,) = findings(server_restarted(seen(*read)(record())))
    assert (
        found.evidence["counter"],
        found.evidence["before"],
        found.evidence["after"],
    ) == (
        "generation_tokens",
        3.0,
        2.0,
    )


@pytest.mark.parametrize(
    ("server", "found"),
    [
        pytest.param(
            "10.0.0.9:8000",
            server_restarted(
                QUIET(
                    record(
                        servers=(edge("10.0.0.9:8000", after={START_TIME: 1342.0}),)
                    )
                )
            ),
            id="at the edges",
        ),
        pytest.param(
            "pod",
            server_restarted(
                seen(
                    sample(1.0, pod="pod"),
                    sample(2.0, pod="pod", start_time=1342.0),
                )(record(servers=(UNREAD,)))
            ),
            id="by readings",
        ),
    ],
)
def test_evidence_of_a_restart_has_both_start_times(
    server: str, found: Found
) -> None:
    (finding,) = findings(found)
    assert finding.evidence == {
        "servers": 1,
        "server": server,
        "startedBefore": 1000.0,
        "startedAfter": 1342.0,
    }


FINISHED = "request_success_total"
PROMPTED = "prompt_tokens_total"


def sent(
    n: int, *servers: ServerEdge, prompt: int = 100, failed: int = 0, **columns: Any
) -> StageRecord:
    """Requests with prompts of 100 tokens; the last few failed."""
    return record(
        requests=requests(
            ttft_us=[1] * n,
            e2el_us=[2] * n,
            output_tokens=[5] * n,
            input_tokens=[prompt] * n,
            ok=[1] * (n - failed) + [0] * failed,
            ended=[1] * (n - failed) + [0] * failed,
            **columns,
        ),
        servers=servers,
    )


def served(
    finished: float, prompted: float = 0.0, address: str = "a"
) -> ServerEdge:
    return edge(address, rises={FINISHED: finished, PROMPTED: prompted})


@pytest.mark.parametrize(
    ("foreign", "stage"),
    [
        pytest.param(False, sent(16, served(16)), id="ours alone"),
        pytest.param(True, sent(16, served(17)), id="one more in 16"),
        pytest.param(False, sent(1000, served(1010)), id="1 % more"),
        pytest.param(True, sent(1000, served(1011)), id="more than 1 % more"),
        pytest.param(
            False,
            sent(16, served(9), served(7, address="b")),
            id="servers are summed",
        ),
        pytest.param(
            True,
            sent(16, served(9), served(8, address="b")),
            id="one more over two servers",
        ),
        pytest.param(
            False,
            sent(16, served(12), failed=4),
            id="failed requests that never finished",
        ),
        pytest.param(
            False,
            sent(16, served(16), failed=4),
            id="failed requests that finished at the server",
        ),
        pytest.param(
            True, sent(16, served(17), failed=4), id="more than all that were sent"
        ),
        pytest.param(False, sent(4, served(0), failed=4), id="all failed"),
        pytest.param(
            False,
            sent(16, served(0)),
            id="fewer: answered by an unread server, another rule's matter",
        ),
    ],
)
def test_requests(foreign: bool, stage: StageRecord) -> None:
    codes = [
        (f.code, f.severity) for f in findings(foreign_traffic(context()(stage)))
    ]
    assert codes == ([(Code.FOREIGN_TRAFFIC, "Invalid")] if foreign else [])


@pytest.mark.parametrize(
    ("foreign", "stage"),
    [
        pytest.param(False, sent(10, served(10, 1000)), id="ours alone"),
        pytest.param(
            False,
            sent(10, served(10, 1010)),
            id="a token that begins each sequence",
        ),
        pytest.param(False, sent(10, served(10, 1020)), id="and 1 % more"),
        pytest.param(True, sent(10, served(10, 1021)), id="more than 1 % more"),
        pytest.param(
            True,
            sent(10, served(10, 9000)),
            id="a long prompt of somebody, unfinished as yet",
        ),
        pytest.param(
            False,
            sent(10, served(9, 900), failed=1),
            id="a failed request that was never read",
        ),
        pytest.param(
            False,
            sent(10, served(9, 1120), failed=1),
            id="whose prompt the server may see as twice as long",
        ),
        pytest.param(True, sent(10, served(9, 1121), failed=1), id="but no more"),
        pytest.param(
            False, sent(10, served(10), prompt=0), id="no prompt tokens are known"
        ),
    ],
)
def test_prompt_tokens(foreign: bool, stage: StageRecord) -> None:
    assert bool(findings(foreign_traffic(context()(stage)))) is foreign


def test_prompt_tokens_of_chats_are_not_compared() -> None:
    chat = context(load=open_loop_load(api="Chat"))
    assert foreign_traffic(chat(sent(10, served(10, 9000)))) == []
    assert findings(foreign_traffic(chat(sent(10, served(11, 9000))))) != []


def test_evidence() -> None:
    assert foreign_traffic(context()(sent(20, served(21, 2520)))) == one_finding(
        Code.FOREIGN_TRAFFIC,
        "Invalid",
        25.0,
        sentRequests=20,
        finishedRequests=21.0,
        moreRequestsPercent=5.0,
        sentPromptTokens=2000,
        uncertainPromptTokens=20,
        promptTokens=2520.0,
        morePromptTokensPercent=25.0,
        invalidPercent=1.0,
    )
