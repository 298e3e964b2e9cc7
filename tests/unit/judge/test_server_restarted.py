"""A server replaced in the middle of a stage, seen by its start time or by falling counters."""

from typing import Any

import pytest
from benchrun.judge.rules.rule import Code, Found
from benchrun.judge.rules.server_identity import foreign_traffic, server_restarted
from benchrun.measure import Window
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import START_TIME, ServerEdge, StageRecord
from unit.judge.stages import Profiled, context, findings, one_finding, open_loop_load, unchecked
from unit.measure.records import ZERO, edge, record, requests, sample

QUIET = context()
UNREAD = ServerEdge(address="a", before=ZERO, after=None)


def seen(*samples: Sample) -> Profiled:
    return context(windows=(Window("server", samples, (), 10.0),))


@pytest.mark.parametrize(
    ("code", "servers"),
    [
        pytest.param(None, (edge(),), id="a steady server"),
        pytest.param(Code.SERVER_RESTARTED, (edge(after={START_TIME: 5.0}),), id="another start time"),
        pytest.param(Code.SERVER_RESTARTED, (edge(), edge("b", after={START_TIME: 5.0})), id="one of two"),
        pytest.param(
            Code.COUNTERS_RESET,
            (edge(before={"prompt_tokens_total": 9.0}, after={"prompt_tokens_total": 8.0}),),
            id="a fall",
        ),
        pytest.param(
            Code.SERVER_RESTARTED,
            (edge(before={"prompt_tokens_total": 9.0}, after={"prompt_tokens_total": 8.0, START_TIME: 5.0}),),
            id="both are one finding",
        ),
    ],
)
def test_a_restart_is_found_in_the_edges(code: Code | None, servers: tuple[ServerEdge, ...]) -> None:
    found = findings(server_restarted(QUIET(record(servers=servers))))
    assert [(f.code, f.severity) for f in found] == ([(code, "Invalid")] if code else [])


@pytest.mark.parametrize(
    ("found", "samples"),
    [
        pytest.param(False, (sample(1.0), sample(2.0)), id="one start time"),
        pytest.param(True, (sample(1.0), sample(2.0, start_time=1999.0)), id="two start times of one pod"),
        pytest.param(False, (sample(1.0), sample(2.0, start_time=None)), id="a reading that does not tell"),
        pytest.param(False, (sample(1.0), sample(2.0, pod="other", start_time=1999.0)), id="two pods"),
    ],
)
def test_samples_replace_a_missing_closing_edge(found: bool, samples: tuple[Sample, ...]) -> None:
    assert bool(server_restarted(seen(*samples)(record(servers=(UNREAD,))))) == found


@pytest.mark.parametrize("servers", [pytest.param((), id="no edges"), pytest.param((UNREAD,), id="an unread edge")])
def test_a_restart_that_cannot_be_checked_is_reported(servers: tuple[ServerEdge, ...]) -> None:
    assert [missed.code for missed in unchecked(server_restarted(QUIET(record(servers=servers))))] == [
        Code.SERVER_RESTARTED
    ]
    assert list(server_restarted(seen(sample(1.0), sample(2.0))(record(servers=servers)))) == []


@pytest.mark.parametrize(
    ("found", "tokens", "pods"),
    [
        pytest.param(False, (1.0, 2.0, 3.0), "aaa", id="counters rise"),
        pytest.param(True, (1.0, 3.0, 2.0), "aaa", id="one falls and rises past where it was by the closing edge"),
        pytest.param(False, (1.0, 3.0, 2.0), "aab", id="two servers"),
        pytest.param(True, (1.0, None, 0.5), "aaa", id="a reading without it in between"),
    ],
)
def test_counters_that_fell_between_samples(found: bool, tokens: tuple[float | None, ...], pods: str) -> None:
    samples = [sample(n, pod=pod, generation_tokens=t) for n, (t, pod) in enumerate(zip(tokens, pods, strict=True))]
    codes = [f.code for f in findings(server_restarted(seen(*samples)(record())))]
    assert codes == ([Code.COUNTERS_RESET] if found else [])


