"""Rows of InferenceX (formerly InferenceMAX), one a cell: throughput per GPU against tokens a second for each user.

https://github.com/SemiAnalysisAI/InferenceX, utils/process_result.py makes such a row of vLLM's result file; the site reads
a list of them. Fields whose name says nothing of a unit are in seconds. A row stands for a closed loop of `conc` users with
prompts and answers of fixed length; other load points are no rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchrun.measure.cells import rounded, totals
from benchrun.measure.intervals import percentile_interval
from benchrun.measure.percentiles import Distribution
from benchrun.report.export.exported import TRUSTED, ExportedRun, ExportedStage, pools
from benchrun.report.export.files import Json
from benchrun.report.export.inferencex_topology import shares, topology
from benchrun.report.export.server_flags import flags_of, speculative_method
from benchrun.report.export.units import seconds

SETTABLE = ("hw", "precision", "infmax_model_prefix", "framework", "spec_decoding")
"""Fields that a run may not know of itself."""
_PERCENTILES = ("90", "99", "99.9")
_GPU = re.compile(r"(?:^|[^A-Za-z0-9])(GB\d{3}|[BH]\d{3}|MI\d{3}[A-Z]?)(?![A-Za-z0-9])", re.IGNORECASE)


def rows(run: ExportedRun, fields: Mapping[str, str]) -> list[Json]:
    """`fields` are those of SETTABLE that somebody knows better than the run. What is not known is null."""
    return [
        {**_setting(run, stages), **fields, **_figures(run, stages), **_judged(stages)}
        for _, stages in run.cells()
        if _unfit(run, stages) is None
    ]


def unknown_fields(run: ExportedRun, fields: Mapping[str, str]) -> list[str]:
    """Those of SETTABLE that the site asks for and nobody told."""
    known = {"hw": _hardware(run), "precision": None} | dict(fields)
    return [name for name, value in known.items() if value is None]


def unfit(run: ExportedRun) -> Mapping[str, str]:
    """Cells that are no rows, and why."""
    return {cell: why for cell, stages in run.cells() if (why := _unfit(run, stages)) is not None}


def _unfit(run: ExportedRun, stages: Sequence[ExportedStage]) -> str | None:
    first = stages[0]
    if first.max_concurrency is None or first.request_rate is not None:
        return "InferenceX knows closed loops only: concurrencies, or the rate inf under maxConcurrency"
    if first.workload.dataset.random is None:
        return "InferenceX knows prompts and answers of fixed length only: the dataset random"
    return None


def _setting(run: ExportedRun, stages: Sequence[ExportedStage]) -> Json:
    lengths = stages[0].workload.dataset.random
    return {
        "hw": _hardware(run),
        "conc": stages[0].max_concurrency,
        "image": run.spec.started.image if run.spec.started is not None else None,
        "model": run.spec.model.name,
        "infmax_model_prefix": None,
        "framework": "vllm",
        "precision": None,
        "spec_decoding": speculative_method(flags_of(run)) if run.spec.started is not None else None,
        "isl": lengths.input_tokens if lengths is not None else None,
        "osl": lengths.output_tokens if lengths is not None else None,
        **topology(run),
    }


def _figures(run: ExportedRun, stages: Sequence[ExportedStage]) -> Json:
    measured = totals([stage.record for stage in stages])
    output, total = measured["output_throughput"], measured["total_token_throughput"]
    prompts = total - output if total is not None and output is not None else None
    gpus = shares(run)
    found: Json = {
        "tput_per_gpu": _per_gpu(total, gpus.every),
        "output_tput_per_gpu": _per_gpu(output, gpus.answers),
        "input_tput_per_gpu": _per_gpu(prompts, gpus.prompts),
    }
    for latency, pool in pools(stages).items():
        found |= _latencies(pool, latency)
    return found


def _per_gpu(tokens_per_second: float | None, gpus: int | None) -> float | None:
    return rounded(tokens_per_second / gpus) if tokens_per_second is not None and gpus else None


def _latencies(pool: Distribution, latency: str) -> Json:
    """A percentile that so few requests can't bound is left out: the row has no mark for it."""
    levels = {"mean": pool.mean(), "median": pool.percentile(50)}
    levels |= {
        f"p{p}": pool.percentile(float(p)) for p in _PERCENTILES if percentile_interval(pool, float(p)) is not None
    }
    found: Json = {f"{name}_{latency}": seconds(us) for name, us in levels.items() if us is not None}
    deviation = pool.deviation()
    if deviation is not None:
        found[f"std_{latency}"] = seconds(deviation)
    if latency == "tpot":
        # Tokens a second for each user. The reciprocal of a deviation would mean nothing.
        found |= {f"{name}_intvty": rounded(1e6 / us) for name, us in levels.items() if us}
    return found


def _judged(stages: Sequence[ExportedStage]) -> Json:
    """`benchmark_outcome` keeps the site from drawing a point that can't be trusted."""
    verdict = stages[0].verdict
    outcome = {} if verdict in TRUSTED else {"benchmark_outcome": {"status": "failed"}}
    return {"verdict": verdict, "findings": ",".join(stages[0].findings), **outcome}


def _hardware(run: ExportedRun) -> str | None:
    """`h100` of `NVIDIA-H100-80GB-HBM3`."""
    said = run.server.gpu if run.server is not None else None
    found = _GPU.search(said) if said is not None else None
    return found[1].lower() if found is not None else None
