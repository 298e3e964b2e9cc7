"""Define the order of measurement: make load points and stages of a spec, with seeds and cost.

Searches for the highest load are handled, too; only their records show which load points and stages
they had.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from benchrun_client import contract

from benchrun.api import (
    BenchmarkRunSpec,
    Estimate,
    LoadPoint,
    Resources,
    Search,
    Workload,
    is_gpu,
)
from benchrun.names import confirmation_id, load_point_id, stage_id

_VERSION = "benchrun.seed/1"
_ORDER_VERSION = "benchrun.order/1"


def stage_seed(
    *, base: int, workload: str, load: str, repeat: int, run_uid: str | None
) -> int:
    """Return the 32-bit seed of one stage at a load such as `rate=4`.

    `run_uid` is given if the server's cache outlives the run. Without it, equal specs send the same
    requests.
    """
    return _seed_of(
        [_VERSION, str(base), workload, load, str(repeat), run_uid or ""]
    )


def probe_seed(
    *, base: int, workload: str, probe: int, repeat: int, run_uid: str | None
) -> int:
    """Return the 32-bit seed of one stage of a search.

    It depends on the number of the probe, so that prompts can be written before the load is known.
    """
    return _seed_of(
        [
            _VERSION,
            "search",
            str(base),
            workload,
            str(probe),
            str(repeat),
            run_uid or "",
        ]
    )


def warmup_seed(*, base: int, workload: str, run_uid: str | None) -> int:
    """Return the 32-bit seed of a workload's warm-up; it differs from the seeds of all stages."""
    return _seed_of([_VERSION, "warmup", str(base), workload, run_uid or ""])


def shared_seed(*, base: int, workload: str) -> int:
    """Return the 32-bit seed of all stages of a workload that sends the same prompts each time.

    It is the same in every run of the spec.
    """
    return _seed_of([_VERSION, "shared", str(base), workload])


def block_seed(*, base: int, block: int) -> int:
    """Return the 31-bit seed for all requests of a block of a sweep; all variants share it.

    The first block (1) has the template's own seed.
    """
    return (
        base
        if block == 1
        else _seed_of([_VERSION, "block", str(base), str(block)]) >> 1
    )


def place_in_repeat(*, base: int, repeat: int, load_point: str) -> bytes:
    """Return the sort key that orders load points within a repeat.

    The order is practically random, and the same for equal specs.
    """
    return digest([_ORDER_VERSION, str(base), str(repeat), load_point])


def _seed_of(parts: list[str]) -> int:
    return int.from_bytes(digest(parts)[:4], "big")


