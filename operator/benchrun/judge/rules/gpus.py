"""GPUs of the run's servers: clocks that were lowered or fell, errors of the hardware, and others that use the same GPU.

Nothing is found, and nothing missed, where the run starts no server with GPUs.
"""

import operator
from collections.abc import Mapping, Sequence
from statistics import fmean

from benchrun.api import Severity
from benchrun.judge.rules.rule import CellContext, Code, Evidence, Found, NotChecked, Rules, RunContext, StageFinding
from benchrun.judge.stage_profile import StageProfile
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import groups_p_value, known, renewed, rounded

MIN_CLOCKS = 4  # Readings of a clock of which two begin and two end a stage.


def gpu_slowed(stage: StageProfile) -> Found:
    """The driver's reasons for lower clocks, and an SM clock that is lower in the second half of the stage than in the first."""
    thresholds, by_pod = stage.thresholds, renewed(stage.samples)
    read = [sample for samples in by_pod.values() for sample in samples]
    slowed, capped = (
        100 * fmean(found) if (found := known(getattr(sample, name) for sample in read)) else None
        for name in ("gpu_slowed", "gpu_power_capped")
    )
    clocks = [known(sample.sm_clock_mhz for sample in samples) for samples in by_pod.values()]
    halves = [(each[: len(each) // 2], each[len(each) // 2 :]) for each in clocks if len(each) >= MIN_CLOCKS]
    if slowed is None and not halves:
        why = f"the figures of the servers' GPUs were renewed fewer than {MIN_CLOCKS} times"
        return [NotChecked(Code.GPU_SLOWED, why)] if any(server.gpus for server in stage.servers) else []
    fallen = max(_change(pair, thresholds) for pair in [*halves, ()] if not pair or fmean(pair[0]) > fmean(pair[1]))
    severity: Severity = "Suspect"
    if (slowed or 0.0) > thresholds.gpu_slowed_suspect_percent:
        cause = "heat or hardware"
    elif fallen[0] > thresholds.gpu_clock_suspect_percent:
        cause = "the clock fell during the stage"
    elif (capped or 0.0) > thresholds.gpu_power_cap_note_percent:
        cause, severity = "the power limit", "Note"
    else:
        return []
    evidence: Evidence = {
        "cause": cause,
        "slowedPercent": rounded(slowed),
        "suspectSlowedPercent": thresholds.gpu_slowed_suspect_percent,
        "powerCappedPercent": rounded(capped),
        "notePercent": thresholds.gpu_power_cap_note_percent,
        **_clocks(fallen, thresholds),
    }
    return [StageFinding(Code.GPU_SLOWED, severity, stage.id, evidence, weight=max(fallen[0], slowed or 0.0))]


_Change = tuple[float, float, float]
"""By how many percent the lowest of several mean clocks is below the highest, and both in MHz; 0 where that may be noise."""


def _change(groups: Sequence[Sequence[float]], thresholds: Thresholds) -> _Change:
    means, chance = [fmean(group) for group in groups], groups_p_value(groups)
    if chance is None or chance >= thresholds.gpu_clock_chance or max(means) <= 0:
        return 0.0, 0.0, 0.0
    return 100 * (1 - min(means) / max(means)), max(means), min(means)


def _clocks(change: _Change, thresholds: Thresholds) -> Evidence:
    percent, high, low = map(rounded, change)
    shown = {"fromMhz": high, "toMhz": low} if percent else {}
    return {"clockFallPercent": percent, "suspectFallPercent": thresholds.gpu_clock_suspect_percent, **shown}


def gpu_clocks_differ(cell: CellContext) -> Found:
    """The SM clock of a server in one repeat of the cell, against that in another: the same load gives the same clock."""
    by_pod: dict[str, list[list[float]]] = {}
    for stage in cell.stages:
        for pod, samples in renewed(stage.samples).items():
            if clocks := known(sample.sm_clock_mhz for sample in samples):
                by_pod.setdefault(pod, []).append(clocks)
    for pod, repeats in by_pod.items():
        change = _change(repeats, cell.thresholds)
        if change[0] > cell.thresholds.gpu_clock_suspect_percent:
            evidence = {"cause": "clocks differ between repeats", "server": pod, **_clocks(change, cell.thresholds)}
            return [StageFinding(Code.GPU_SLOWED, "Suspect", cell.cell.id, evidence, weight=change[0])]
    return []


def gpus_unread(stage: StageProfile) -> Found:
    """Errors are looked for over the whole run: here only whether they could have been seen."""
    if not any(server.gpus for server in stage.servers):
        return []
    codes = [] if stage.gpus else [Code.GPU_ERRORS]
    codes += [] if known(sample.gpu_pods for sample in stage.samples) else [Code.GPU_SHARED]
    return [NotChecked(code, "no figures of the servers' GPUs were read") for code in codes]


XID = "gpu_xid"
_ERRORS: Mapping[str, tuple[str, Severity]] = {
    "gpu_memory_errors": ("Uncorrected memory errors", "Invalid"),
    XID: ("The last XID error", "Suspect"),
}


def gpu_errors(run: RunContext) -> Found:
    """Errors that were not there when the first stage began. A finding names the cell in which they were first seen."""
    stages = [(stage, cell_id) for cell_id, of_cell in run.cells.items() for stage in of_cell]
    level: dict[tuple[str, str], float] = {}
    for stage, cell_id in sorted(stages, key=lambda each: each[0].sequence):
        for (pod, figure), values in stage.gpus.items():
            before, (error, severity) = level.setdefault((pod, figure), values[0]), _ERRORS[figure]
            # The number of an XID says which error it is; 0 is a driver that was loaded anew.
            is_new = (lambda value, old: value not in (0, old)) if figure == XID else operator.gt
            if after := [value for value in values if is_new(value, before)]:
                level[pod, figure] = after[-1]
                where = {"error": error, "server": pod, "stage": stage.stage_id}
                evidence: Evidence = {**where, "before": before, "after": after[-1]}
                yield StageFinding(Code.GPU_ERRORS, severity, cell_id, evidence, weight=after[-1])


def gpu_shared(stage: StageProfile) -> Found:
    """Several pods on one GPU, or on one slice of it."""
    pods = max(known(sample.gpu_pods for sample in stage.samples), default=0.0)
    return [StageFinding(Code.GPU_SHARED, "Suspect", stage.id, {"pods": pods}, weight=pods)] if pods > 1 else []


RULES = Rules(
    of_stages={272: gpu_slowed, 274: gpu_shared, 276: gpus_unread},
    of_cells=(gpu_clocks_differ,),
    of_runs=(gpu_errors,),
    sentences={
        (95, Code.GPU_ERRORS): "{error} of the GPUs of {server} went from {before} to {after}, first seen in {stage}.",
        (235, Code.GPU_SHARED): "{pods} pods use one GPU.",
        (245, Code.GPU_SLOWED): "GPU clocks: {cause}[; slowed for heat or by hardware in {slowedPercent} % of the "
        "samples (threshold {suspectSlowedPercent} %)][; at the power limit in {powerCappedPercent} % (threshold {notePercent} %)]"
        "[; SM clock from {fromMhz} to {toMhz} MHz, {clockFallPercent} % (threshold {suspectFallPercent} %)].",
    },
)
