"""Why TTFT is longer at the client than at the server: each cause at many doses, beside the others."""

from typing import Any

import pytest
from benchrun.judge.rules.all_rules import evidence_sentence, judge_stage
from benchrun.judge.rules.client import client_saturated
from benchrun.judge.rules.rule import Code
from benchrun_client.contract import PROCESS_CPU, RoundTrips, StageRecord
from unit.judge.stages import context, only
from unit.measure.records import NEAR, client, edge, record, requests, served

BUSY: dict[str, Any] = {"cpu_seconds": 9.5, "lag_p99_us": 60_000}
CULPRITS = {
    Code.CLIENT_SATURATED,
    Code.PATH_SLOW,
    Code.FRONTEND_SATURATED,
    Code.CLIENT_SERVER_GAP,
}


def away(ms: float) -> RoundTrips:
    us = round(1000 * ms)
    return RoundTrips(count=20, median_us=us, p95_us=us)


def stage(
    *,
    gap_ms: float = 0.0,
    cores: float = 0.1,
    round_trips: RoundTrips = NEAR,
    **of_client: Any,
) -> StageRecord:
    """Ten seconds with a hundred requests, whose TTFT is 100 ms at the server. Its API server used
    so many cores."""
    columns = requests(
        ttft_us=[round(1000 * (100 + gap_ms))] * 100,
        e2el_us=[9_000_000] * 100,
        output_tokens=[99] * 100,
    )
    rises = {
        **served(columns),
        "time_to_first_token_seconds_sum": 10.0,
        PROCESS_CPU: 10 * cores,
    }
    return record(
        requests=columns,
        servers=(edge(rises=rises),),
        client=client(**of_client),
        round_trips=round_trips,
    )


def codes(measured: StageRecord) -> set[Code]:
    """What is called the cause, by all rules."""
    return {found.code for found in judge_stage(context()(measured))} & CULPRITS


def doses(cause: str) -> list[tuple[Code | None, StageRecord]]:
    if cause == "path":
        # A distant request opens a connection, sends, and a long prompt waits once more.
        trips = [0.5, 2, 4, 5, 5.1, 8, 20, 60, 200]
        return [
            (
                Code.PATH_SLOW if ms > 5 else None,
                stage(gap_ms=2 * ms, round_trips=away(ms)),
            )
            for ms in trips
        ]
    gaps = [0, 2, 5.8, 6.0, 12, 40, 300, 3000]
    if cause == "client":
        return [(Code.CLIENT_SATURATED, stage(gap_ms=gap, **BUSY)) for gap in gaps]
    cores = 0.95 if cause == "front end" else 0.5
    code = (
        Code.FRONTEND_SATURATED if cause == "front end" else Code.CLIENT_SERVER_GAP
    )
    # Three round trips of 0.3 ms are the path's.
    return [
        (code if gap > 5.9 else None, stage(gap_ms=gap, cores=cores))
        for gap in gaps
    ]


@pytest.mark.parametrize(
    ("severity", "lags"),
    [
        pytest.param(None, (32_000, 500), id="one stall of a short stage"),
        pytest.param("Invalid", (32_000, 31_000), id="late three times"),
        pytest.param("Invalid", (32_000, None), id="record of an older client"),
    ],
)
def test_a_late_event_loop_is_late_more_than_twice(
    severity: str | None, lags: tuple[int, int | None]
) -> None:
    p99_us, thrice_us = lags
    measured = stage(lag_p99_us=p99_us, lag_thrice_us=thrice_us)
    found = client_saturated(context()(measured))
    if severity is None:
        assert found == []
    else:
        assert only(found).severity == severity


@pytest.mark.parametrize(
    ("gap_ms", "culprit"),
    [(30, Code.CLIENT_SATURATED), (40, Code.CLIENT_SERVER_GAP)],
)
def test_one_stall_explains_a_gap_no_longer_than_itself(
    gap_ms: float, culprit: Code
) -> None:
    """All first tokens of a short stage can wait for the same stall, but only once."""
    measured = stage(gap_ms=gap_ms, lag_p99_us=32_000, lag_thrice_us=500)
    assert codes(measured) == {culprit}


@pytest.mark.parametrize("cause", ["path", "client", "front end", "unknown"])
def test_each_cause_is_named_at_every_dose_and_no_other(cause: str) -> None:
    for code, measured in doses(cause):
        assert codes(measured) == ({code} if code else set())


@pytest.mark.parametrize(
    ("reported", "stolen"),
    [(False, None), (False, 0.0), (False, 0.49), (True, 0.5), (True, 1.7)],
)
def test_stolen_cpu_is_reported_where_it_matters(
    reported: bool, stolen: float | None
) -> None:
    finding = only(
        client_saturated(context()(stage(lag_p99_us=9_000, stolen_seconds=stolen)))
    )
    assert (
        "hypervisor" in evidence_sentence(finding.code, finding.evidence)
    ) == reported
    assert finding.evidence["stolenPercent"] == (
        None if stolen is None else pytest.approx(10 * stolen)
    )
