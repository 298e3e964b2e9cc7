"""Whether runs may be compared at all: what must be the same on both sides, where model and dataset come from included."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from benchrun_client.contract import HuggingFaceData

from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus, ModelSource, Result, Workload, datasets_of, is_true
from benchrun.judge.objectives import TRUSTED
from benchrun.observe.views import Run


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What was asked and what came out. One with a server of its own stands for one *fresh server*."""

    name: str
    uid: str
    spec: BenchmarkRunSpec
    status: BenchmarkRunStatus

    @property
    def ended_well(self) -> bool:
        """Whether it was measured to its end. Figures of a run that failed were taken on a server in trouble."""
        return self.status.completion_time is not None and not is_true(self.status.conditions, "Failed")

    def row(self, cell: str) -> Result | None:
        """The results of a cell, if it has that cell."""
        return next((row for row in self.status.results if row.cell == cell), None)

    def workload(self, name: str) -> Workload | None:
        """The workload of that name."""
        return next((workload for workload in self.spec.workloads if workload.name == name), None)


def measured_run(run: Run) -> MeasuredRun:
    """A run as the cluster holds it. Raises ValueError where its spec or status is not of this version."""
    return MeasuredRun(
        name=run.name,
        uid=run.uid,
        spec=BenchmarkRunSpec.model_validate(run.spec),
        status=BenchmarkRunStatus.model_validate(run.status),
    )


