"""Requests that were turned away: by the words of the answer, or by the servers' own count."""

from __future__ import annotations

import pytest
from benchrun.judge.rules.answers import requests_rejected
from benchrun.judge.rules.rule import Code, StageFinding
from benchrun_client.contract import ServerEdge
from unit.judge.stages import context, findings, only
from unit.measure.records import STAGE, edge, record, requests

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
    assert requests_rejected(context()(stage)) == [
        StageFinding(
            Code.REQUESTS_REJECTED,
            "Suspect",
            STAGE,
            {
                "requests": 50,
                "tooManyRequests": 1,
                "serviceUnavailable": 2,
                "rejectedByServers": 2.0,
                "rejectedPercent": 6.0,
            },
            weight=6.0,
        )
    ]


def test_a_count_that_is_not_told_is_none() -> None:
    found = only(requests_rejected(context()(record(errors={"Too Many Requests": 1}, servers=(OLD_SERVER,)))))
    assert found.evidence["rejectedByServers"] is None
