"""Searches: what the client receives, the cells that came of it, and the stages that it may choose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from benchrun_client import contract
from benchrun_client.contract import Data, Envelope, Limit, StageRecord, open_stage, open_stage_id

from benchrun.api import Axis, BenchmarkRunSpec, Cell, Search, Workload
from benchrun.names import cell_id
from benchrun.plan.stages import canonical, probe_seed, shared_seed

_AXES: dict[str, Axis] = {"RequestRate": "rate", "Concurrency": "concurrency"}


def searched(spec: BenchmarkRunSpec) -> tuple[Workload, ...]:
    """Workloads whose highest load is looked for, in the order in which that is done."""
    return tuple(workload for workload in spec.workloads if workload.load.search is not None)


def axis_of(search: Search) -> Axis:
    """What is varied, as cells have it."""
    return _AXES[search.axis]


def client_search(
    spec: BenchmarkRunSpec, workload: Workload, search: Search, *, data: Data, uid: str
) -> contract.Search:
    """A search in the client's words. `uid`: of the run."""
    return contract.Search(
        workload=workload.name,
        axis=axis_of(search),
        lowest=canonical(search.from_),
        highest=canonical(search.to),
        tolerance_percent=search.tolerance_percent,
        max_probes=search.max_probes,
        max_repeats=search.max_repeats,
        objectives=tuple(
            Limit(metric=o.metric, percentile=o.percentile, max_milliseconds=o.max_milliseconds)
            for o in spec.objectives
        ),
        max_failed_percent=spec.validity.max_failed_percent,
        data=data,
        requests=workload.requests,
        duration_seconds=workload.duration_seconds,
        seeds=tuple(
            _seed(spec, workload.name, probe=probe, repeat=repeat, uid=uid)
            for probe in range(1, search.max_probes + 1)
            for repeat in range(1, search.max_repeats + 1)
        ),
        api=workload.api,
        ignore_eos=workload.ignore_eos,
    )


def probed_cells(spec: BenchmarkRunSpec, records: Iterable[StageRecord]) -> tuple[Cell, ...]:
    """A cell for each load that a search measured, by rising load. A repeat that is missing between others is in it."""
    workloads = searched(spec)
    if not workloads:
        return ()
    values: dict[str, dict[int, str]] = {workload.name: {} for workload in workloads}
    repeats: dict[tuple[str, int], int] = {}
    for record in records:
        place = open_stage(record.stage_id)
        if record.probe is None or place is None or place[0] not in values:
            continue
        name, probe, repeat = place
        values[name].setdefault(probe, record.probe.value)
        repeats[name, probe] = max(repeat, repeats.get((name, probe), 0))
    return tuple(
        cell
        for workload, search in _pairs(workloads)
        for cell in _cells(workload.name, axis_of(search), values[workload.name], repeats)
    )


def _cells(name: str, axis: Axis, values: dict[int, str], repeats: dict[tuple[str, int], int]) -> Sequence[Cell]:
    ordered = sorted(values, key=lambda probe: Decimal(values[probe]))
    return [
        Cell(
            id=cell_id(name, axis, values[probe]),
            workload=name,
            axis=axis,
            value=values[probe],
            stage_ids=tuple(open_stage_id(name, probe, repeat) for repeat in range(1, repeats[name, probe] + 1)),
        )
        for probe in ordered
    ]


def _pairs(workloads: Iterable[Workload]) -> list[tuple[Workload, Search]]:
    return [(w, w.load.search) for w in workloads if w.load.search is not None]


def _seed(spec: BenchmarkRunSpec, workload: str, *, probe: int, repeat: int, uid: str) -> int:
    base = spec.measurement.seed
    if spec.measurement.cache_policy == "Share":
        return shared_seed(base=base, workload=workload)
    cache_outlives_run = uid if spec.endpoint is not None else None
    return probe_seed(base=base, workload=workload, probe=probe, repeat=repeat, run_uid=cache_outlives_run)


def problem_with(envelope: Envelope, searches: Sequence[contract.Search], *, listed: int) -> str | None:
    """Why the record can't be of one of these searches, whose stages follow the `listed` ones; None: it can, as far as its
    envelope says. Its load stands in the record (`benchrun.judge_process.judging`)."""
    most = listed + sum(search.most_stages for search in searches)
    if envelope.sequence >= most:
        return f"the plan has {most} stages" if listed == most else f"the plan has at most {most} stages"
    place = open_stage(envelope.stage_id)
    search = next((s for s in searches if place is not None and s.workload == place[0]), None)
    if place is None or search is None:
        return f"stage {envelope.stage_id!r} is of no search of the plan"
    _, probe, repeat = place
    if not 1 <= probe <= search.max_probes or repeat > search.max_repeats:
        return f"stage {envelope.stage_id} is beyond {search.max_probes} probes of {search.max_repeats} stages"
    if envelope.ends_search not in (None, search.workload):
        return f"stage {envelope.stage_id} can't end the search of {envelope.ends_search!r}"
    return None
