"""`status.datasets`: what was read for each workload, as its records tell it."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun_client.contract import DatasetFacts, StageRecord

from benchrun.api.status import DatasetStatus, Truncated

MAX_DATASETS = 16
"""A mix may have eight of them, and a run sixteen mixes; with so many the status stays small."""
SOURCE_CHARACTERS = 160


def dataset_statuses(
    records: Iterable[StageRecord], *, workloads: int
) -> tuple[list[DatasetStatus], tuple[Truncated, ...]]:
    """Of each workload once, in the order in which they were measured; all records of a workload tell the same, so that no
    more are looked at than it takes to meet so many `workloads`."""
    facts: dict[str, tuple[DatasetFacts, ...]] = {}
    for record in records:
        facts.setdefault(record.stage_id.partition("/")[0], record.datasets)
        if len(facts) == workloads:
            break
    found = [_status(workload, each, of_mix=len(read) > 1) for workload, read in facts.items() for each in read]
    if len(found) <= MAX_DATASETS:
        return found, ()
    return found[:MAX_DATASETS], (Truncated(field="datasets", total=len(found), included=MAX_DATASETS),)


def _status(workload: str, facts: DatasetFacts, *, of_mix: bool) -> DatasetStatus:
    return DatasetStatus(
        name=f"{workload}/{facts.part}" if of_mix or facts.part else workload,
        # The end of a path tells more than its beginning.
        source=facts.source[-SOURCE_CHARACTERS:],
        sha256=facts.sha256,
        rows_read=facts.rows_read,
        rows_used=facts.rows_used,
        rows_dropped=facts.rows_dropped,
    )
