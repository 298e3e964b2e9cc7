"""Answers shorter than asked for, and streams without an end."""

from typing import Any

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.failures_and_tokens import (
    chunks_are_not_tokens,
    no_output,
    output_too_short,
    requests_failed,
    requests_rejected,
    stream_truncated,
    token_counts_disagree,
)
from benchrun.judge.rules.rule import Code, StageRule
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import GapCounts, ServerEdge, StageRecord, Streams
from unit.judge.stages import (
    context,
    findings,
    one_finding,
    only,
    open_loop_load,
    unchecked,
)
from unit.measure.records import STAGE, edge, record, requests


def answers(
    output: list[int],
    *,
    expected: int = 100,
    unended: int = 0,
    ok: list[int] | None = None,
    ended: list[int] | None = None,
) -> StageRecord:
    """Answers of `output` tokens each, all of which were to have `of`; the last `unended` without
    the server's count."""
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
def test_mean_output(
    severity: Severity | None, output: list[int], ignore_eos: bool
) -> None:
    found = output_too_short(
        context(load=open_loop_load(ignore_eos=ignore_eos))(answers(output))
    )
    assert [(f.code, f.severity) for f in findings(found)] == (
        [(Code.OUTPUT_TOO_SHORT, severity)] if severity else []
    )


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(
            answers([100, 1], ok=[1, 0]),
            id="failed requests have no output to be short of",
        ),
        pytest.param(
            answers([1, 1], ok=[0, 0]),
            id="nothing was answered: another rule's matter",
        ),
        pytest.param(answers([0, 0], expected=0), id="nothing was asked for"),
    ],
)
def test_answers_of_full_length_have_no_finding(stage: StageRecord) -> None:
    assert output_too_short(context()(stage)) == []


@pytest.mark.parametrize(("word", "ignore_eos"), [("true", True), ("false", False)])
def test_evidence_of_short_answers(word: str, ignore_eos: bool) -> None:
    """Ten answers cut at 94 tokens where 128 were to be had."""
    found = output_too_short(
        context(load=open_loop_load(ignore_eos=ignore_eos))(
            answers([94] * 10, expected=128)
        )
    )
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


NO_COUNTS = "the server does not end its streams with token counts"


def closed(stage: StageRecord, *, uncounted: int) -> StageRecord:
    """The same where the server closed all streams, of which so many lacked its count."""
    streams = Streams(closed=(1,) * len(stage.requests.ok), uncounted=uncounted)
    return stage.model_copy(update={"streams": streams})


@pytest.mark.parametrize(
    "check", [output_too_short, token_counts_disagree, no_output]
)
def test_without_the_servers_counts_nothing_is_said_of_tokens(
    check: StageRule,
) -> None:
    stage = closed(answers([0, 0], unended=2), uncounted=2)
    assert [missed.why for missed in unchecked(check(context()(stage)))] == [
        NO_COUNTS
    ]


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
def test_streams_without_an_end(
    truncated: bool, unended: int, expected: int
) -> None:
    found = findings(
        stream_truncated(context()(answers([100] * expected, unended=unended)))
    )
    assert [(f.code, f.severity) for f in found] == (
        [(Code.STREAM_TRUNCATED, "Invalid")] if truncated else []
    )


def test_not_one_stream_has_an_end() -> None:
    broken = answers([100] * 4, unended=4)
    noted = broken.model_copy(update={"streams": Streams(closed=(0,) * 4)})
    assert only(stream_truncated(context()(noted))).evidence["truncated"] == 4
    assert stream_truncated(context()(closed(broken, uncounted=4))) == []
    # An older client did not note it.
    assert [
        missed.code for missed in unchecked(stream_truncated(context()(broken)))
    ] == [Code.STREAM_TRUNCATED]


def test_a_failed_request_is_no_truncated_one() -> None:
    assert (
        stream_truncated(context()(answers([100, 3], ended=[1, 0], ok=[1, 0])))
        == []
    )
    assert stream_truncated(context()(answers([3], unended=1, ok=[0]))) == []


