"""The newest finished runs: as many as asked for, gone with their object, and as Prometheus reads
them."""

import json
import math
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from benchrun.observe import (
    HEADLINE_FIGURES,
    MAX_ROWS,
    FinishedRun,
    finished_run_of,
)
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import ResultMetrics
from benchrun.runtime.telemetry import Telemetry
from prometheus_client.parser import text_string_to_metric_families
from unit.runtime.bodies import run_body

FIRST = datetime(2026, 11, 21, 12, tzinfo=UTC)
Sample = tuple[str, dict[str, str], float]


def ended(
    minute: int = 0,
    *,
    load_points: int = 1,
    verdict: str = "Valid",
    metrics: Any = None,
) -> dict[str, Any]:
    """The status of a run that ended so many minutes after the first."""
    full = {name: float(place) for place, name in enumerate(HEADLINE_FIGURES)}
    return {
        "conditions": [{"type": "Complete", "status": "True"}],
        "completionTime": (FIRST + timedelta(minutes=minute)).isoformat(),
        "phase": "Completed",
        "verdict": verdict,
        "results": [
            {
                "loadPoint": f"chat/rate={n}",
                "workload": "chat",
                "axis": "RequestRate",
                "value": str(n),
                "verdict": verdict,
                "metrics": full if metrics is None else metrics,
            }
            for n in range(load_points)
        ],
    }


def observe(
    indexes: Indexes,
    name: str,
    status: dict[str, Any],
    *,
    version: int = 1,
    deleted: bool = False,
) -> None:
    indexes.heard(
        "BenchmarkRun",
        run_body(name, uid=name, version=version, status=status),
        deleted=deleted,
    )


def shown(indexes: Indexes) -> list[str]:
    """Names of the runs with figures."""
    return [key.name for key, _ in indexes.results]


def samples(indexes: Indexes) -> list[Sample]:
    """Everything that Prometheus reads of results, from the page itself."""
    telemetry = Telemetry()
    telemetry.registry.register(ResultMetrics(indexes.results))
    families = text_string_to_metric_families(telemetry.page().decode())
    of_runs = tuple(
        f"benchrun_run_{name}" for name in ("completion", "info", "load_points")
    )
    ours = [f for f in families if f.name.startswith(("benchrun_result", *of_runs))]
    return [(s.name, s.labels, s.value) for family in ours for s in family.samples]


@pytest.fixture
def indexes() -> Indexes:
    """Room for two finished runs."""
    return Indexes(result_runs=2)


def test_finished_run_has_its_figures_and_its_verdict_on_the_page(
    indexes: Indexes,
) -> None:
    observe(
        indexes,
        "chat",
        ended(
            verdict="Suspect",
            metrics={"output_throughput": 812.5, "p99_ttft_ms": None},
        ),
    )
    run = {"namespace": "lab", "run": "chat"}
    load_point = {
        "load_point": "chat/rate=0",
        "workload": "chat",
        "axis": "RequestRate",
        "value": "0",
        "verdict": "Suspect",
    }
    assert samples(indexes) == [
        (
            "benchrun_run_info",
            run | {"phase": "Completed", "verdict": "Suspect"},
            1,
        ),
        ("benchrun_run_completion_timestamp_seconds", run, FIRST.timestamp()),
        ("benchrun_run_load_points_left_out", run, 0),
        ("benchrun_result_info", run | load_point, 1),
        (
            "benchrun_result",
            run | {"load_point": "chat/rate=0", "metric": "output_throughput"},
            812.5,
        ),
    ]


def test_run_that_goes_on_is_not_shown(indexes: Indexes) -> None:
    observe(indexes, "chat", ended() | {"conditions": []})
    assert samples(indexes) == []


def test_newest_runs_stay_whatever_order_they_are_heard_in(
    indexes: Indexes,
) -> None:
    for name, minute in (("second", 2), ("third", 3), ("first", 1)):
        observe(indexes, name, ended(minute))
    assert shown(indexes) == ["second", "third"]
    observe(indexes, "fourth", ended(4))
    assert shown(indexes) == ["fourth", "third"]


