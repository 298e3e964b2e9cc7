"""Real vLLM: which of two runs is true, where the prompts of the second are those of the first, applied as docs/experiments has it."""

from __future__ import annotations

import pytest
from kit.examples import LATENCIES, PERCENTILES, benchrun, example, finding, measured, on_a_busy_machine, rows
from kit.kubectl import Namespace

pytestmark = pytest.mark.timeout(1800)

RUN = "BenchmarkRun"


def test_which_run_is_true_is_answered_by_cache_hits(namespace: Namespace) -> None:
    # One after the other, as on a cluster with one GPU: two servers on two cores would be each other's noise.
    statuses = {}
    for name, wanted in example("e1-which-run-is-true-tiny.yaml").items():
        namespace.apply(on_a_busy_machine(wanted))
        statuses[name] = measured(namespace, RUN, name, timeout_seconds=700)
    same, new = statuses["e1-same-prompts-tiny"], statuses["e1-new-prompts-tiny"]

    # Run 1 is true and run 2 is not: nearly all of its prompts were computed before.
    told = finding(same, "PrefixCacheContaminated")
    assert (told["severity"], told["worstStage"], told["count"]) == ("Invalid", "long-prompts/rate=4/r2", 1)
    evidence = told["evidence"]
    assert evidence["lookedUpTokens"] == pytest.approx(60 * 1000, rel=0.02)
    assert 0.8 * evidence["lookedUpTokens"] < evidence["hitTokens"] < evidence["lookedUpTokens"]
    # It is the cache and no compilation: new prompts are as slow in the second repeat.
    repeated, fresh = (rows(status)["long-prompts/rate=4"]["repeatCvPercent"] for status in (same, new))
    assert repeated["mean_ttft_ms"] > 2 * fresh["mean_ttft_ms"]
    # These agree as far as two shared cores let them; a cache would halve the second's TTFT.
    assert fresh["output_throughput"] < 10
    assert fresh["mean_ttft_ms"] < 45
    # And the cache, which is on there as well, need not be off.
    assert {row["roles"][0]["prefixHitPercent"] for row in new["results"]} == {0}
    assert "PrefixCacheContaminated" not in {each["code"] for each in new["findings"]}

    said = benchrun(namespace, "report", "e1-same-prompts-tiny")
    assert said.exit_code == 4
    (shown,) = [row for row in said.table("severity", "finding") if row["finding"] == "PrefixCacheContaminated"]
    assert f"hitTokens {evidence['hitTokens']:.0f}" in shown["evidence"]
    assert "The cachePolicy Share does this by itself: take Isolate" in shown["what to do"]

    # What a stream of all lengths would see, each percentile bounded on both sides.
    said = benchrun(namespace, "report", "e1-new-prompts-tiny", "--wide")
    bounds = [row for row in said.table("load point", "percentile (ms)") if row["load point"] == "mix/rate=5"]
    assert {row["percentile (ms)"] for row in bounds} == {f"p{p}_{name}" for p in PERCENTILES for name in LATENCIES}
    assert all(float(row["at least"]) <= float(row["measured"]) <= float(row["at most"]) for row in bounds)
