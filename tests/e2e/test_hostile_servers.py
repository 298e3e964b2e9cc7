"""Servers that answer nonsense: refused, counted, no crash, and never a number without saying so."""

from __future__ import annotations

import pytest
from kit.kubectl import Namespace
from kit.runs import condition, finished, simulated_run


@pytest.mark.timeout(200)
@pytest.mark.parametrize("page", ["garbage", "endless", "http500", "none"])
def test_a_metrics_page_of_nonsense_leaves_figures_empty_and_the_run_whole(namespace: Namespace, page: str) -> None:
    namespace.apply(simulated_run("nonsense", args=(f"--sim-metrics={page}",)))
    run = finished(namespace, "nonsense", timeout_seconds=150)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    row = run["status"]["results"][0]
    assert row["metrics"]["completed"] == 8
    assert all(r.get("runningMean") is None and r.get("prefixHitPercent") is None for r in row["roles"])
    unchecked = next(f for f in run["status"]["findings"] if f["code"] == "NotChecked")
    assert "PrefixCacheContaminated" in unchecked["evidence"]


@pytest.mark.timeout(200)
def test_failed_requests_beyond_the_threshold_make_the_cell_invalid(namespace: Namespace) -> None:
    namespace.apply(simulated_run("failing", args=("--sim-error-percent=50",)))
    run = finished(namespace, "failing", timeout_seconds=150)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert condition(run, "Valid")["status"] == "False"
    assert run["status"]["results"][0]["verdict"] == "Invalid"
    assert "RequestsFailed" in run["status"]["results"][0]["findings"]
    assert run["status"].get("headline") is None


@pytest.mark.timeout(240)
def test_a_hundred_megabytes_of_log_noise_hurt_nobody(namespace: Namespace) -> None:
    namespace.apply(simulated_run("noisy", args=("--sim-log-noise-mb=100",)))
    run = finished(namespace, "noisy", timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert run["status"]["verdict"] in ("Valid", "Suspect")
