"""The files that `vllm bench serve --save-result --save-detailed` writes.

Their layout is that of `vllm bench sweep`: each load point has a folder with `run=0.json`,
`run=1.json` ... (its repeats, with every request) and `summary.json` (all repeats, without the
requests). Fields whose names begin with `benchrun_` are additional. `generated_texts` and `itls`
are left out, because neither is kept for single requests.
"""

from collections.abc import Iterable

from benchrun_client.contract import RequestColumns

from benchrun.report.export import formats
from benchrun.report.export.encoders import Files, Json, as_json, as_json_lines
from benchrun.report.export.formats import ExportedRun, ExportedStage

_BACKENDS = {
    "Completions": "openai",
    "Chat": "openai-chat",
    "Embeddings": "openai-embeddings",
}


def vllm_files(run: ExportedRun) -> Files:
    """Return the files of an experiment of `vllm bench sweep`, by their path.

    Raises NotExportable if there are no records.
    """
    requests = {stage.id: sent for stage, sent in formats.with_requests(run)}
    files: dict[str, bytes] = {}
    for load_point, stages in run.load_points():
        folder = load_point.replace("/", "-")
        for stage in (each for each in stages if each.id in requests):
            files[f"{folder}/run={stage.repeat - 1}.json"] = as_json_lines(
                [detailed(run, stage, requests[stage.id])]
            )
        files[f"{folder}/summary.json"] = as_json(
            [summary(run, stage) for stage in stages]
        )
    return files


def detailed(
    run: ExportedRun, stage: ExportedStage, columns: RequestColumns
) -> Json:
    """Return one stage with its requests. Times are in seconds, as vLLM has them.

    The times of a failed request are None.
    """
    began = stage.result.first_send_unix_us
    answered = columns.ok
    # Which of a stage's errors a request had is not kept.
    error = " | ".join(stage.result.errors) or "failed"
    of_tokens = {
        "output_lens": list(columns.output_tokens),
        "ttfts": _seconds(columns.ttft_us, answered),
    }
    return {
        **summary(run, stage),
        "input_lens": list(columns.input_tokens),
        **({} if stage.has_whole_answers else of_tokens),
        "latencies": _seconds(columns.e2el_us, answered),
        "start_times": [(began + start) / 1e6 for start in columns.start_us],
        "queue_times": [queued / 1e6 for queued in columns.queue_us],
        "errors": ["" if ok else error for ok in answered],
    }


def summary(run: ExportedRun, stage: ExportedStage) -> Json:
    """Return one stage without its requests."""
    model = run.spec.model
    backend = _BACKENDS[stage.workload.api]
    parallel = {}
    if (
        run.spec.started is not None
    ):  # what `vllm bench sweep plot_pareto` divides by
        spread = formats.parallelism_of(formats.flags_of(run), run.spec.engine)
        names = {
            "tp": "tensor_parallel_size",
            "pp": "pipeline_parallel_size",
            "dp": "data_parallel_size",
        }
        parallel = {names[short]: spread[short] for short in names}
    return {
        **dict(run.labels),  # As `--metadata KEY=VALUE` puts them there.
        "date": stage.ended.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": backend,
        "backend": backend,
        "label": None,
        "model_id": model.name,
        "tokenizer_id": model.tokenizer or model.name,
        **parallel,
        "run_number": stage.repeat - 1,
        "benchrun_run": f"{run.namespace}/{run.name}",
        "benchrun_run_uid": run.uid,
        "benchrun_stage": stage.id,
        "benchrun_verdict": stage.verdict,
        "benchrun_findings": ",".join(stage.findings),
        "benchrun_uncertain": ",".join(_uncertain(stage)),
        "request_rate": "inf",
        "request_goodput": None,
        **formats.engine_figures(stage),
    }


def _uncertain(stage: ExportedStage) -> list[str]:
    """Return the percentiles that have no confidence interval."""
    figures = formats.engine_figures(stage)
    return [name for name in stage.result.uncertain if name in figures]


def _seconds(micros: Iterable[int], answered: Iterable[int]) -> list[float | None]:
    return [
        us / 1e6 if ok else None for us, ok in zip(micros, answered, strict=True)
    ]


SUMMARY = "result files of `vllm bench serve`, which `vllm bench sweep plot` reads"
formats.FORMATS["vllm"] = (
    formats.Format(  # in one file as `--append-result` writes it: a stage a line
        SUMMARY,
        vllm_files,
        lambda run, _: as_json_lines(
            [detailed(run, *each) for each in formats.with_requests(run)]
        ),
        requests_in={None: "Required", **dict.fromkeys(formats.TABLES, "Required")},
    )
)
