"""Records of the PyTorch OSS benchmark database (v3), one a figure and cell, its values one a repeat.

https://github.com/pytorch/pytorch/wiki/How-to-integrate-with-PyTorch-OSS-benchmark-database. The figures are the load engine's
own under the names that vLLM gives them there. Whoever uploads adds repository, commit and job (pytorch/test-infra's action).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchrun.judge.certainty import certainty
from benchrun.measure.cells import LATENCIES, percentile_word
from benchrun.report.export.engine_figures import engine_figures
from benchrun.report.export.exported import TRUSTED, ExportedRun, ExportedStage, pools, server_version
from benchrun.report.export.files import Json, without_unknown
from benchrun.report.export.server_flags import flags_of

BENCHMARK = "vLLM benchmark"
"""The name that the dashboard of vLLM asks for."""
_THROUGHPUTS = ("request_throughput", "output_throughput", "total_token_throughput")


def records(run: ExportedRun) -> list[Json]:
    """All figures of all cells. A figure that no repeat has is left out, and so is a repeat that has not this one."""
    return [record for _, stages in run.cells() for record in _of_cell(run, stages)]


def _of_cell(run: ExportedRun, stages: Sequence[ExportedStage]) -> list[Json]:
    figures = [engine_figures(stage) for stage in stages]
    uncertain = {name for stage in stages for name in _uncertain(run, stage)}
    found = []
    for name in _names(run):
        values = [value for each in figures if (value := each.get(name)) is not None]
        if values:
            found.append(_record(run, stages, name, values, certain=name not in uncertain))
    return found


def _names(run: ExportedRun) -> list[str]:
    percentiles = [f"p{percentile_word(each)}" for each in run.spec.measurement.percentiles]
    return [
        *(f"{figure}_{latency}_ms" for latency in LATENCIES for figure in ("mean", "median", "std", *percentiles)),
        *_THROUGHPUTS,
    ]


def _record(
    run: ExportedRun, stages: Sequence[ExportedStage], name: str, values: Sequence[float], *, certain: bool
) -> Json:
    first = stages[0]
    version = server_version(run, first)
    return without_unknown(
        {
            "benchmark": {
                "name": BENCHMARK,
                "mode": "inference",
                "dtype": flags_of(run).get("--dtype"),
                "extra_info": {
                    "args": json.dumps(_args(run, first)),
                    "use_compile": _use_compile(run),
                    "device": run.server.gpu if run.server is not None else None,
                    "benchrun_run": f"{run.namespace}/{run.name}",
                    "benchrun_run_uid": run.uid,
                    "benchrun_cell": first.cell,
                    "benchrun_verdict": first.verdict,
                    "benchrun_findings": ",".join(first.findings),
                    # The dashboard shows it beside the number.
                    "failure_type": None if first.verdict in TRUSTED else first.verdict,
                },
            },
            "model": {"name": run.spec.model.name, "backend": "vllm"},
            "runners": _runners(run),
            "dependencies": {"vllm": {"repo": "vllm-project/vllm", "version": version}} if version else None,
            "metric": {
                "name": name,
                "benchmark_values": list(values),
                "extra_info": {"uncertain": str(not certain).lower()},
            },
        }
    )


def _args(run: ExportedRun, stage: ExportedStage) -> dict[str, str]:
    """As words: the dashboard reads no numbers out of them."""
    lengths = stage.workload.dataset.random
    tensor = flags_of(run).get("--tensor-parallel-size") or ("1" if run.spec.started is not None else None)
    said: dict[str, object] = {
        "model": run.spec.model.name,
        "num_prompts": len(stage.record.requests.ok),
        "request_rate": "inf" if stage.request_rate is None else stage.request_rate,
        "max_concurrency": stage.max_concurrency,
        "tensor_parallel_size": tensor,
        "random_input_len": lengths.input_tokens if lengths is not None else None,
        "random_output_len": lengths.output_tokens if lengths is not None else None,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def _use_compile(run: ExportedRun) -> str | None:
    """vLLM compiles unless it is told not to."""
    return None if run.spec.started is None else str("--enforce-eager" not in flags_of(run)).lower()


def _runners(run: ExportedRun) -> list[Json] | None:
    """The GPUs. Without them, whoever uploads says what ran it."""
    server = run.server
    if server is None or server.gpu is None:
        return None
    return [{"name": server.gpu, "type": server.gpu, "gpu_info": server.gpu, "gpu_count": run.gpus}]


def _uncertain(run: ExportedRun, stage: ExportedStage) -> Sequence[str]:
    return certainty(pools([stage]), run.spec.measurement.percentiles).uncertain
