"""Searches for the highest load: what the client receives, cells that were probed, and stages that are allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from benchrun_client import contract

from benchrun.api import Axis, BenchmarkRunSpec, Cell, Search, Workload
from benchrun.names import cell_id, confirmation_id
from benchrun.plan.stages import searched


def axis_of(search: Search) -> Axis:
    """The axis of its cells."""
    return "rate" if search.axis == "RequestRate" else "concurrency"


def client_sampling(workload: Workload) -> contract.Sampling:
    """How tokens are chosen, in the client's plan: greedily where the spec does not ask for anything else."""
    asked = {} if workload.sampling is None else workload.sampling.model_dump(exclude_none=True)
    return contract.Sampling.model_validate(asked)


def probed_cells(spec: BenchmarkRunSpec, records: Iterable[contract.StageRecord]) -> tuple[Cell, ...]:
    """A cell for each load that a search measured, by rising load, with all repeats up to the last, also missing ones. A load
    that was confirmed has two: what led there, and its confirmation."""
    probes: dict[str, dict[int, contract.Probe]] = {name: {} for name in searched(spec)}
    if not probes:
        return ()
    repeats: dict[tuple[str, int], int] = {}
    for record in records:
        place = contract.open_stage(record.stage_id)
        if record.probe is None or place is None or place[0] not in probes:
            continue
        name, probe, repeat = place
        probes[name].setdefault(probe, record.probe)
        repeats[name, probe] = max(repeat, repeats.get((name, probe), 0))
    found = []
    for name, search in searched(spec).items():
        axis = axis_of(search)
        for probe, of in sorted(probes[name].items(), key=lambda each: Decimal(each[1].value)):
            stages = tuple(contract.open_stage_id(name, probe, repeat) for repeat in range(1, repeats[name, probe] + 1))
            found.append(Cell(probed_id(name, axis, of), name, axis, of.value, stages, of.confirms))
    return tuple(found)


def probed_id(workload: str, axis: Axis, probe: contract.Probe) -> str:
    """The id of the cell that a stage of a search belongs to."""
    load_point = cell_id(workload, axis, probe.value)
    return confirmation_id(load_point) if probe.confirms else load_point


def objective_error(spec: BenchmarkRunSpec, cell: Cell) -> float:
    """How often, at most, an objective may be called Met at this cell although it is missed."""
    search = searched(spec).get(cell.workload)
    return contract.confirmation_error(search.max_repeats) if search is not None and cell.confirms else contract.ERROR


def problem_with(envelope: contract.Envelope, searches: Sequence[contract.Search], *, listed: int) -> str | None:
    """Why the record can't be of one of these searches, whose stages follow the `listed` ones; None: its envelope is
    valid. Its load is in the record (`benchrun.judge_process.opened_job`)."""
    most = listed + sum(search.most_stages for search in searches)
    if envelope.sequence >= most:
        return f"the plan has {most} stages" if listed == most else f"the plan has at most {most} stages"
    place = contract.open_stage(envelope.stage_id)
    search = next((s for s in searches if place is not None and s.workload == place[0]), None)
    if place is None or search is None:
        return f"stage {envelope.stage_id!r} is of no search of the plan"
    _, probe, repeat = place
    if not 1 <= probe <= search.most_probes or repeat > search.max_repeats:
        return f"stage {envelope.stage_id} is beyond {search.most_probes} probes of {search.max_repeats} stages"
    if envelope.ends_search not in (None, search.workload):
        return f"stage {envelope.stage_id} can't end the search of {envelope.ends_search!r}"
    return None