def test_figures_leave_with_the_run_and_the_next_list_fills_the_place(
    indexes: Indexes,
) -> None:
    for minute, name in enumerate(("first", "second", "third")):
        observe(indexes, name, ended(minute))
    observe(indexes, "third", ended(2), version=2, deleted=True)
    assert shown(indexes) == ["second"]
    with indexes.listing("BenchmarkRun", None) as listing:
        for minute, name in enumerate(("first", "second")):
            indexes.listed(
                listing, run_body(name, uid=name, version=1, status=ended(minute))
            )
    assert shown(indexes) == ["first", "second"]


def test_figures_leave_with_a_run_that_a_list_no_longer_holds(
    indexes: Indexes,
) -> None:
    observe(indexes, "chat", ended())
    with indexes.listing("BenchmarkRun", None):
        pass
    assert shown(indexes) == []


def test_run_recreated_under_the_name_does_not_show_the_old_ones_figures(
    indexes: Indexes,
) -> None:
    observe(indexes, "chat", ended())
    indexes.heard(
        "BenchmarkRun", run_body("chat", uid="again", version=9), deleted=False
    )
    assert shown(indexes) == []


def test_late_news_from_before_the_end_takes_nothing_away(indexes: Indexes) -> None:
    observe(indexes, "chat", ended(), version=9)
    observe(indexes, "chat", {}, version=8)
    assert shown(indexes) == ["chat"]


def test_nothing_is_kept_where_none_is_requested() -> None:
    indexes = Indexes(result_runs=0)
    observe(indexes, "chat", ended())
    assert samples(indexes) == []


def test_series_are_bounded_by_runs_load_points_and_figures() -> None:
    most = 5
    indexes = Indexes(result_runs=most)
    for minute in range(most + 3):
        observe(indexes, f"run-{minute}", ended(minute, load_points=64))
    found = samples(indexes)
    assert (
        len(found)
        == most * (3 + MAX_ROWS + MAX_ROWS * len(HEADLINE_FIGURES))
        == most * 147
    )
    assert {
        value
        for name, _, value in found
        if name == "benchrun_run_load_points_left_out"
    } == {64 - MAX_ROWS}
    assert not any(math.isnan(value) for _, _, value in found)


MOST = """
import json, sys, tracemalloc
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import MAX_RUNS, ResultMetrics
from benchrun.runtime.telemetry import Telemetry
from unit.runtime.test_results import ended, observe

indexes = Indexes(result_runs=MAX_RUNS)
telemetry = Telemetry()
telemetry.registry.register(ResultMetrics(indexes.results))
# Room in the interpreter's table of shared words: it doubles at a size that depends on what was imported.
words = [sys.intern(f"word-{number}") for number in range(100_000)]
del words
tracemalloc.start()
for minute in range(MAX_RUNS):
    # As the API server's answers are: no two words share their memory.
    observe(indexes, f"run-{minute}", json.loads(json.dumps(ended(minute, load_points=64))))
kept, _ = tracemalloc.get_traced_memory()
tracemalloc.reset_peak()
length = len(telemetry.page())
print(json.dumps([kept, length, tracemalloc.get_traced_memory()[1]]))
"""


def test_most_that_can_be_requested_takes_little_memory() -> None:
    """In a process of its own: the interpreter's table of shared words, which grows in leaps, holds
    those of other tests here."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)
    }
    answer = subprocess.run(
        [sys.executable, "-c", MOST],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    kept, length, most = json.loads(answer.stdout)
    assert kept < 2 * 2**20
    assert length < 2 * 2**20
    assert most < 12 * 2**20


@pytest.mark.parametrize(("kept", "read"), [(0, 0), (2, 2), (100, 6)])
def test_results_are_read_of_runs_that_may_be_kept_and_of_no_others(
    kept: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start hears of ten thousand runs that have ended."""
    calls: list[object] = []

    def counting(status: Any) -> FinishedRun | None:
        calls.append(status)
        return finished_run_of(status)

    monkeypatch.setattr("benchrun.runtime.indexes.finished_run_of", counting)
    indexes = Indexes(result_runs=kept)
    for minute in (6, 5, 4, 3, 2, 1):
        observe(indexes, f"run-{minute}", ended(minute))
    assert len(calls) == read
    assert len(shown(indexes)) == min(kept, 6)
