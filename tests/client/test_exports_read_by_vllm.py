"""What `benchrun export` writes for vLLM's tools, read by them; and the file that vLLM itself
writes, held against ours."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from benchrun.report.export.vllm_json import detailed, vllm_files
from client.processes import TINY_MODEL, VLLM_PYTHON, free_port, simulator
from unit.report.export.runs import (
    CAPPED,
    CHAT,
    CHAT_AGAIN,
    FIRST,
    measured,
    run,
    stage,
)

VLLM = (VLLM_PYTHON, "-m", "vllm.entrypoints.cli.main")
NOT_KEPT = {"itls", "generated_texts"}
"""Gaps are kept of all requests together, and texts not at all."""
OURS = {
    "run_number",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
}
"""What vLLM's sweeps add to the file."""
PARETO = """
import json, pathlib, sys
from vllm.benchmarks.sweep.plot_pareto import _prepare_records, plot_pareto
plot_pareto(pathlib.Path(sys.argv[1]), "max_concurrency", None, ["benchrun_stage"], dry_run=True)
data = [each for path in pathlib.Path(sys.argv[1]).rglob("summary.json") for each in json.loads(path.read_text())]
prepared, skipped = _prepare_records(data, user_count_var="max_concurrency", gpu_count_var=None)
print(json.dumps([prepared, skipped]))
"""


def vllm(*words: str | Path) -> str:
    """What vLLM's command says; it must end well."""
    done = subprocess.run(
        [*VLLM, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def script(text: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [VLLM_PYTHON, "-c", text, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a run of four stages."""
    root = tmp_path_factory.mktemp("vllm")
    for name, content in vllm_files(run()).items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
    return root


@pytest.fixture(scope="module")
def vllms_own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A file that `vllm bench serve` has written."""
    root = tmp_path_factory.mktemp("own")
    port = free_port()
    prompts = root / "prompts.jsonl"
    prompts.write_text(
        "".join(
            json.dumps({"prompt": f"{n} is the number of this one"}) + "\n"
            for n in range(6)
        )
    )
    with simulator("--sim-ttft-ms=20", "--sim-tpot-ms=2", port=port):
        vllm(
            *(
                "bench",
                "serve",
                "--backend",
                "openai",
                "--base-url",
                f"http://127.0.0.1:{port}",
                "--endpoint",
            ),
            *(
                "/v1/completions",
                "--model",
                "tiny",
                "--tokenizer",
                TINY_MODEL,
                "--dataset-name",
                "custom",
            ),
            *(
                "--dataset-path",
                prompts,
                "--custom-output-len",
                "8",
                "--skip-chat-template",
                "--num-prompts",
                "6",
            ),
            *(
                "--max-concurrency",
                "2",
                "--ignore-eos",
                "--percentile-metrics",
                "ttft,tpot,itl,e2el",
            ),
            *(
                "--metric-percentiles",
                "50,90,99",
                "--save-result",
                "--save-detailed",
                "--result-dir",
                root,
            ),
            *("--result-filename", "own.json", "--disable-tqdm"),
        )
    found: dict[str, Any] = json.loads(
        (root / "own.json").read_text(encoding="utf-8")
    )
    return found


def kind(value: Any) -> str:
    """A type as JSON has it; of a list, that of what it holds."""
    if isinstance(value, list):
        return f"list of {kind(value[0])}"
    return "number" if isinstance(value, int | float) else type(value).__name__


def test_our_file_has_the_fields_of_vllms(vllms_own: dict[str, Any]) -> None:
    ours = detailed(run(), stage(CHAT), measured(CHAT).requests)
    assert vllms_own.keys() - ours.keys() == NOT_KEPT
    added = ours.keys() - vllms_own.keys() - OURS
    assert all(name.startswith("benchrun_") for name in added), added
    assert {name: kind(ours[name]) for name in vllms_own.keys() & ours.keys()} == {
        name: kind(value)
        for name, value in vllms_own.items()
        if name not in NOT_KEPT
    }


def test_vllms_plot_finds_every_stage(folder: Path) -> None:
    said = vllm(
        *(
            "bench",
            "sweep",
            "plot",
            folder,
            "--var-x",
            "max_concurrency",
            "--var-y",
            "p99_ttft_ms",
        ),
        *(
            "--curve-by",
            "run_number",
            "--row-by",
            "benchrun_verdict",
            "--col-by",
            "max_concurrency",
            "--dry-run",
        ),
    )
    assert "Grid: 1 rows x 2 cols" in said


def test_vllms_pareto_plot_divides_by_the_gpus_that_there_were(
    folder: Path,
) -> None:
    prepared, skipped = json.loads(script(PARETO, folder).splitlines()[-1])
    assert skipped == 0
    assert {each["benchrun_stage"] for each in prepared} == {
        CHAT,
        CHAT_AGAIN,
        CAPPED,
        FIRST,
    }
    for each in prepared:
        scalars = measured(each["benchrun_stage"]).scalars
        assert each["tokens_per_gpu"] == scalars["output_throughput"] / 2  # type: ignore[operator]
        assert (
            each["tokens_per_user"]
            == scalars["output_throughput"] / scalars["max_concurrency"]  # type: ignore[operator]
        )
