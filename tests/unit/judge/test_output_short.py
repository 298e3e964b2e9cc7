"""Answers shorter than asked for, and streams without an end."""

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.failures_and_tokens import (
    chunks_are_not_tokens,
    output_too_short,
    stream_truncated,
    token_counts_disagree,
)
from benchrun.judge.rules.rule import Code, NotChecked
from benchrun_client.contract import GapCounts, ServerEdge, StageRecord
from unit.judge.stages import context, findings, one_finding, only, open_loop_load, unchecked
from unit.measure.records import edge, record, requests


def answers(
    output: list[int],
    *,
    expected: int = 100,
    unended: int = 0,
    ok: list[int] | None = None,
    ended: list[int] | None = None,
) -> StageRecord:
    """Answers of `output` tokens each, all of which were to have `of`; the last `unended` without the server's count."""
    n = len(output)
    return record(
        requests=requests(
            ttft_us=[1] * n,
            e2el_us=[2] * n,
            output_tokens=output,
            asked_tokens=[expected] * n,
            ended=ended or [1] * (n - unended) + [0] * unended,
            ok=ok,
        )
    )


@pytest.mark.parametrize(
    ("severity", "output"),
    [
        pytest.param(None, [100, 100], id="all of it"),
        pytest.param(None, [101, 100], id="a token more, as some servers count"),
        pytest.param(None, [95, 95], id="95 % is enough"),
        pytest.param(None, [100, 90], id="the mean counts"),
        pytest.param("Suspect", [95, 94], id="just below 95 %"),
        pytest.param("Suspect", [80, 80], id="80 % is still suspect"),
        pytest.param("Invalid", [80, 79], id="just below 80 %"),
        pytest.param("Invalid", [0, 0], id="nothing"),
    ],
)
@pytest.mark.parametrize("ignore_eos", [True, False])
def test_mean_output(severity: Severity | None, output: list[int], ignore_eos: bool) -> None:
    found = output_too_short(context(load=open_loop_load(ignore_eos=ignore_eos))(answers(output)))
    assert [(f.code, f.severity) for f in findings(found)] == ([(Code.OUTPUT_TOO_SHORT, severity)] if severity else [])


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(answers([100, 1], ok=[1, 0]), id="failed requests have no output to be short of"),
        pytest.param(answers([1, 1], ok=[0, 0]), id="nothing was answered: another rule's matter"),
        pytest.param(answers([0, 0], expected=0), id="nothing was asked for"),
    ],
)
def test_answers_of_full_length_have_no_finding(stage: StageRecord) -> None:
    assert output_too_short(context()(stage)) == []


@pytest.mark.parametrize(("word", "ignore_eos"), [("true", True), ("false", False)])
def test_evidence_of_short_answers(word: str, ignore_eos: bool) -> None:
    """Ten answers cut at 94 tokens where 128 were to be had."""
    found = output_too_short(context(load=open_loop_load(ignore_eos=ignore_eos))(answers([94] * 10, expected=128)))
    assert found == one_finding(
        Code.OUTPUT_TOO_SHORT,
        "Invalid",
        100 - 100 * 94 / 128,
        askedTokens=128.0,
        meanOutputTokens=94.0,
        percent=73.438,
        ignoreEOS=word,
        suspectPercent=95.0,
        invalidPercent=80.0,
    )


def test_tokens_that_are_guessed_from_the_text_only_count_when_they_are_far_too_few() -> None:
    assert unchecked(output_too_short(context()(answers([90, 90], unended=2)))) == [
        NotChecked(Code.OUTPUT_TOO_SHORT, "the server does not end its streams with token counts")
    ]
    assert only(output_too_short(context()(answers([79, 79], unended=2)))).severity == "Invalid"
    assert only(output_too_short(context()(answers([90, 90], unended=1)))).severity == "Suspect"


@pytest.mark.parametrize(
    ("truncated", "unended", "expected"),
    [
        pytest.param(False, 0, 200, id="none"),
        pytest.param(False, 1, 200, id="half a percent"),
        pytest.param(True, 2, 200, id="1 %"),
        pytest.param(True, 1, 199, id="just above half a percent"),
        pytest.param(True, 1, 2, id="half of them"),
    ],
)
def test_streams_without_an_end(truncated: bool, unended: int, expected: int) -> None:
    found = findings(stream_truncated(context()(answers([100] * expected, unended=unended))))
    assert [(f.code, f.severity) for f in found] == ([(Code.STREAM_TRUNCATED, "Invalid")] if truncated else [])


@pytest.mark.parametrize(
    ("expected", "ignore_eos", "tokens"),
    [
        pytest.param("unchecked", True, 100, id="whole answers: the server sends no counts"),
        pytest.param("unchecked", True, 80, id="guessed tokens may be fewer"),
        pytest.param("found", True, 79, id="far too short, though no end was allowed"),
        pytest.param("unchecked", False, 10, id="the model may have ended them"),
    ],
)
def test_not_one_stream_has_an_end(expected: str, ignore_eos: bool, tokens: int) -> None:
    found = stream_truncated(context(load=open_loop_load(ignore_eos=ignore_eos))(answers([tokens] * 4, unended=4)))
    assert len(findings(found)) == (expected == "found")
    assert [missed.code for missed in unchecked(found)] == [Code.STREAM_TRUNCATED] * (expected == "unchecked")


def test_a_failed_request_is_no_truncated_one() -> None:
    assert stream_truncated(context()(answers([100, 3], ended=[1, 0], ok=[1, 0]))) == []
    assert stream_truncated(context()(answers([3], unended=1, ok=[0]))) == []


def test_evidence_of_truncated_streams() -> None:
    assert stream_truncated(context()(answers([100, 100, 100, 20], unended=1))) == one_finding(
        Code.STREAM_TRUNCATED,
        "Invalid",
        25.0,
        answered=4,
        truncated=1,
        truncatedPercent=25.0,
        invalidPercent=0.5,
        askedTokens=100.0,
        meanOutputTokens=80.0,
        percent=80.0,
        ignoreEOS="true",
    )


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


def test_no_token_is_no_disagreement() -> None:
    silent = record(requests=requests(output_tokens=(0, 0)), servers=(generated(500),))
    assert token_counts_disagree(context()(silent)) == []
    assert chunks_are_not_tokens(context()(silent)) == []


def test_evidence_of_a_disagreement() -> None:
    assert token_counts_disagree(context()(thousand(generated(1150), failed=1))) == one_finding(
        Code.TOKEN_COUNTS_DISAGREE,
        "Suspect",
        5.0,
        clientTokens=1000,
        serverTokens=1150.0,
        failedRequestsTokens=100,
        differencePercent=5.0,
        suspectPercent=1.0,
    )


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
    assert chunks_are_not_tokens(context()(chunked(490))) == one_finding(
        Code.CHUNKS_ARE_NOT_TOKENS, "Note", 0.5, chunks=500, outputTokens=1000, chunksPerToken=0.5, noteBelow=0.9
    )