def digest(parts: list[str]) -> bytes:
    """Return a digest that is practically random, and the same for equal parts."""
    return hashlib.sha256("\x1f".join(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """One stage of a run; the client's plan has a stage made from it."""

    id: str
    workload: Workload
    load: contract.Load
    repeat: int
    requests: int
    seed: int


def load_points(spec: BenchmarkRunSpec) -> tuple[LoadPoint, ...]:
    """Return all load points, workload by workload, as listed, with all stages that may be."""
    found = []
    most = spec.most_repeats
    for workload in spec.workloads:
        for load in workload.load.points:
            stages = tuple(
                stage_id(workload.name, load.label, r) for r in range(1, most + 1)
            )
            found.append(
                LoadPoint(
                    load_point_id(workload.name, load.label),
                    workload.name,
                    load,
                    stages,
                )
            )
    return tuple(found)


def planned_stages(
    spec: BenchmarkRunSpec, *, run_uid: str
) -> tuple[PlannedStage, ...]:
    """Return all stages in order; with `repeats: Auto` all that there may be.

    All load points are measured once, then all again for the next repeat. A drift over the run then
    shows between repeats, not between load points.
    """
    workloads = {workload.name: workload for workload in spec.workloads}
    in_order = list(load_points(spec))
    base = spec.measurement.seed
    planned: list[PlannedStage] = []
    for repeat in range(1, spec.most_repeats + 1):
        if spec.measurement.order == "Shuffled":
            in_order.sort(
                key=lambda load_point: place_in_repeat(
                    base=base, repeat=repeat, load_point=load_point.id
                )
            )
        for load_point in in_order:
            place = {"load": load_point.load.label, "repeat": repeat}
            workload = workloads[load_point.workload]
            planned.append(
                PlannedStage(
                    id=load_point.stage_ids[repeat - 1],
                    workload=workload,
                    load=load_point.load,
                    repeat=repeat,
                    requests=workload.requests_at(load_point.load),
                    seed=seed_in(
                        spec,
                        load_point.workload,
                        stage_seed,
                        run_uid=run_uid,
                        **place,
                    ),
                )
            )
    return tuple(planned)


def stage_ids(spec: BenchmarkRunSpec, *, run_uid: str) -> tuple[str, ...]:
    """Return the stage ids of all records in order, except those of searches.

    The ids of all stages come first, then that of the profile.
    """
    profile = (
        (contract.PROFILE_STAGE,) if spec.measurement.profile is not None else ()
    )
    return (
        *(stage.id for stage in planned_stages(spec, run_uid=run_uid)),
        *profile,
    )


def seed_in(
    spec: BenchmarkRunSpec,
    workload: str,
    seed_of: Callable[..., int],
    *,
    run_uid: str,
    **place: Any,
) -> int:
    """Return the seed of a stage of this spec.

    `seed_of` is `stage_seed` or `probe_seed`. It is called with the place of the stage, unless all
    stages of a workload share their seed.
    """
    base = spec.measurement.seed
    if spec.measurement.cache_policy == "Share":
        return shared_seed(base=base, workload=workload)
    cache_outlives_run = run_uid if spec.endpoint is not None else None
    return seed_of(
        base=base, workload=workload, run_uid=cache_outlives_run, **place
    )


def gpus(spec: BenchmarkRunSpec) -> int:
    """Return how many GPUs all servers request.

    Resource names of all vendors count: `nvidia.com/gpu`, `amd.com/gpu`, `gpu.intel.com/i915`.
    """
    if spec.started is None:
        return 0
    if spec.server is None or spec.server.disaggregated is None:
        pods = (
            spec.server.replicas * spec.server.nodes_per_replica
            if spec.server is not None
            else 1
        )
        return gpus_of(spec.started.resources) * pods
    split = spec.server.disaggregated
    return sum(
        gpus_of(role.resources) * role.replicas
        for role in (split.prefill, split.decode)
    )


def gpus_of(resources: Resources) -> int:
    """Return how many GPUs one pod requests."""
    return sum(
        int(str(n))
        for name, n in resources.limits.items()
        if is_gpu(name) and str(n).isdigit()
    )


def most_probe_stages(spec: BenchmarkRunSpec) -> int:
    """Return the most stages that all searches together can take."""
    return sum(search.most_stages for search in searched(spec).values())


def chosen_stages(
    spec: BenchmarkRunSpec, stage_ids: Sequence[str]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Divide the stage ids of a spec: those that are measured for certain, and the others.

    With `repeats: Auto` none is certain: only the records show which were measured, and in which
    order.
    """
    if spec.until_decided:
        return (), frozenset(stage_ids)
    return tuple(stage_ids), frozenset()


def certain_stages(spec: BenchmarkRunSpec) -> list[PlannedStage]:
    """Return the stages that a run measures for certain: with `repeats: Auto` the first repeat."""
    planned = planned_stages(spec, run_uid="")
    return [s for s in planned if s.repeat == 1 or not spec.until_decided]


def estimate(spec: BenchmarkRunSpec) -> Estimate:
    """Estimate stages, requests and the least GPU seconds of a run.

    An open loop of n requests at rate r lasts at least n / r. A search counts with the most stages
    and requests that it can take, and so does `repeats: Auto`. Its time is not counted, because it
    depends on the server.
    """
    planned = planned_stages(spec, run_uid="")
    requests = sum(s.requests for s in planned)
    lasting = [
        each
        for s in certain_stages(spec)
        if (each := s.load.least_seconds(s.requests)) is not None
    ]
    seconds = sum(lasting, Decimal(0))
    known = bool(lasting) and gpus(spec) > 0
    probe_requests = sum(
        s.most_stages * w.requests_at(load)
        for w in spec.workloads
        if (s := w.load.search)
        for load in w.load.highest
    )
    return Estimate(
        stages=len(planned) + most_probe_stages(spec),
        requests=min(requests, spec.budget_requests)
        if spec.until_decided
        else requests + probe_requests,
        gpu_seconds=int(seconds.to_integral_value(rounding=ROUND_CEILING))
        * gpus(spec)
        if known
        else None,
    )


def searched(spec: BenchmarkRunSpec) -> dict[str, Search]:
    """Return the searches for the highest load by workload, in the order of the spec."""
    return {
        workload.name: search
        for workload in spec.workloads
        if (search := workload.load.search) is not None
    }


def measured_load_points(
    spec: BenchmarkRunSpec, records: Iterable[contract.StageRecord]
) -> tuple[LoadPoint, ...]:
    """Return the load points of a run, also those that only its records show.

    With `repeats: Auto` each has all repeats up to the last that has a record, even if some are
    missing, and at least one.
    """
    if not spec.until_decided:
        return (*load_points(spec), *probed_load_points(spec, records))
    here = {record.stage_id for record in records}
    found = []
    for load_point in load_points(spec):
        last = max(
            (n for n, stage in enumerate(load_point.stage_ids, 1) if stage in here),
            default=1,
        )
        found.append(replace(load_point, stage_ids=load_point.stage_ids[:last]))
    return tuple(found)


def probed_load_points(
    spec: BenchmarkRunSpec, records: Iterable[contract.StageRecord]
) -> tuple[LoadPoint, ...]:
    """Return a load point for each load that a search measured, by rising load.

    Each has all repeats up to the last, even if some are missing. A load that was confirmed has two
    load points: the first measurement, and its confirmation.
    """
    probes: dict[str, dict[int, contract.StageRecord]] = {
        name: {} for name in searched(spec)
    }
    if not probes:
        return ()
    repeats: dict[tuple[str, int], int] = {}
    for record in records:
        place = contract.open_stage(record.stage_id)
        if record.probe is None or place is None or place[0] not in probes:
            continue
        name, probe, repeat = place
        probes[name].setdefault(probe, record)
        repeats[name, probe] = max(repeat, repeats.get((name, probe), 0))
    return tuple(
        _probed_load_point(name, probe, record, repeats=repeats[name, probe])
        for name, of in probes.items()
        for probe, record in sorted(
            of.items(), key=lambda each: Decimal(each[1].load.value)
        )
    )


def _probed_load_point(
    name: str, probe: int, record: contract.StageRecord, *, repeats: int
) -> LoadPoint:
    """Return the load point of a search's stage; `record` may be that of any of its repeats."""
    stages = tuple(
        contract.open_stage_id(name, probe, repeat)
        for repeat in range(1, repeats + 1)
    )
    confirms = record.probe is not None and record.probe.confirms
    return LoadPoint(probed_id(name, record), name, record.load, stages, confirms)


def probed_id(workload: str, record: contract.StageRecord) -> str:
    """Return the id of the load point that the record of a search's stage belongs to."""
    load_point = load_point_id(workload, record.load.label)
    confirms = record.probe is not None and record.probe.confirms
    return confirmation_id(load_point) if confirms else load_point


def objective_error(spec: BenchmarkRunSpec, load_point: LoadPoint) -> float:
    """Return the largest probability that one test calls a missed objective Met.

    It is smaller at a load point that confirms the result of a search, because one search may test
    several of them, and where a load point is looked at several times.
    """
    if spec.until_decided:
        return contract.look_error(contract.looks_within(spec.most_repeats))
    search = searched(spec).get(load_point.workload)
    is_confirmation = search is not None and load_point.confirms
    return contract.CONFIRMATION_ERROR if is_confirmation else contract.ERROR


def problem_with(
    envelope: contract.Envelope,
    stage_ids: Sequence[str],
    searches: Sequence[contract.SearchPlan],
    repeated: Set[str] = frozenset(),
) -> str | None:
    """Return why a record belongs to none of these stages and to none of the searches after them.

    `repeated` has the stages that there may be where load points are repeated until they are
    decided. Return None if its envelope is valid.
    """
    if repeated:
        return _problem_with_repeat(envelope, repeated)
    listed = len(stage_ids)
    if envelope.sequence < listed:
        if envelope.stage_id != (planned := stage_ids[envelope.sequence]):
            return f"the record is of stage {envelope.stage_id!r}, where the plan has {planned!r}"
        return (
            None
            if envelope.ends_search is None
            else "the record ends a search, but its stage does not belong to a search"
        )
    most = listed + sum(search.most_stages for search in searches)
    if envelope.sequence >= most:
        return (
            f"the record's number is too high: the plan has {most} stages"
            if listed == most
            else f"the record's number is too high: the plan has at most {most} stages"
        )
    place = contract.open_stage(envelope.stage_id)
    search = next(
        (s for s in searches if place is not None and s.workload == place[0]), None
    )
    is_spelled_so = (
        place is not None and contract.open_stage_id(*place) == envelope.stage_id
    )
    if place is None or search is None or not is_spelled_so:
        return (
            f"stage {envelope.stage_id!r} does not belong to a search of the plan"
        )
    _, probe, repeat = place
    if (probe, repeat) not in search.places:
        return (
            f"stage {envelope.stage_id} is none of the search's {search.max_probes} probes and "
            f"{contract.CONFIRMATIONS} confirmations of {search.max_repeats} stages"
        )
    if envelope.ends_search not in (None, search.workload):
        return f"stage {envelope.stage_id} can't end the search of {envelope.ends_search!r}"
    return None


def _problem_with_repeat(
    envelope: contract.Envelope, repeated: Set[str]
) -> str | None:
    if envelope.stage_id not in repeated:
        return f"stage {envelope.stage_id!r} is none of the plan"
    if envelope.sequence >= len(repeated):
        return f"the record's number is too high: the plan has at most {len(repeated)} stages"
    workload = envelope.stage_id.partition("/")[0]
    if envelope.ends_search not in (None, workload):
        return f"stage {envelope.stage_id} can't end what is measured of {envelope.ends_search!r}"
    return None