def results_digest(run: Run) -> str:
    """Of the results as they are written: later it can be told whether they are still those that were compared with."""
    text = json.dumps(run.status.get("results", []), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


Runs = Sequence[MeasuredRun]


def content_differs(cell: str, runs: Runs) -> str | None:
    """Why the dataset's file can't have held the same in all of them; None: nothing speaks against it.

    Runs that ask for the same, by the same seed, send the same, unless what they read differs: their digests tell.
    """
    for one, other in _with_files(cell.partition("/")[0], runs):
        sent = (_traffic(one, cell), _traffic(other, cell))
        if _send_the_same(one, other) and None not in sent and sent[0] != sent[1]:
            return f"the dataset's file does not hold the same in {one.name} and {other.name}"
    return None


def unknown_origins(runs: Runs) -> list[str]:
    """What may differ by where it came from and can't be told; each in a few words."""
    sources = {source_text(run.spec.model.source): run.name for run in runs}
    differing = [f"the model comes from {' and from '.join(f'{text} in {name}' for text, name in sources.items())}"]
    names = dict.fromkeys(workload.name for run in runs for workload in run.spec.workloads)
    pairs = [pair for name in names for pair in _with_files(name, runs)]
    blind = any(not _send_the_same(one, other) for one, other in pairs)
    files = ["nothing tells whether the dataset's file held the same on both sides"] if blind else []
    return [*(differing if len(sources) > 1 else ()), *files]


def source_text(source: ModelSource) -> str:
    """In a few words: "claim weights/qwen"."""
    if source.pvc is not None:
        return f"claim {source.pvc.claim_name}{f'/{source.pvc.path}' if source.pvc.path else ''}"
    if source.image_volume is not None:
        return f"artifact {source.image_volume.reference}{f' {source.image_volume.path}' if source.image_volume.path else ''}"
    return f"path {source.path.path}" if source.path is not None else "the hub"


def _with_files(workload: str, runs: Runs) -> list[tuple[MeasuredRun, MeasuredRun]]:
    """Pairs of runs whose workload of that name reads a file."""
    reading = [run for run in runs if (found := run.workload(workload)) is not None and _has_file(found, run.spec)]
    return list(combinations(reading, 2))


def _has_file(workload: Workload, spec: BenchmarkRunSpec) -> bool:
    parts = datasets_of(workload, spec.workloads)
    return any(part.file is not None or isinstance(part.single, HuggingFaceData) for part in parts)


def _send_the_same(one: MeasuredRun, other: MeasuredRun) -> bool:
    """Whether equal files make equal traffic. Which rows a stage gets depends on all workloads; at an endpoint the run's uid is
    a part of the seed, but for the policy Share."""
    first, second = one.spec, other.spec
    keyed = any(spec.endpoint is not None for spec in (first, second)) and first.measurement.cache_policy != "Share"
    asked = [
        (spec.workloads, spec.repeats, spec.measurement.seed, spec.measurement.cache_policy) for spec in (first, second)
    ]
    return not keyed and asked[0] == asked[1]


def _traffic(run: MeasuredRun, cell: str) -> str | None:
    row = run.row(cell)
    return row.traffic if row is not None else None


# Server image, arguments and environment may differ from side to side: they are the experiment. Within a side they may not.

Side = Sequence[MeasuredRun]


def obstacle(baseline: Side, candidate: Side, *, swept: bool = False) -> str | None:
    """Why none of their figures may be compared; None: they may. What a sweep varies on purpose is no obstacle there."""
    checks = (check for check in _CHECKS if not (swept and check in _VARIED_BY_SWEEPS))
    return next((reason for check in checks if (reason := check(baseline, candidate)) is not None), None)


def cell_obstacle(cell: str, baseline: Side, candidate: Side) -> str | None:
    """Why this cell may not be compared; None: it may."""
    runs = (*baseline, *candidate)
    for run in runs:
        row = run.row(cell)
        if row is None:
            return f"{run.name} has no such load point in its results"
        if row.verdict not in TRUSTED:
            return f"{row.verdict} in {run.name}"
    return _traffic_differs(cell.partition("/")[0], runs) or content_differs(cell, runs)


def unknowns(baseline: Side, candidate: Side) -> list[str]:
    """What should be the same and can't be told; each in a few words."""
    runs = (*baseline, *candidate)
    nodes = {server.node for run in runs for server in run.status.servers}
    blind = any(server.gpus and server.gpu is None for run in runs for server in run.status.servers)
    kind = ["the kind of GPU is not known on every side"] if blind and (len(nodes) > 1 or None in nodes) else []
    return [*kind, *unknown_origins(runs)]


def _twice(baseline: Side, candidate: Side) -> str | None:
    uids = [run.uid for run in (*baseline, *candidate)]
    found = next((run.name for run in (*baseline, *candidate) if uids.count(run.uid) > 1), None)
    return None if found is None else f"{found} is named twice: a run says nothing of its own noise"


def _unfinished(baseline: Side, candidate: Side) -> str | None:
    for run in (*baseline, *candidate):
        if run.status.completion_time is None:
            return f"{run.name} has not finished"
        if not run.ended_well:
            return f"{run.name} did not measure to its end ({run.status.phase or 'Failed'})"
    return None


def _lopsided(baseline: Side, candidate: Side) -> str | None:
    if min(len(baseline), len(candidate)) > 1 or len(baseline) == len(candidate) == 1:
        return None
    return "one run against several: take one run a side, or at least two"


def _mixed_side(baseline: Side, candidate: Side) -> str | None:
    for side in (baseline, candidate):
        first, *others = side
        for run in others:
            if (run.spec.started, run.spec.endpoint) != (first.spec.started, first.spec.endpoint):
                return f"{first.name} and {run.name} stand on one side and differ in their server"
    return None


def _same(what: str, of: Callable[[MeasuredRun], object]) -> Callable[[Side, Side], str | None]:
    """A check that every run has the same, where it is known."""

    def check(baseline: Side, candidate: Side) -> str | None:
        known = [(run.name, value) for run in (*baseline, *candidate) if (value := of(run)) is not None]
        differing = next(((name, value) for name, value in known if value != known[0][1]), None)
        if differing is None:
            return None
        return f"{what}: {known[0][1]} in {known[0][0]}, {differing[1]} in {differing[0]}"[:300]

    return check


def _model(run: MeasuredRun) -> str:
    return f"{run.spec.model.name}@{run.spec.model.revision}" if run.spec.model.revision else run.spec.model.name


def _kind_of_server(run: MeasuredRun) -> str:
    return "a fresh server" if run.spec.started is not None else "an endpoint"


def _gpus(run: MeasuredRun) -> int | None:
    """All devices; None behind an endpoint, where nobody counts."""
    servers = run.status.servers
    return None if run.spec.started is None or not servers else sum(server.gpus for server in servers)


def _gpu(run: MeasuredRun) -> str | None:
    return ", ".join(sorted({server.gpu for server in run.status.servers if server.gpu})) or None


def _engine(run: MeasuredRun) -> str | None:
    client = run.status.client
    return None if client is None or client.engine is None else f"{client.engine} {client.engine_version or ''}".strip()


def _client_image(run: MeasuredRun) -> str | None:
    client = run.status.client
    return None if client is None else client.image_digest or client.image


def _warm_up(run: MeasuredRun) -> str:
    return "none" if run.spec.measurement.warmup.none is not None else "auto"


_SAME_MODEL = _same("model", _model)
_SAME_GPUS = _same("GPUs", _gpus)
_SAME_TOKENIZER = _same("tokenizer", lambda run: run.spec.model.tokenizer or "the model's own")
_VARIED_BY_SWEEPS = (_SAME_MODEL, _SAME_TOKENIZER, _SAME_GPUS)
_CHECKS: tuple[Callable[[Side, Side], str | None], ...] = (
    _twice,
    _unfinished,
    _lopsided,
    _mixed_side,
    _SAME_MODEL,
    _SAME_TOKENIZER,
    _same("server", _kind_of_server),
    _SAME_GPUS,
    _same("GPU", _gpu),
    _same("client engine", _engine),
    _same("client image", _client_image),
    _same("cache policy", lambda run: run.spec.measurement.cache_policy),
    _same("warm-up", _warm_up),
)


def _traffic_differs(workload: str, runs: Side) -> str | None:
    """Everything of the workload but its list of load points."""
    sides = [(run, found) for run in runs if (found := run.workload(workload)) is not None]
    (first_run, first), *others = sides
    for run, other in others:
        same_datasets = _datasets(first, first_run.spec) == _datasets(other, run.spec)
        differing = ["dataset"] if not same_datasets else [what for what, of in _TRAFFIC if of(first) != of(other)]
        if differing:
            return f"{differing[0]} differs between {first_run.name} and {run.name}"
    return None


def _datasets(workload: Workload, spec: BenchmarkRunSpec) -> object:
    """What is sent, whatever the parts of a mix are called, and in which proportion."""
    return datasets_of(workload, spec.workloads), [part.weight for part in workload.dataset.mix or ()]


_TRAFFIC: tuple[tuple[str, Callable[[Workload], object]], ...] = (
    ("api", lambda workload: workload.api),
    ("ignoreEOS", lambda workload: workload.ignore_eos),
    ("maxConcurrency", lambda workload: workload.load.max_concurrency),
    ("burstiness", lambda workload: float(workload.load.burstiness or "1")),
    ("the number of requests", lambda workload: (workload.requests, workload.duration_seconds)),
)
