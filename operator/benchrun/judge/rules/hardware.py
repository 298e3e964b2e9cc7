"""Rules on GPUs and CPUs of the run's servers that slow down, fail or are shared.

They look at GPU clocks, GPU errors, other pods on the same GPU, and throttling at a CPU limit. If
the run starts no server with GPUs, or none with a CPU limit, the rules on them find nothing and
report nothing as missing.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from benchrun_client.engines import ENGINES, EngineSetting

from benchrun.api import Sample, ServerStatus, Severity
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    LoadPointContext,
    LoadPointRule,
    NotChecked,
    RunContext,
    RunRule,
    Sentence,
    StageFinding,
    StageRule,
)
from benchrun.judge.stage_facts import StageFacts
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import (
    groups_p_value,
    is_busy,
    known,
    renewed,
    rounded,
    throttled_percent,
    waiting_for_cpu_percent,
)

MIN_CLOCKS = 4
"""Least number of clock samples in a stage: two in its first half and two in its second."""


def gpu_slowed(stage: StageFacts) -> Found:
    """Find GPUs that were slowed down during the stage.

    Two signs count: the driver's reasons for lower clocks, and an SM clock that is lower in the
    second half of the stage than in the first. The clocks of the halves can be compared only if
    both have the same load, so this sign is not used for traces, whose load changes. A GPU lowers
    its clock without work, so samples of a server without requests do not count.
    """
    thresholds = stage.thresholds
    by_pod = renewed(stage.samples)
    read = [sample for samples in by_pod.values() for sample in samples]
    slowed, capped = (
        100 * fmean(found)
        if (found := known(getattr(sample, name) for sample in read))
        else None
        for name in ("gpu_slowed", "gpu_power_capped")
    )
    clocks = [
        known(sample.sm_clock_mhz for sample in samples if _may_work(sample))
        for samples in by_pod.values()
        if not stage.load.follows_trace
    ]
    halves = [
        (each[: len(each) // 2], each[len(each) // 2 :])
        for each in clocks
        if len(each) >= MIN_CLOCKS
    ]
    falls = (
        _change((first, second), thresholds)
        for first, second in halves
        if fmean(first) > fmean(second)
    )
    fallen = max(falls, default=_NO_CHANGE)
    severity: Severity = "Suspect"
    if (slowed or 0.0) > thresholds.gpu_slowed_suspect_percent:
        cause = "heat or hardware"
    elif fallen[0] > thresholds.gpu_clock_suspect_percent:
        cause = "the clock fell during the stage"
    elif (capped or 0.0) > thresholds.gpu_power_cap_note_percent:
        cause = "the power limit"
        severity = "Note"
    else:
        missing = []
        if not halves:
            missing.append(
                f"the GPU exporter renewed its figures fewer than {MIN_CLOCKS} times in "
                "the stage (use longer stages)"
            )
        if slowed is None:
            missing.append(
                "the GPU exporter does not say why clocks are low (add "
                "DCGM_FI_DEV_CLOCKS_EVENT_REASONS to its metrics)"
            )
        wanted = missing and any(server.gpus for server in stage.servers)
        return [NotChecked(Code.GPU_SLOWED, "; ".join(missing))] if wanted else []
    evidence: Evidence = {
        "cause": cause,
        "slowedPercent": rounded(slowed),
        "suspectSlowedPercent": thresholds.gpu_slowed_suspect_percent,
        "powerCappedPercent": rounded(capped),
        "notePercent": thresholds.gpu_power_cap_note_percent,
        **_clocks(fallen, thresholds),
    }
    return [
        StageFinding(
            Code.GPU_SLOWED,
            severity,
            stage.id,
            evidence,
            weight=max(fallen[0], slowed or 0.0),
        )
    ]


def _may_work(sample: Sample) -> bool:
    """Return whether the server had a request, or may have had one."""
    return sample.running is None or is_busy(sample)


_Change = tuple[float, float, float]
"""How far the lowest of several mean clocks is below the highest, in percent; then the highest and
the lowest in MHz. The percentage is 0 if the difference may be noise."""
_NO_CHANGE: _Change = (0.0, 0.0, 0.0)


def _change(groups: Sequence[Sequence[float]], thresholds: Thresholds) -> _Change:
    means = [fmean(group) for group in groups]
    chance = groups_p_value(groups)
    if chance is None or chance >= thresholds.gpu_clock_chance or max(means) <= 0:
        return _NO_CHANGE
    return 100 * (1 - min(means) / max(means)), max(means), min(means)


def _clocks(change: _Change, thresholds: Thresholds) -> Evidence:
    percent, high, low = map(rounded, change)
    shown = {"fromMhz": high, "toMhz": low} if percent else {}
    return {
        "clockFallPercent": percent,
        "suspectFallPercent": thresholds.gpu_clock_suspect_percent,
        **shown,
    }


def gpu_clocks_differ(load_point: LoadPointContext) -> Found:
    """Find a server whose SM clock differs between repeats of the load point.

    The same load should give the same clock.
    """
    by_pod: dict[str, list[list[float]]] = {}
    for stage in load_point.stages:
        for pod, samples in renewed(stage.samples).items():
            if clocks := known(sample.sm_clock_mhz for sample in samples):
                by_pod.setdefault(pod, []).append(clocks)
    for pod, repeats in by_pod.items():
        change = _change(repeats, load_point.thresholds)
        if change[0] > load_point.thresholds.gpu_clock_suspect_percent:
            evidence = {
                "cause": "clocks differ between repeats",
                "server": pod,
                **_clocks(change, load_point.thresholds),
            }
            return [
                StageFinding(
                    Code.GPU_SLOWED,
                    "Suspect",
                    load_point.load_point.id,
                    evidence,
                    weight=change[0],
                )
            ]
    return []


def gpus_unread(stage: StageFacts) -> Found:
    """Return NotChecked if the stage lacks figures that show GPU errors or shared GPUs.

    `gpu_errors` looks for the errors themselves, over the whole run.
    """
    if not any(server.gpus for server in stage.servers):
        return []
    if not known(sample.gpu_pods for sample in stage.samples):
        codes = (Code.GPU_ERRORS, Code.GPU_SHARED)
        return [
            NotChecked(
                code,
                "no figures of the servers' GPUs were read (enable gpuTelemetry in the chart)",
            )
            for code in codes
        ]
    read = {figure for _, figure in stage.gpus}
    unread = [_ERRORS[figure][0] for figure in _ERRORS if figure not in read]
    return (
        [
            NotChecked(
                Code.GPU_ERRORS, f"the GPU exporter lacks: {', '.join(unread)}"
            )
        ]
        if unread
        else []
    )


XID = "gpu_xid"
_ERRORS: Mapping[str, tuple[str, Severity]] = {
    "gpu_memory_errors": ("Uncorrected memory errors", "Invalid"),
    XID: ("The last XID error", "Suspect"),
}


def gpu_errors(run: RunContext) -> Found:
    """Find GPU errors that occurred after the first stage began.

    A finding names the load point in which the error was first seen.
    """
    stages = [
        (stage, load_point_id)
        for load_point_id, of_load_point in run.load_points.items()
        for stage in of_load_point
    ]
    known: dict[tuple[str, str], float] = {}
    for stage, load_point_id in sorted(stages, key=lambda each: each[0].sequence):
        for (pod, figure), values in stage.gpus.items():
            error, severity = _ERRORS[figure]
            before = known.get((pod, figure), values[0])
            news = _new_xid if figure == XID else _new_count
            after, known[pod, figure] = news(before, values)
            if after is not None:
                where = {"error": error, "server": pod, "stage": stage.stage_id}
                evidence: Evidence = {**where, "before": before, "after": after}
                yield StageFinding(
                    Code.GPU_ERRORS, severity, load_point_id, evidence, weight=after
                )


def _new_xid(known: float, values: Sequence[float]) -> tuple[float | None, float]:
    """Return the last new XID, or None, and the XID to compare later values with.

    An XID is NVIDIA's number for a kind of GPU error; 0 means that the driver was loaded anew.
    `values` are the XIDs that were read in a stage, `known` is the last one before it.
    """
    new = [value for value in values if value not in (0, known)]
    return (new[-1], new[-1]) if new else (None, known)


def _new_count(known: float, values: Sequence[float]) -> tuple[float | None, float]:
    """Return the last value that is above the one before it, or None, and the latest value.

    A value that is below the one before it is a counter that restarted, as after a reset of the
    GPU.
    """
    new = None
    for value in values:
        new = value if value > known else new
        known = value
    return new, known


def gpu_shared(stage: StageFacts) -> Found:
    """Find a GPU that several pods share, or that has more memory in use than the servers take."""
    pods = max(known(sample.gpu_pods for sample in stage.samples), default=0.0)
    if pods > 1:
        return [
            StageFinding(
                Code.GPU_SHARED, "Suspect", stage.id, {"pods": pods}, weight=pods
            )
        ]
    used = max(
        known(sample.gpu_memory_mib for sample in stage.samples), default=0.0
    )
    total = max(
        known(sample.gpu_memory_total_mib for sample in stage.samples), default=0.0
    )
    shares = [_memory_share(server) for server in stage.servers if server.gpus]
    if pods and (not total or None in shares):
        return [
            NotChecked(
                Code.GPU_SHARED,
                "the GPUs' memory, or the share of this memory that the servers take, "
                "is unknown",
            )
        ]
    thresholds = stage.thresholds
    share = max(known(shares), default=1.0)
    margin = max(
        thresholds.gpu_memory_margin_mib,
        thresholds.gpu_memory_margin_percent / 100 * total,
    )
    suspect = round(share * total + margin)
    evidence: Evidence = {
        "usedMib": used,
        "suspectMib": suspect,
        "totalMib": total,
        "utilization": share,
    }
    return (
        [StageFinding(Code.GPU_SHARED, "Suspect", stage.id, evidence, weight=used)]
        if pods and used > suspect
        else []
    )


def _memory_share(server: ServerStatus) -> float | None:
    """Return the share of a GPU's memory that a server takes, from the settings that it reports.

    Return None if the share is unknown, or if the KV cache has a fixed size instead of a share.
    """
    engine = ENGINES[server.engine]
    if engine.reported(EngineSetting.KV_CACHE_BYTES, server.reported) is not None:
        return None
    try:
        return float(
            engine.reported(EngineSetting.MEMORY_SHARE, server.reported) or ""
        )
    except ValueError:
        return None


def server_throttled(stage: StageFacts) -> Found:
    """Find the server that was throttled most, or that waited longest for a CPU core.

    Only a server with a CPU limit can be throttled. Return NotChecked if the CPU periods of such a
    server were not read.
    """
    throttled = throttled_percent(stage.samples)
    waiting = waiting_for_cpu_percent(stage.samples)
    kinds = (
        ("throttledPercent", throttled, stage.thresholds.throttled_suspect_percent),
        ("waitingPercent", waiting, stage.thresholds.cpu_waiting_suspect_percent),
    )
    if every := [
        (most, pod, key, line)
        for key, of, line in kinds
        for pod, most in of.items()
        if most > line
    ]:
        percent, pod, key, line = max(every)
        evidence: Evidence = {
            "server": pod,
            key: rounded(percent),
            "suspectPercent": line,
        }
        return [
            StageFinding(
                Code.SERVER_THROTTLED, "Suspect", stage.id, evidence, weight=percent
            )
        ]
    limited = sum(
        stage.expected.servers.get(role, 0) for role in stage.expected.cpu_limited
    )
    why = f"CPU throttling was read for only {len(throttled)} of {limited} servers with a CPU limit"
    return (
        [NotChecked(Code.SERVER_THROTTLED, why)] if len(throttled) < limited else []
    )


STAGE_RULES: tuple[StageRule, ...] = (
    gpu_slowed,
    gpu_shared,
    gpus_unread,
    server_throttled,
)
LOAD_POINT_RULES: tuple[LoadPointRule, ...] = (gpu_clocks_differ,)
RUN_RULES: tuple[RunRule, ...] = (gpu_errors,)
SENTENCES: Mapping[Code, Sentence] = {
    Code.GPU_ERRORS: (
        "{error} of the GPUs of {server} went from {before} to {after}, first "
        "seen in {stage}."
    ),
    Code.GPU_SHARED: (
        "[{pods} pods use one GPU.][{usedMib} of {totalMib} MiB of a GPU are in "
        "use (threshold {suspectMib} MiB, with --gpu-memory-utilization "
        "{utilization}).]"
    ),
    Code.GPU_SLOWED: (
        "GPU clocks: {cause}[; slowed for heat or by hardware in {slowedPercent} "
        "% of the samples (threshold {suspectSlowedPercent} %)][; at the power "
        "limit in {powerCappedPercent} % (threshold {notePercent} %)][; SM clock "
        "from {fromMhz} to {toMhz} MHz, {clockFallPercent} % (threshold "
        "{suspectFallPercent} %)]."
    ),
    Code.SERVER_THROTTLED: (
        "{server}[ reached its CPU limit in {throttledPercent} % of its CPU "
        "periods][ waited for a core in {waitingPercent} % of the time] "
        "(threshold {suspectPercent} %)."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.GPU_ERRORS: needs(Input.GPU),
    Code.GPU_SHARED: needs(Input.GPU),
    Code.GPU_SLOWED: needs(Input.GPU),
    Code.SERVER_THROTTLED: needs(Input.SERVER_CPU),
}
