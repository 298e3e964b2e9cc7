"""Requests against the percentiles that they are to tell."""

from __future__ import annotations

from typing import Any

import pytest
from unit.preflight.checks import checked, said

REQUESTS = "spec.workloads[0].requests"


def asked(
    requests: int, *, repeats: int = 1, percentiles: tuple[str, ...] = ("50", "99"), **more: Any
) -> dict[str, Any]:
    return {
        "workloads.0.requests": requests,
        "repeats": repeats,
        "measurement": {"percentiles": list(percentiles)},
        **more,
    }


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (asked(368), None),
        (asked(367), "367 requests a load point give p99 no 95 % interval: p99 takes 368; up to p95 is bounded"),
        (asked(123, repeats=3), None),
        (
            asked(100, repeats=3),
            "100 x 3 repeats = 300 requests a load point give p99 no 95 % interval: p99 takes 368, 123 a stage",
        ),
        (asked(16, percentiles=("95", "99")), "16 requests a load point give p95, p99 no 95 % interval: p99 takes 368"),
        (asked(1000, percentiles=("50", "99.9")), "p99.9 takes 3,688"),
        (asked(5, percentiles=("50",)), "5 requests a load point give p50 no 95 % interval: p50 takes 6"),
    ],
)
def test_the_exact_numbers_are_told(changes: dict[str, Any], text: str | None) -> None:
    warnings = said(checked(changes), "Warning")
    if text is None:
        assert REQUESTS not in warnings
    else:
        assert text in warnings[REQUESTS]


def test_an_objective_that_can_not_be_met_is_named() -> None:
    objectives = [{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 500}]
    found = checked(asked(100, percentiles=("50",), objectives=objectives))
    assert "TTFT p99" in said(found, "Warning")["spec.objectives"]


def test_an_objective_with_enough_requests_is_fine() -> None:
    objectives = [{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 500}]
    assert "spec.objectives" not in said(checked(asked(400, objectives=objectives)), "Warning")


def test_with_a_duration_the_slowest_rate_has_the_fewest() -> None:
    workload = {"name": "w", "dataset": {"random": {}}, "load": {"requestRates": ["1", "10"]}, "durationSeconds": 60}
    warnings = said(checked({"workloads": [workload], "measurement": {"percentiles": ["99"]}}), "Warning")
    assert "60 requests at 1/s" in warnings["spec.workloads[0].durationSeconds"]


def test_one_repeat_tells_nothing_of_noise() -> None:
    assert "noise" in said(checked(), "Note")["spec.repeats"]
    assert "spec.repeats" not in said(checked({"repeats": 3}), "Note")


def test_a_search_takes_care_of_itself() -> None:
    search = {"axis": "Concurrency", "from": "1", "to": "64"}
    objectives = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 500}]
    found = checked({"workloads.0.load": {"search": search}, "objectives": objectives})
    assert said(found, "Warning") == {}
    assert "spec.repeats" not in said(found, "Note")