def test_evidence_names_server_and_counter() -> None:
    fallen = edge("10.0.0.9:8000", before={"prompt_tokens_total": 9.0}, after={"prompt_tokens_total": 8.0})
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
    read = [sample(n, generation_tokens=tokens) for n, tokens in enumerate((1.0, 3.0, 2.0))]
    (found,) = findings(server_restarted(seen(*read)(record())))
    assert (found.evidence["counter"], found.evidence["before"], found.evidence["after"]) == (
        "generation_tokens",
        3.0,
        2.0,
    )


@pytest.mark.parametrize(
    ("server", "found"),
    [
        pytest.param(
            "10.0.0.9:8000",
            server_restarted(QUIET(record(servers=(edge("10.0.0.9:8000", after={START_TIME: 1342.0}),)))),
            id="at the edges",
        ),
        pytest.param(
            "pod",
            server_restarted(
                seen(sample(1.0, pod="pod"), sample(2.0, pod="pod", start_time=1342.0))(record(servers=(UNREAD,)))
            ),
            id="by readings",
        ),
    ],
)
def test_evidence_of_a_restart_has_both_start_times(server: str, found: Found) -> None:
    (finding,) = findings(found)
    assert finding.evidence == {"servers": 1, "server": server, "startedBefore": 1000.0, "startedAfter": 1342.0}


FINISHED, PROMPTED = "request_success_total", "prompt_tokens_total"


def sent(n: int, *servers: ServerEdge, prompt: int = 100, failed: int = 0, **columns: Any) -> StageRecord:
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


def served(finished: float, prompted: float = 0.0, address: str = "a") -> ServerEdge:
    return edge(address, rises={FINISHED: finished, PROMPTED: prompted})


@pytest.mark.parametrize(
    ("foreign", "stage"),
    [
        pytest.param(False, sent(16, served(16)), id="ours alone"),
        pytest.param(True, sent(16, served(17)), id="one more in 16"),
        pytest.param(False, sent(1000, served(1010)), id="1 % more"),
        pytest.param(True, sent(1000, served(1011)), id="more than 1 % more"),
        pytest.param(False, sent(16, served(9), served(7, address="b")), id="servers are summed"),
        pytest.param(True, sent(16, served(9), served(8, address="b")), id="one more over two servers"),
        pytest.param(False, sent(16, served(12), failed=4), id="failed requests that never finished"),
        pytest.param(False, sent(16, served(16), failed=4), id="failed requests that finished at the server"),
        pytest.param(True, sent(16, served(17), failed=4), id="more than all that were sent"),
        pytest.param(False, sent(4, served(0), failed=4), id="all failed"),
        pytest.param(False, sent(16, served(0)), id="fewer: answered by an unread server, another rule's matter"),
    ],
)
def test_requests(foreign: bool, stage: StageRecord) -> None:
    codes = [(f.code, f.severity) for f in findings(foreign_traffic(context()(stage)))]
    assert codes == ([(Code.FOREIGN_TRAFFIC, "Invalid")] if foreign else [])


@pytest.mark.parametrize(
    ("foreign", "stage"),
    [
        pytest.param(False, sent(10, served(10, 1000)), id="ours alone"),
        pytest.param(False, sent(10, served(10, 1010)), id="a token that begins each sequence"),
        pytest.param(False, sent(10, served(10, 1020)), id="and 1 % more"),
        pytest.param(True, sent(10, served(10, 1021)), id="more than 1 % more"),
        pytest.param(True, sent(10, served(10, 9000)), id="a long prompt of somebody, unfinished as yet"),
        pytest.param(False, sent(10, served(9, 900), failed=1), id="a failed request that was never read"),
        pytest.param(False, sent(10, served(9, 1120), failed=1), id="whose prompt the server may see as twice as long"),
        pytest.param(True, sent(10, served(9, 1121), failed=1), id="but no more"),
        pytest.param(False, sent(10, served(10), prompt=0), id="no prompt tokens are known"),
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
