"""InferenceX' own program reads our file of `vllm bench serve`; its row and ours are held against each other, field by field."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from benchrun.report.export.exported import ExportedRun
from benchrun.report.export.inferencex import rows
from benchrun.report.export.vllm_json import vllm_files
from unit.plan.specs import Json
from unit.report.export.runs import CHAT, CHAT_AGAIN, measured, run, spec, status
from unit.report.export.split_runs import of_nodes, split_run

PROGRAM = Path(__file__).parent / "schemas" / "inferencex_process_result.py.txt"
SETTING = {
    "RUNNER_TYPE": "h100",
    "FRAMEWORK": "vllm",
    "PRECISION": "fp8",
    "SPEC_DECODING": "none",
    "MODEL_PREFIX": "qwen3",
    "IMAGE": "vllm/vllm-openai:v0.32.0",
    "DISAGG": "false",
    "ISL": "64",
    "OSL": "12",
    "TP": "2",
    "EP_SIZE": "1",
    "DP_ATTENTION": "false",
    "RESULT_FILENAME": "result",
}
"""What its workflow says of a job; here what our run says of itself."""
TOLD = {"precision": "fp8", "infmax_model_prefix": "qwen3"}
LATENCIES = ("ttft", "tpot", "itl", "e2el")


def processed(result: bytes, folder: Path, **setting: str) -> Json:
    """The row that the program makes of a result file."""
    (folder / "result.json").write_bytes(result)
    environment = {"PATH": os.environ["PATH"]} | SETTING | setting
    subprocess.run(
        [sys.executable, "-I", str(PROGRAM)], cwd=folder, env=environment, check=True, capture_output=True, timeout=60
    )
    made: Json = json.loads((folder / "agg_result.json").read_text(encoding="utf-8"))
    return made


@cache
def ours(stage_id: str) -> Json:
    (found,) = rows(run(measured(stage_id)), TOLD)
    return found


@pytest.fixture(params=[CHAT, CHAT_AGAIN])
def stage_id(request: pytest.FixtureRequest) -> str:
    """A stage that InferenceX has a place for: a closed loop of prompts and answers of fixed length."""
    return str(request.param)


@pytest.fixture
def file(stage_id: str) -> bytes:
    """The file of that stage, as `benchrun export --format vllm` writes it."""
    files = vllm_files(run(measured(stage_id)))
    (content,) = (content for name, content in files.items() if "/run=" in name)
    return content


@pytest.fixture
def theirs(file: bytes, tmp_path: Path) -> Json:
    """The program's row of it."""
    return processed(file, tmp_path)


def test_every_figure_that_both_rows_have_is_equal(theirs: Json, stage_id: str) -> None:
    numbers = {name for name, value in ours(stage_id).items() if isinstance(value, float)}
    assert numbers <= theirs.keys()
    for name in sorted(numbers):
        # Ours has whole microseconds, and throughputs of five significant digits; theirs has what vLLM printed.
        assert ours(stage_id)[name] == pytest.approx(theirs[name], rel=6e-5, abs=1e-6), name
    assert len(numbers) >= 3 + 3 * len(LATENCIES) + 2


def test_every_word_and_count_that_both_rows_have_is_equal(theirs: Json, stage_id: str) -> None:
    both = {name for name, value in ours(stage_id).items() if not isinstance(value, float)} & theirs.keys()
    assert {name: ours(stage_id)[name] for name in both} == {name: theirs[name] for name in both}
    assert both == {
        *("hw", "conc", "image", "model", "infmax_model_prefix", "framework", "precision", "spec_decoding", "disagg"),
        *("isl", "osl", "is_multinode", "tp", "pp", "ep", "dp_attention"),
    }


def test_beyond_it_ours_has_the_verdict_alone(theirs: Json, stage_id: str) -> None:
    assert ours(stage_id).keys() - theirs.keys() == {"verdict", "findings"}


def test_what_ours_lacks_is_unbounded_or_means_nothing(theirs: Json, file: bytes, stage_id: str) -> None:
    """Percentiles that so few requests can't bound; the median under a second name; settings of a kind of parallelism that
    vLLM's arguments don't tell; and the reciprocal of a deviation."""
    uncertain = {name.removesuffix("_ms") for name in json.loads(file)["benchrun_uncertain"].split(",")}
    unbounded = uncertain | {name.replace("tpot", "intvty") for name in uncertain if "tpot" in name}
    medians = {f"p50_{name}" for name in (*LATENCIES, "intvty")}
    setting = {"recipe_fingerprint", "dcp_size", "pcp_size"}
    assert theirs.keys() - ours(stage_id).keys() == unbounded | medians | setting | {"std_intvty"}
    assert unbounded, "24 requests bound no 99th percentile"


