"""Whether so few requests can tell the percentiles that are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.workloads import Workload
from benchrun.measure.intervals import least_count, percentile_ranks
from benchrun.plan.stages import load_points, requests_of
from benchrun.preflight.remark import Remark, note, warning


def sample_remarks(spec: BenchmarkRunSpec) -> list[Remark]:
    """About percentiles, objectives and repeats."""
    remarks = []
    for place, workload in enumerate(spec.workloads):
        remarks += _workload(spec, workload, f"spec.workloads[{place}]")
    if spec.repeats == 1 and any(workload.load.search is None for workload in spec.workloads):
        remarks.append(note("spec.repeats", "1: what is noise can't be told from what is not; 3 repeats show it"))
    return remarks


def _workload(spec: BenchmarkRunSpec, workload: Workload, path: str) -> list[Remark]:
    counts = _pooled(workload, spec.repeats)
    if not counts:
        # A search is refused by the schema with too few requests, and repeats where it needs more.
        return []
    fewest = min(counts.values())
    field = f"{path}.requests" if workload.requests is not None else f"{path}.durationSeconds"
    limits: dict[str, list[str]] = {}
    for objective in spec.objectives:
        limits.setdefault(objective.percentile, []).append(f"{objective.metric} p{objective.percentile}")
    short = [p for p in _ascending({*spec.measurement.percentiles, *limits}) if _is_open(p, fewest)]
    if not short:
        return []
    remarks = [warning(field, _sentence(short, counts, spec.repeats, workload))]
    unmet = [name for percentile in short for name in limits.get(percentile, ())]
    if unmet:
        remarks.append(
            warning(
                "spec.objectives", f"with so few requests {', '.join(unmet)} can't be Met, only Missed or Inconclusive"
            )
        )
    return remarks


def _pooled(workload: Workload, repeats: int) -> Mapping[str, int]:
    """Requests of each load point, all repeats together."""
    _, values = load_points(workload.load)
    return {value: requests_of(workload, value) * repeats for value in values}


def _is_open(percentile: str, requests: int) -> bool:
    return percentile_ranks(requests, float(percentile)) is None


def _sentence(short: list[str], counts: Mapping[str, int], repeats: int, workload: Workload) -> str:
    hungriest = max(short, key=lambda percentile: least_count(float(percentile)) or 0)
    needed = least_count(float(hungriest)) or 0
    fewest = min(counts.values())
    where = "a load point" if len(set(counts.values())) == 1 else f"at {min(counts, key=lambda value: counts[value])}/s"
    product = f"{fewest // repeats:,} x {repeats} repeats = {fewest:,}" if repeats > 1 else f"{fewest:,}"
    named = ", ".join(f"p{each}" for each in short)
    a_stage = -(-needed // repeats)
    each = f", {a_stage:,} a stage" if repeats > 1 else ""
    bounded = [p for p in ("99", "95", "90", "50") if not _is_open(p, fewest) and float(p) < float(short[0])]
    best = f"; up to p{bounded[0]} can be told" if bounded else ""
    return f"{product} requests {where} give {named} no 95 % interval: p{hungriest} takes {needed:,}{each}{best}"


def _ascending(percentiles: Iterable[str]) -> list[str]:
    return sorted(percentiles, key=float)