def test_evidence_of_truncated_streams() -> None:
    assert stream_truncated(
        context()(answers([100, 100, 100, 20], unended=1))
    ) == one_finding(
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
        pytest.param(
            False, (generated(400), generated(600, "b")), 0, id="servers are summed"
        ),
        pytest.param(
            True, (generated(0),), 0, id="the answers came from somewhere else"
        ),
        pytest.param(
            False, (generated(1000),), 2, id="failed requests that never ran"
        ),
        pytest.param(
            False,
            (generated(1200),),
            2,
            id="failed requests that were computed to their end",
        ),
        pytest.param(False, (generated(1210),), 2, id="and 1 % more"),
        pytest.param(
            True, (generated(1211),), 2, id="more than failed requests explain"
        ),
        pytest.param(
            True, (generated(989),), 2, id="failed requests take nothing away"
        ),
    ],
)
def test_tokens(found: bool, servers: tuple[ServerEdge, ...], failed: int) -> None:
    codes = [
        (f.code, f.severity)
        for f in findings(
            token_counts_disagree(context()(thousand(*servers, failed=failed)))
        )
    ]
    assert codes == ([(Code.TOKEN_COUNTS_DISAGREE, "Suspect")] if found else [])


def test_no_token_is_no_disagreement() -> None:
    silent = record(
        requests=requests(output_tokens=(0, 0)), servers=(generated(500),)
    )
    assert token_counts_disagree(context()(silent)) == []
    assert chunks_are_not_tokens(context()(silent)) == []