def test_gpus_are_counted_alike_where_the_model_is_pipelined_too(tmp_path: Path) -> None:
    args = ["--tensor-parallel-size=2", "-pp=2"]
    body = spec().model_dump(mode="json", by_alias=True, exclude_none=True)
    piped = type(spec()).model_validate({**body, "server": {**body["server"], "args": args}})
    of = run(measured(CHAT), of_spec=piped, of_status=status(gpus=4, args=args))
    theirs = processed(vllm_files(of)["chat-concurrency=4/run=0.json"], tmp_path, PP_SIZE="2")
    (mine,) = rows(of, TOLD)
    assert (mine["tp"], mine["pp"]) == (theirs["tp"], theirs["pp"]) == (2, 2)
    for name in ("tput_per_gpu", "output_tput_per_gpu", "input_tput_per_gpu"):
        assert mine[name] == pytest.approx(theirs[name], rel=6e-5), name


SPLIT = {
    "DISAGG": "true",
    "IS_MULTINODE": "true",
    "KV_P2P_TRANSFER": "nixl",
    **{f"PREFILL_{name}": value for name, value in {"GPUS": "2", "NUM_WORKERS": "2", "TP": "1", "EP": "1"}.items()},
    **{f"DECODE_{name}": value for name, value in {"GPUS": "2", "NUM_WORKERS": "1", "TP": "2", "EP": "2"}.items()},
    "PREFILL_DP_ATTN": "false",
    "DECODE_DP_ATTN": "true",
}
OF_NODES = {
    "IS_MULTINODE": "true",
    **{f"PREFILL_{name}": value for name, value in {"GPUS": "8", "NUM_WORKERS": "2", "TP": "2", "EP": "1"}.items()},
    **{f"DECODE_{name}": value for name, value in {"GPUS": "0", "NUM_WORKERS": "0", "TP": "2", "EP": "1"}.items()},
    "PREFILL_PP_SIZE": "2",
    "PREFILL_DP_ATTN": "false",
    "DECODE_DP_ATTN": "false",
}
ELSEWHERE = {f"{role}_{name}" for role in ("prefill", "decode") for name in ("dcp_size", "pcp_size")}


@pytest.mark.parametrize(
    ("of", "setting"), [(split_run(), SPLIT), (of_nodes(), OF_NODES)], ids=["disaggregated", "several-nodes"]
)
def test_rows_of_several_servers_are_the_program_s(of: ExportedRun, setting: dict[str, str], tmp_path: Path) -> None:
    theirs = processed(vllm_files(of)["chat-concurrency=4/run=0.json"], tmp_path, **setting)
    (mine,) = rows(of, TOLD)
    assert mine.keys() - theirs.keys() == {"verdict", "findings"}
    for name in mine.keys() & theirs.keys():
        expected = theirs[name]
        assert mine[name] == (pytest.approx(expected, rel=6e-5, abs=1e-6) if isinstance(expected, float) else expected)
    topology = {name for name in theirs if "prefill" in name or "decode" in name or name.endswith("per_gpu")}
    assert topology - mine.keys() == ELSEWHERE
    assert len(topology & mine.keys()) == 3 + 2 * 6


def test_the_program_knows_no_roles_on_one_node(file: bytes, tmp_path: Path) -> None:
    """Why rows of roles say `is_multinode`, wherever the servers run."""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        processed(file, tmp_path, DISAGG="true")
    assert b"Disaggregated mode requires multinode" in refused.value.stderr


def test_the_program_reads_the_figures_and_not_what_we_say_beside_them(file: bytes, tmp_path: Path) -> None:
    plain: dict[str, Any] = json.loads(file)
    bare = {name: value for name, value in plain.items() if not name.startswith("benchrun_")}
    folders = [tmp_path / name for name in ("with", "without")]
    for folder in folders:
        folder.mkdir()
    with_ours, without = (
        processed(json.dumps(each).encode(), folder) for each, folder in zip((plain, bare), folders, strict=True)
    )
    assert with_ours == without
