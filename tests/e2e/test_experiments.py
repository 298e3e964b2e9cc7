"""Real vLLM: an experiment of docs/experiments, applied as it is, with what its report says. The longer ones are in tests/long."""

from __future__ import annotations

import pytest
from kit.examples import LATENCIES, PERCENTILES, benchrun, example, finding, measured, on_a_busy_machine, rows
from kit.kubectl import Namespace

pytestmark = pytest.mark.timeout(1800)

RUN = "BenchmarkRun"


def test_four_latencies_are_told_and_where_sixteen_requests_can_not_tell_them(namespace: Namespace) -> None:
    namespace.apply(*map(on_a_busy_machine, example("e2-four-latencies-tiny.yaml").values()))
    status = measured(namespace, RUN, "e2-four-latencies-tiny", timeout_seconds=500)
    found = rows(status)
    for row in found.values():
        for latency in LATENCIES:
            p50, p95, p99 = (row["metrics"][f"p{percentile}_{latency}_ms"] for percentile in PERCENTILES)
            assert 0 < p50 <= p95 <= p99

    sixteen, enough = found["sixteen/rate=8"], found["enough/rate=8"]
    told = finding(status, "TooFewSamples")
    assert (told["worstStage"], told["count"]) == ("sixteen/rate=8", 1)
    assert told["evidence"] == {
        "samples": sixteen["metrics"]["completed"],
        "percentiles": "95, 99",
        "percentile": 99,
        "needed": 368,
    }
    assert "p99_ttft_ms" in sixteen["uncertain"]
    assert "uncertain" not in enough
    assert {f"p{percentile}_{latency}_ms" for percentile in PERCENTILES for latency in LATENCIES} <= set(
        enough["intervals"]
    )

    (read,) = status["datasets"]
    assert read["rowsRead"] > read["rowsUsed"] == sixteen["metrics"]["completed"] + 16

    said = benchrun(namespace, "report", "e2-four-latencies-tiny", "--wide")
    shown = {row["load point"]: row for row in said.table("load point", "req/s")}
    assert shown["sixteen/rate=8"]["E2EL p99"].endswith("?")
    assert not shown["enough/rate=8"]["E2EL p99"].endswith("?")
    assert "too few requests for this percentile" in said.text