def test_evidence_of_a_disagreement() -> None:
    assert token_counts_disagree(
        context()(thousand(generated(1150), failed=1))
    ) == one_finding(
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
    return thousand(generated(1000)).model_copy(
        update={"gaps": GapCounts(us=(5, 9), count=(gaps - 1, 1))}
    )


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
    codes = [
        (f.code, f.severity)
        for f in findings(chunks_are_not_tokens(context()(chunked(gaps))))
    ]
    assert codes == ([(Code.CHUNKS_ARE_NOT_TOKENS, "Note")] if found else [])


def test_evidence_of_chunks() -> None:
    assert chunks_are_not_tokens(context()(chunked(490))) == one_finding(
        Code.CHUNKS_ARE_NOT_TOKENS,
        "Note",
        0.5,
        chunks=500,
        outputTokens=1000,
        chunksPerToken=0.5,
        noteBelow=0.9,
    )


# Failed requests: none, few, too many, all; and answers without a token.


def stage(failed: int, total: int, **changes: Any) -> StageRecord:
    ok = [0] * failed + [1] * (total - failed)
    return record(
        requests=requests(
            ttft_us=[1] * total,
            e2el_us=[2] * total,
            output_tokens=[5] * total,
            ok=ok,
        ),
        **changes,
    )


@pytest.mark.parametrize(
    ("code", "failed", "requests_sent", "limit"),
    [
        pytest.param(None, 0, 100, 1.0, id="none failed"),
        pytest.param(None, 1, 100, 1.0, id="exactly as many as allowed"),
        pytest.param(Code.REQUESTS_FAILED, 2, 100, 1.0, id="one more"),
        pytest.param(
            Code.REQUESTS_FAILED, 1, 100, 0.0, id="one where none is allowed"
        ),
        pytest.param(None, 50, 100, 50.0, id="half where half is allowed"),
        pytest.param(Code.REQUESTS_FAILED, 99, 100, 1.0, id="all but one"),
        pytest.param(Code.ALL_REQUESTS_FAILED, 100, 100, 1.0, id="all"),
        pytest.param(
            Code.ALL_REQUESTS_FAILED,
            100,
            100,
            100.0,
            id="all, even where all may fail",
        ),
        pytest.param(Code.ALL_REQUESTS_FAILED, 1, 1, 1.0, id="the only one"),
    ],
)
def test_failed_requests(
    code: Code | None, failed: int, requests_sent: int, limit: float
) -> None:
    lines = Thresholds(max_failed_percent=limit)
    found = findings(requests_failed(context(lines)(stage(failed, requests_sent))))
    assert [(f.code, f.severity, f.stage_id) for f in found] == (
        [(code, "Invalid", STAGE)] if code else []
    )


def test_evidence_of_too_many_failures() -> None:
    failing = stage(2, 3, errors={"Bad Gateway": 1, "timeout": 5})
    assert requests_failed(context()(failing)) == one_finding(
        Code.REQUESTS_FAILED,
        "Invalid",
        200 / 3,
        requests=3,
        failed=2,
        failedPercent=66.667,
        maxFailedPercent=1.0,
        error="timeout",
    )


@pytest.mark.parametrize(
    ("expected", "errors", "diagnostic"),
    [
        pytest.param(
            "the model `x` does not exist",
            {"Not Found": 9},
            "the model `x` does not exist",
            id="the server's own words",
        ),
        pytest.param(
            "Not Found",
            {"Bad Request": 1, "Not Found": 9},
            None,
            id="else the most frequent error",
        ),
        pytest.param("e" * 300, {}, "e" * 1000, id="bounded"),
        pytest.param(None, {}, None, id="nothing known"),
    ],
)
def test_evidence_names_the_error(
    expected: str | None, errors: dict[str, int], diagnostic: str | None
) -> None:
    found = only(
        requests_failed(
            context()(stage(2, 2, errors=errors, diagnostic=diagnostic))
        )
    )
    assert found.evidence.get("error") == expected


@pytest.mark.parametrize(
    ("found", "tokens", "ok"),
    [
        pytest.param(True, (0, 0), (1, 1), id="answers without a token"),
        pytest.param(False, (0, 7), (1, 1), id="one token is enough"),
        pytest.param(
            True, (0, 7), (1, 0), id="tokens of a failed request do not count"
        ),
        pytest.param(False, (0, 0), (0, 0), id="no answers: another rule's matter"),
    ],
)
def test_no_output(
    found: bool, tokens: tuple[int, int], ok: tuple[int, int]
) -> None:
    answered = record(requests=requests(output_tokens=tokens, ok=ok))
    codes = [(f.code, f.severity) for f in findings(no_output(context()(answered)))]
    assert codes == ([(Code.NO_OUTPUT, "Invalid")] if found else [])


REJECTIONS = "admission_rejections_total"
OLD_SERVER = ServerEdge(address="a", before={}, after={})


@pytest.mark.parametrize(
    ("found", "errors", "servers"),
    [
        pytest.param(False, {}, (edge(),), id="none"),
        pytest.param(
            False,
            {"Bad Request": 5, "Not Found": 2},
            (edge(),),
            id="other failures",
        ),
        pytest.param(
            False,
            {"TimeoutError: service unavailable for 5 s": 2},
            (edge(),),
            id="words of another error",
        ),
        pytest.param(True, {"Too Many Requests": 1}, (edge(),), id="429"),
        pytest.param(True, {"Service Unavailable": 1}, (edge(),), id="503"),
        pytest.param(
            True,
            {"Service Temporarily Unavailable": 1},
            (edge(),),
            id="503 of a proxy",
        ),
        pytest.param(True, {"SERVICE UNAVAILABLE": 1}, (edge(),), id="in capitals"),
        pytest.param(
            True,
            {},
            (edge(rises={REJECTIONS: 1.0}),),
            id="counted by the server alone",
        ),
        pytest.param(
            True, {"Too Many Requests": 1}, (), id="no server's page could be read"
        ),
        pytest.param(False, {}, (OLD_SERVER,), id="a server without such a limit"),
    ],
)
def test_rejections(
    found: bool, errors: dict[str, int], servers: tuple[ServerEdge, ...]
) -> None:
    codes = [
        (f.code, f.severity)
        for f in findings(
            requests_rejected(context()(record(errors=errors, servers=servers)))
        )
    ]
    assert codes == ([(Code.REQUESTS_REJECTED, "Suspect")] if found else [])


def test_evidence() -> None:
    columns = requests(ttft_us=[1] * 50, e2el_us=[2] * 50, output_tokens=[3] * 50)
    stage = record(
        requests=columns,
        errors={"Too Many Requests": 1, "Service Unavailable": 2, "Bad Gateway": 9},
        servers=(edge(rises={REJECTIONS: 2.0}),),
    )
    assert requests_rejected(context()(stage)) == one_finding(
        Code.REQUESTS_REJECTED,
        "Suspect",
        6.0,
        requests=50,
        tooManyRequests=1,
        serviceUnavailable=2,
        rejectedByServers=2.0,
        rejectedPercent=6.0,
    )


def test_a_count_that_is_not_told_is_none() -> None:
    found = only(
        requests_rejected(
            context()(
                record(errors={"Too Many Requests": 1}, servers=(OLD_SERVER,))
            )
        )
    )
    assert found.evidence["rejectedByServers"] is None
