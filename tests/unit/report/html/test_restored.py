"""Figures that a large run's status had no room for, and its records have."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.api import Result, Truncated
from benchrun.report.html import Reported, restored
from benchrun_client.contract import Probe
from unit.report.html.reported_runs import measured, reported, with_status
from unit.report.html.searched_runs import searched

CUT = [
    Truncated(field="results[].metrics", total=300, included=10),
    Truncated(field="results[].intervals", total=60, included=0),
    Truncated(field="results[].objectives", total=6, included=0),
    Truncated(field="results[].steady", total=60, included=0),
]
KEPT = ("request_throughput", "p99_ttft_ms")


def cut(row: Result, **changes: Any) -> Result:
    """As the status of a large run has it."""
    metrics = {name: value for name, value in row.metrics.items() if name in KEPT}
    return row.model_copy(
        update={
            "metrics": metrics,
            "intervals": {},
            "uncertain": [],
            "objectives": [],
            **changes,
        }
    )


def large(**changes: Any) -> Reported:
    rows = [cut(row) for row in measured().status.results]
    return with_status(reported(**changes), results=rows, truncated=CUT)


def test_what_was_cut_is_what_was_judged() -> None:
    for now, judged in zip(
        restored(large()).status.results, measured().status.results, strict=True
    ):
        assert (now.intervals, now.uncertain) == (
            judged.intervals,
            judged.uncertain,
        )
        assert now.steady == judged.steady
        assert now.objectives == judged.objectives
        assert {
            name: now.metrics[name]
            for name in judged.metrics
            if name in now.metrics
        } == {
            name: value
            for name, value in judged.metrics.items()
            if name in now.metrics
        }
        assert {"median_ttft_ms", "mean_e2el_ms", "output_throughput"} <= set(
            now.metrics
        )


def test_it_is_no_longer_said_to_be_missing_and_the_rest_is() -> None:
    run = large()
    cut = [*CUT, Truncated(field="results[].changes", total=9, included=1)]
    left = restored(with_status(run, truncated=cut)).status.truncated
    assert [each.field for each in left] == ["results[].changes"]


def test_a_load_point_without_all_its_records_stays_as_it_was() -> None:
    left = measured().records[1:]
    gone = measured().records[0].stage_id.rpartition("/")[0]
    run = large(records=left)
    now = {row.load_point: row for row in restored(run).status.results}
    assert now[gone] == next(
        row for row in run.status.results if row.load_point == gone
    )
    assert restored(run).status.truncated == CUT


def test_a_status_that_was_not_cut_is_left_alone() -> None:
    assert restored(reported()) == reported()


def test_gaps_that_are_none_are_not_restored() -> None:
    rows = [
        cut(row, findings=["ChunksAreNotTokens"])
        for row in measured().status.results
    ]
    now = restored(with_status(reported(), results=rows, truncated=CUT))
    assert not any(
        "itl" in name
        for row in now.status.results
        for name in (*row.metrics, *row.intervals)
    )


@pytest.mark.parametrize("cap", [None, 4])
def test_under_a_cap_the_wait_in_the_client_is_restored_too(
    cap: int | None,
) -> None:
    run = large()
    workload = run.spec.workloads[0]
    load = workload.load.model_copy(update={"max_concurrency": cap})
    spec = run.spec.model_copy(
        update={"workloads": [workload.model_copy(update={"load": load})]}
    )
    records = [
        record.model_copy(
            update={"load": record.load.model_copy(update={"max_concurrency": cap})}
        )
        for record in run.records
    ]
    now = restored(
        reported(spec=spec, status=run.status, records=records)
    ).status.results[0]
    assert ("mean_e2el_including_client_queue_ms" in now.metrics) == (
        cap is not None
    )


@pytest.mark.parametrize(
    ("confirms", "outcome"), [(False, "Met"), (True, "Inconclusive")]
)
def test_the_objectives_of_a_confirmation_are_restored_with_its_smaller_error(
    confirms: bool, outcome: str
) -> None:
    """The limit is just above the interval's end: certain enough for a load that was tried, not for
    one that is confirmed."""
    run = searched()
    probe = Probe(ends_search=False, confirms=confirms)
    records = [
        record.model_copy(update={"probe": probe})
        for record in run.records
        if record.load.value == "4"
    ]
    (row,) = (row for row in run.status.results if row.value == "4")
    rows = [
        cut(
            row,
            load_point=f"{row.load_point}/confirmation"
            if confirms
            else row.load_point,
        )
    ]
    limit = {"metric": "E2EL", "percentile": "50", "max_milliseconds": 417}
    spec = run.spec.model_copy(
        update={"objectives": [run.spec.objectives[0].model_copy(update=limit)]}
    )
    changed = replace(
        with_status(run, results=rows, truncated=CUT), records=records, spec=spec
    )
    assert [
        each.outcome for each in restored(changed).status.results[0].objectives
    ] == [outcome]
