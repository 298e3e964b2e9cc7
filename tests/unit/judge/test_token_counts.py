"""The client's tokens against the servers', and against the chunks they came in."""

from __future__ import annotations

import pytest
from benchrun.judge.rules.answers import chunks_are_not_tokens, token_counts_disagree
from benchrun.judge.rules.rule import Code, StageFinding
from benchrun_client.contract import START_TIME, GapCounts, ServerEdge, StageRecord
from unit.judge.stages import context, findings, unchecked
from unit.measure.records import STAGE, ZERO, edge, record, requests

GENERATED = "generation_tokens_total"


def generated(tokens: float, address: str = "a") -> ServerEdge:
    return edge(address, rises={GENERATED: tokens})


def thousand(*servers: ServerEdge, failed: int = 0) -> StageRecord:
    """A thousand tokens in ten answers; failed requests asked for 100 tokens each."""
    n = 10 + failed
    columns = requests(
        ttft_us=[1] * n,
        e2el_us=[2] * n,
        output_tokens=[100] * 10 + [7] * failed,
        asked_tokens=[100] * n,
        ok=[1] * 10 + [0] * failed,
    )
    return record(requests=columns, servers=servers)


@pytest.mark.parametrize(
    ("found", "servers", "failed"),
    [
        pytest.param(False, (generated(1000),), 0, id="equal"),
        pytest.param(False, (generated(1010),), 0, id="1 % more at the server"),
        pytest.param(True, (generated(1011),), 0, id="more than 1 % more"),
        pytest.param(False, (generated(990),), 0, id="1 % less"),
        pytest.param(True, (generated(989),), 0, id="more than 1 % less"),
        pytest.param(False, (generated(400), generated(600, "b")), 0, id="servers are summed"),
        pytest.param(True, (generated(0),), 0, id="the answers came from somewhere else"),
        pytest.param(False, (generated(1000),), 2, id="failed requests that never ran"),
        pytest.param(False, (generated(1200),), 2, id="failed requests that were computed to their end"),
        pytest.param(False, (generated(1210),), 2, id="and 1 % more"),
        pytest.param(True, (generated(1211),), 2, id="more than failed requests explain"),
        pytest.param(True, (generated(989),), 2, id="failed requests take nothing away"),
    ],
)
def test_tokens(found: bool, servers: tuple[ServerEdge, ...], failed: int) -> None:
    codes = [
        (f.code, f.severity) for f in findings(token_counts_disagree(context()(thousand(*servers, failed=failed))))
    ]
    assert codes == ([(Code.TOKEN_COUNTS_DISAGREE, "Suspect")] if found else [])


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((), id="no server's page could be read"),
        pytest.param((ServerEdge(address="a", before=ZERO, after=None),), id="the closing edge is missing"),
        pytest.param((ServerEdge(address="a", before={}, after={}),), id="a page without this counter"),
        pytest.param((edge(after={START_TIME: 5.0}),), id="the server restarted"),
    ],
)
def test_unread_counts_are_told(servers: tuple[ServerEdge, ...]) -> None:
    (missed,) = unchecked(token_counts_disagree(context()(thousand(*servers))))
    assert missed.code is Code.TOKEN_COUNTS_DISAGREE


def test_no_token_is_no_disagreement() -> None:
    silent = record(requests=requests(output_tokens=(0, 0)), servers=(generated(500),))
    assert token_counts_disagree(context()(silent)) == []
    assert chunks_are_not_tokens(context()(silent)) == []


def test_evidence_of_a_disagreement() -> None:
    assert token_counts_disagree(context()(thousand(generated(1150), failed=1))) == [
        StageFinding(
            Code.TOKEN_COUNTS_DISAGREE,
            "Suspect",
            STAGE,
            {
                "clientTokens": 1000,
                "serverTokens": 1150.0,
                "failedRequestsTokens": 100,
                "differencePercent": 5.0,
                "suspectPercent": 1.0,
            },
            weight=5.0,
        )
    ]


def chunked(gaps: int) -> StageRecord:
    """A thousand tokens in ten answers, whose chunks leave so many gaps."""
    return thousand(generated(1000)).model_copy(update={"gaps": GapCounts(us=(5, 9), count=(gaps - 1, 1))})


@pytest.mark.parametrize(
    ("found", "gaps"),
    [
        pytest.param(False, 990, id="a token a chunk"),
        pytest.param(False, 1000, id="chat: an empty chunk more for each answer"),
        pytest.param(False, 890, id="0.9"),
        pytest.param(True, 889, id="just below 0.9"),
        pytest.param(True, 490, id="two tokens a chunk"),
    ],
)
def test_chunks(found: bool, gaps: int) -> None:
    codes = [(f.code, f.severity) for f in findings(chunks_are_not_tokens(context()(chunked(gaps))))]
    assert codes == ([(Code.CHUNKS_ARE_NOT_TOKENS, "Note")] if found else [])


def test_evidence_of_chunks() -> None:
    assert chunks_are_not_tokens(context()(chunked(490))) == [
        StageFinding(
            Code.CHUNKS_ARE_NOT_TOKENS,
            "Note",
            STAGE,
            {"chunks": 500, "outputTokens": 1000, "chunksPerToken": 0.5, "noteBelow": 0.9},
            weight=0.5,
        )
    ]
