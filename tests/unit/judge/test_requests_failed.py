"""Failed requests: none, few, too many, all; and answers without a token."""

from typing import Any

import pytest
from benchrun.judge.rules.failures_and_tokens import no_output, requests_failed, requests_rejected
from benchrun.judge.rules.rule import Code
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import ServerEdge, StageRecord
from unit.judge.stages import context, findings, one_finding, only
from unit.measure.records import STAGE, edge, record, requests


def stage(failed: int, total: int, **changes: Any) -> StageRecord:
    ok = [0] * failed + [1] * (total - failed)
    return record(
        requests=requests(ttft_us=[1] * total, e2el_us=[2] * total, output_tokens=[5] * total, ok=ok), **changes
    )


@pytest.mark.parametrize(
    ("code", "failed", "requests_sent", "limit"),
    [
        pytest.param(None, 0, 100, 1.0, id="none failed"),
        pytest.param(None, 1, 100, 1.0, id="exactly as many as allowed"),
        pytest.param(Code.REQUESTS_FAILED, 2, 100, 1.0, id="one more"),
        pytest.param(Code.REQUESTS_FAILED, 1, 100, 0.0, id="one where none is allowed"),
        pytest.param(None, 50, 100, 50.0, id="half where half is allowed"),
        pytest.param(Code.REQUESTS_FAILED, 99, 100, 1.0, id="all but one"),
        pytest.param(Code.ALL_REQUESTS_FAILED, 100, 100, 1.0, id="all"),
        pytest.param(Code.ALL_REQUESTS_FAILED, 100, 100, 100.0, id="all, even where all may fail"),
        pytest.param(Code.ALL_REQUESTS_FAILED, 1, 1, 1.0, id="the only one"),
    ],
)
def test_failed_requests(code: Code | None, failed: int, requests_sent: int, limit: float) -> None:
    lines = Thresholds(max_failed_percent=limit)
    found = findings(requests_failed(context(lines)(stage(failed, requests_sent))))
    assert [(f.code, f.severity, f.stage_id) for f in found] == ([(code, "Invalid", STAGE)] if code else [])


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
        pytest.param("Not Found", {"Bad Request": 1, "Not Found": 9}, None, id="else the most frequent error"),
        pytest.param("e" * 300, {}, "e" * 1000, id="bounded"),
        pytest.param(None, {}, None, id="nothing known"),
    ],
)
def test_evidence_names_the_error(expected: str | None, errors: dict[str, int], diagnostic: str | None) -> None:
    found = only(requests_failed(context()(stage(2, 2, errors=errors, diagnostic=diagnostic))))
    assert found.evidence.get("error") == expected


@pytest.mark.parametrize(
    ("found", "tokens", "ok"),
    [
        pytest.param(True, (0, 0), (1, 1), id="answers without a token"),
        pytest.param(False, (0, 7), (1, 1), id="one token is enough"),
        pytest.param(True, (0, 7), (1, 0), id="tokens of a failed request do not count"),
        pytest.param(False, (0, 0), (0, 0), id="no answers: another rule's matter"),
    ],
)
def test_no_output(found: bool, tokens: tuple[int, int], ok: tuple[int, int]) -> None:
    answered = record(requests=requests(output_tokens=tokens, ok=ok))
    codes = [(f.code, f.severity) for f in findings(no_output(context()(answered)))]
    assert codes == ([(Code.NO_OUTPUT, "Invalid")] if found else [])


REJECTIONS = "admission_rejections_total"
OLD_SERVER = ServerEdge(address="a", before={}, after={})


@pytest.mark.parametrize(
    ("found", "errors", "servers"),
    [
        pytest.param(False, {}, (edge(),), id="none"),
        pytest.param(False, {"Bad Request": 5, "Not Found": 2}, (edge(),), id="other failures"),
        pytest.param(False, {"TimeoutError: service unavailable for 5 s": 2}, (edge(),), id="words of another error"),
        pytest.param(True, {"Too Many Requests": 1}, (edge(),), id="429"),
        pytest.param(True, {"Service Unavailable": 1}, (edge(),), id="503"),
        pytest.param(True, {"Service Temporarily Unavailable": 1}, (edge(),), id="503 of a proxy"),
        pytest.param(True, {"SERVICE UNAVAILABLE": 1}, (edge(),), id="in capitals"),
        pytest.param(True, {}, (edge(rises={REJECTIONS: 1.0}),), id="counted by the server alone"),
        pytest.param(True, {"Too Many Requests": 1}, (), id="no server's page could be read"),
        pytest.param(False, {}, (OLD_SERVER,), id="a server without such a limit"),
    ],
)
def test_rejections(found: bool, errors: dict[str, int], servers: tuple[ServerEdge, ...]) -> None:
    codes = [
        (f.code, f.severity) for f in findings(requests_rejected(context()(record(errors=errors, servers=servers))))
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
    found = only(requests_rejected(context()(record(errors={"Too Many Requests": 1}, servers=(OLD_SERVER,)))))
    assert found.evidence["rejectedByServers"] is None
