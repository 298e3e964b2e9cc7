"""Where model and dataset come from: what a spec names without saying what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from benchrun.api.datasets.union import file_of, parts_of
from benchrun.api.model_source import ModelSource
from benchrun.api.workloads import Workload
from benchrun.judge.comparison.runs import MeasuredRun

Runs = Sequence[MeasuredRun]


def content_differs(cell: str, runs: Runs) -> str | None:
    """Why the dataset's file can't have held the same in all of them; None: nothing speaks against it.

    Runs that ask for the same, by the same seed, send the same, unless what they read differs: their digests tell.
    """
    for one, other in _reading_a_file(cell.partition("/")[0], runs):
        sent = (_traffic(one, cell), _traffic(other, cell))
        if _send_the_same(one, other) and None not in sent and sent[0] != sent[1]:
            return f"the dataset's file does not hold the same in {one.name} and {other.name}"
    return None


def unknown_origins(runs: Runs) -> list[str]:
    """What may differ by where it came from and can't be told; each in a few words."""
    sources = {source_text(run.spec.model.source): run.name for run in runs}
    told = [f"the model comes from {' and from '.join(f'{text} in {name}' for text, name in sources.items())}"]
    names = dict.fromkeys(workload.name for run in runs for workload in run.spec.workloads)
    pairs = [pair for name in names for pair in _reading_a_file(name, runs)]
    blind = any(not _send_the_same(one, other) for one, other in pairs)
    files = ["nothing tells whether the dataset's file held the same on both sides"] if blind else []
    return [*(told if len(sources) > 1 else ()), *files]


def source_text(source: ModelSource) -> str:
    """In a few words: "claim weights/qwen"."""
    if source.pvc is not None:
        return f"claim {source.pvc.claim_name}{f'/{source.pvc.path}' if source.pvc.path else ''}"
    if source.image_volume is not None:
        return f"artifact {source.image_volume.reference}{f' {source.image_volume.path}' if source.image_volume.path else ''}"
    return f"path {source.path.path}" if source.path is not None else "the hub"


def _reading_a_file(workload: str, runs: Runs) -> list[tuple[MeasuredRun, MeasuredRun]]:
    """Pairs of runs whose workload of that name reads a file."""
    reading = [run for run in runs if (found := run.workload(workload)) is not None and _has_file(found)]
    return list(combinations(reading, 2))


def _has_file(workload: Workload) -> bool:
    return any(file_of(part) is not None or part.hugging_face is not None for part in parts_of(workload.dataset))


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
