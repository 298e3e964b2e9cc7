"""The files that `vllm bench serve --save-result --save-detailed` writes, laid out as `vllm bench sweep` lays out its own.

A folder a cell holds `run=0.json`, `run=1.json` ... (its repeats, with every request) and `summary.json`, the list of them
without the requests, which is what `vllm bench sweep plot` reads. The figures are the load engine's own, word for word.
Fields whose name begins with `benchrun_` are ours; vLLM puts what its `--metadata` is given beside its figures, too.

Not there: `generated_texts`, which are not kept, and `itls`, of which the counts of all requests together are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchrun.judge.result_row import certainty
from benchrun.report.export.exported import ExportedRun, ExportedStage, engine_figures, pools
from benchrun.report.export.formats import Format, register
from benchrun.report.export.llmd_scenario import flags_of, parallelism_of
from benchrun.report.export.tables import Files, Json, as_json, as_json_lines

_BACKENDS = {"Completions": "openai", "Chat": "openai-chat"}


def vllm_files(run: ExportedRun) -> Files:
    """The folder of an experiment of `vllm bench sweep`."""
    files: dict[str, bytes] = {}
    for cell, stages in run.cells():
        folder = cell.replace("/", "-")
        for stage in stages:
            files[f"{folder}/run={stage.repeat - 1}.json"] = as_json_lines([detailed(run, stage)])
        files[f"{folder}/summary.json"] = as_json([summary(run, stage) for stage in stages])
    return files


def vllm_lines(run: ExportedRun) -> bytes:
    """All stages in one file, as `--append-result` writes them: one a line."""
    return as_json_lines([detailed(run, stage) for stage in run.stages])


def detailed(run: ExportedRun, stage: ExportedStage) -> Json:
    """One stage with its requests. Seconds, as vLLM has them; of a failed request no time is known."""
    columns, began = stage.record.requests, stage.record.first_send_unix_us
    answered = columns.ok
    return {
        **summary(run, stage),
        "input_lens": list(columns.input_tokens),
        "output_lens": list(columns.output_tokens),
        "ttfts": _seconds(columns.ttft_us, answered),
        "latencies": _seconds(columns.e2el_us, answered),
        "start_times": [(began + start) / 1e6 for start in columns.start_us],
        "queue_times": [queued / 1e6 for queued in columns.queue_us],
        "errors": _errors(stage),
    }


def summary(run: ExportedRun, stage: ExportedStage) -> Json:
    """One stage without its requests."""
    model = run.spec.model
    backend = _BACKENDS[stage.workload.api]
    return {
        "date": stage.ended.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": backend,
        "backend": backend,
        "label": None,
        "model_id": model.name,
        "tokenizer_id": model.tokenizer or model.name,
        **_of_the_server(run),
        "run_number": stage.repeat - 1,
        "benchrun_run": f"{run.namespace}/{run.name}",
        "benchrun_run_uid": run.uid,
        "benchrun_stage": stage.id,
        "benchrun_verdict": stage.verdict,
        "benchrun_findings": ",".join(stage.findings),
        "benchrun_uncertain": ",".join(_uncertain(run, stage)),
        "request_rate": "inf",
        **engine_figures(stage),
    }


def _of_the_server(run: ExportedRun) -> Json:
    """What `vllm bench sweep plot_pareto` divides by; vLLM's sweeps have the flags of the server beside its figures."""
    if run.spec.started is None:
        return {}
    spread = parallelism_of(flags_of(run))
    return {
        "tensor_parallel_size": spread.tensor,
        "pipeline_parallel_size": spread.pipeline,
        "data_parallel_size": spread.data,
    }


def _uncertain(run: ExportedRun, stage: ExportedStage) -> Sequence[str]:
    return certainty(pools([stage]), run.spec.measurement.percentiles).uncertain


def _seconds(micros: Iterable[int], answered: Iterable[int]) -> list[float | None]:
    return [us / 1e6 if ok else None for us, ok in zip(micros, answered, strict=True)]


def _errors(stage: ExportedStage) -> list[str]:
    """Empty for a request that was answered. Which of several errors a request met is not kept."""
    text = " | ".join(stage.record.errors) or "failed"
    return ["" if ok else text for ok in stage.record.requests.ok]


register(
    "vllm",
    Format(
        "result files of `vllm bench serve`, which `vllm bench sweep plot` reads",
        vllm_files,
        lambda run, _: vllm_lines(run),
    ),
)
