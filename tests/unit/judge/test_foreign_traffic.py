"""Work of the servers that the client did not ask for."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.judge.rules.rule import Code, StageFinding
from benchrun.judge.rules.server_identity import foreign_traffic
from benchrun_client.contract import START_TIME, ServerEdge, StageRecord
from unit.judge.stages import asked, context, findings, unchecked
from unit.measure.records import STAGE, ZERO, edge, record, requests

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
    chat = context(of=asked(api="Chat"))
    assert foreign_traffic(chat(sent(10, served(10, 9000)))) == []
    assert findings(foreign_traffic(chat(sent(10, served(11, 9000))))) != []


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((), id="no server's page could be read"),
        pytest.param((ServerEdge(address="a", before=ZERO, after=None),), id="the closing edge is missing"),
        pytest.param((ServerEdge(address="a", before={}, after={}),), id="a page without these counters"),
        pytest.param((ServerEdge(address="a", before={FINISHED: 0}, after={FINISHED: 9}),), id="requests alone"),
        pytest.param((edge(after={START_TIME: 5.0}),), id="the server restarted"),
    ],
)
def test_what_cannot_be_checked_is_said(servers: tuple[ServerEdge, ...]) -> None:
    (missed,) = unchecked(foreign_traffic(context()(sent(10, *servers))))
    assert missed.code is Code.FOREIGN_TRAFFIC


def test_evidence() -> None:
    assert foreign_traffic(context()(sent(20, served(21, 2520)))) == [
        StageFinding(
            Code.FOREIGN_TRAFFIC,
            "Invalid",
            STAGE,
            {
                "sentRequests": 20,
                "finishedRequests": 21.0,
                "moreRequestsPercent": 5.0,
                "sentPromptTokens": 2000,
                "uncertainPromptTokens": 20,
                "promptTokens": 2520.0,
                "morePromptTokensPercent": 25.0,
                "invalidPercent": 1.0,
            },
            weight=25.0,
        )
    ]
