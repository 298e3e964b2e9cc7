"""`status.datasets`: what was read for each workload, once."""

from __future__ import annotations

from typing import Any

from benchrun.judge.judged_run import MAX_DATASETS, dataset_statuses
from benchrun_client.contract import DatasetFacts, StageRecord
from unit.measure.records import record


def facts(**changes: Any) -> DatasetFacts:
    return DatasetFacts(
        **{
            "source": "/data/chat/pvc/rows.jsonl",
            "sha256": "a" * 64,
            "rows_read": 100,
            "rows_used": 40,
            "rows_dropped": {"TooLongForModel": 3},
            **changes,
        }
    )


def stage(stage_id: str, *datasets: DatasetFacts) -> StageRecord:
    return record(stage_id=stage_id, datasets=datasets)


def test_each_workload_is_told_once_with_its_counts() -> None:
    records = [
        stage("chat/rate=1/r1", facts()),
        stage("plain/rate=1/r1"),
        stage("chat/rate=2/r1", facts()),
        stage("bulk/search-01/r1", facts(sha256="b" * 64)),
    ]
    found, cut = dataset_statuses(records, workloads=3)
    assert [(d.name, d.sha256[0], d.rows_read, d.rows_used) for d in found] == [
        ("chat", "a", 100, 40),
        ("bulk", "b", 100, 40),
    ]
    assert found[0].rows_dropped == {"TooLongForModel": 3}
    assert cut == ()


def test_parts_of_a_mix_are_told_apart() -> None:
    found, _ = dataset_statuses([stage("chat/rate=1/r1", facts(part=0), facts(part=2))], workloads=1)
    assert [d.name for d in found] == ["chat/0", "chat/2"]


def test_the_end_of_a_long_name_is_kept() -> None:
    (found,), _ = dataset_statuses(
        [stage("chat/rate=1/r1", facts(source="/" + "d" * 280 + "/rows.jsonl"))], workloads=1
    )
    assert len(found.source) == 160
    assert found.source.endswith("d/rows.jsonl")


def test_more_than_the_status_has_room_for_are_cut_and_that_is_said() -> None:
    records = [stage(f"w{n}/rate=1/r1", facts(part=0), facts(part=1)) for n in range(16)]
    found, (cut,) = dataset_statuses(records, workloads=16)
    assert (len(found), cut.field, cut.total, cut.included) == (MAX_DATASETS, "datasets", 32, MAX_DATASETS)


def test_no_more_records_are_opened_than_it_takes_to_meet_all_workloads() -> None:
    records = iter([stage("chat/rate=1/r1", facts()), stage("bulk/rate=1/r1", facts()), stage("chat/rate=2/r1")])
    assert [d.name for d in dataset_statuses(records, workloads=2)[0]] == ["chat", "bulk"]
    assert [record.stage_id for record in records] == ["chat/rate=2/r1"]
