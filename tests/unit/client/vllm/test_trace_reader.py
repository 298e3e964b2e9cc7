"""What a trace of torch's profiler says: real ones of vLLM, made-up ones of a GPU, and files that
are none."""

import gzip
import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import TraceSummary
from benchrun_client.engines.vllm import trace_reader
from benchrun_client.engines.vllm.trace_reader import events, summary_of
from kit.polling import polling

TRACES = Path(__file__).parents[1] / "traces"
ONE_STEP = TRACES / "one-step.pt.trace.json.gz"


def trace(tmp_path: Path, *events: dict[str, Any], **further: Any) -> TraceSummary:
    file = tmp_path / "rank0.pt.trace.json"
    file.write_text(
        json.dumps({"schemaVersion": 1, **further, "traceEvents": events})
    )
    return TraceSummary.model_validate(summary_of(file))


def span(
    kind: str, name: str, start: float, length: float, **further: Any
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "ts": 1.79e15 + start,
        "dur": length,
        "pid": 1,
        "tid": 1,
        **further,
    }


def test_a_real_trace_has_the_times_of_vllms_own_table() -> None:
    """Self CPU of every operator in it, to the table's four digits; the step itself is not an
    operator."""
    found = TraceSummary.model_validate(summary_of(ONE_STEP))
    table = (TRACES / "one-step.profiler_out.txt").read_text()
    rows = re.findall(
        r"^ *(\S+) +[0-9.]+% +([0-9.]+)(us|ms|s) .* (\d+) +$", table, re.MULTILINE
    )
    own = {
        name: (float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit], int(count))
        for name, value, unit, count in rows
    }
    assert len(found.kernels) == 12
    for kernel in found.kernels:
        assert kernel.total_us == pytest.approx(own[kernel.name][0], rel=1e-3)
        assert kernel.count == own[kernel.name][1]
    assert (found.device, found.steps, found.step_tokens) == ("CPU", 1, 1435)
    assert found.busy_us == found.kernels_us == 1_842_536
    assert found.window_us == 1_871_784


def test_the_time_between_steps_is_the_hosts() -> None:
    found = TraceSummary.model_validate(
        summary_of(TRACES / "twelve-steps.pt.trace.json.gz")
    )
    assert (found.steps, found.step_tokens, found.window_us, found.busy_us) == (
        12,
        2,
        1_273_795,
        472_932,
    )


def test_kernels_of_a_gpu_run_beside_each_other(tmp_path: Path) -> None:
    """On two streams: time that both use is busy once and counts for each; operators that start
    them count for nothing."""
    found = trace(
        tmp_path,
        span("cpu_op", "aten::mm", 0, 500),
        span("kernel", "gemm", 100, 60, tid=7),
        span("kernel", "nccl", 140, 40, tid=8),
        span("gpu_memcpy", "copy", 280, 20, tid=7),
        span("user_annotation", "execute_context_1(900)_generation_0(0)", 0, 5),
        span(
            "gpu_user_annotation", "execute_context_1(500)_generation_3(3)", 100, 80
        ),
        span(
            "gpu_user_annotation",
            "execute_13_context_0(sq0sk0sqsq0sqsk0)_generation_3(sq13sk9sqsq1sqsk2)",
            280,
            20,
        ),
    )
    assert (found.device, found.window_us, found.busy_us, found.kernels_us) == (
        "GPU",
        200,
        100,
        120,
    )
    assert [(kernel.name, kernel.total_us) for kernel in found.kernels] == [
        ("gemm", 60),
        ("nccl", 40),
        ("copy", 20),
    ]
    assert (found.steps, found.step_tokens) == (2, 503)


def test_an_operator_is_left_without_what_it_calls(tmp_path: Path) -> None:
    outer = span("cpu_op", "linear", 0, 100)
    inner = span("cpu_op", "mm", 10, 60)
    found = trace(
        tmp_path,
        inner,
        span("cpu_op", "sum", 100, 5),
        outer,
        span("cpu_op", "mm", 20, 30, tid=2),
    )
    assert {kernel.name: kernel.total_us for kernel in found.kernels} == {
        "mm": 90,
        "linear": 40,
        "sum": 5,
    }
    assert (found.window_us, found.busy_us) == (105, 105)


def test_nothing_was_recorded(tmp_path: Path) -> None:
    found = trace(tmp_path)
    assert (found.kernels, found.window_us, found.steps, found.step_tokens) == (
        (),
        0,
        0,
        None,
    )


@pytest.mark.parametrize("size", [61, 4096])
def test_events_are_found_however_the_text_is_cut(size: int) -> None:
    text = gzip.decompress(ONE_STEP.read_bytes()).decode()
    found = list(events(text[i : i + size] for i in range(0, len(text), size)))
    assert found == json.loads(text)["traceEvents"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "no traceEvents", id="empty"),
        pytest.param(b"<html>", "no traceEvents", id="a web page"),
        pytest.param(b'{"traceEvents": [{"ph": "X"},', "cut short", id="cut short"),
        pytest.param(b'{"traceEvents": [' + b"[" * 100_000, "nested", id="nested"),
        pytest.param(
            b'{"traceEvents": [{"a": "' + b"x" * 3_000_000,
            "not an event",
            id="an event without end",
        ),
        pytest.param(
            b'{"traceEvents": [' + b"0," * 5_000 + b"0]}",
            None,
            id="what is not a span",
        ),
        pytest.param(
            b'{"traceEvents": [' + b"{}," * 5_000 + b"{}]}", None, id="empty spans"
        ),
    ],
)
def test_a_file_that_is_not_a_trace_is_rejected_in_a_sentence(
    tmp_path: Path, content: bytes, problem: str | None
) -> None:
    file = tmp_path / "rank0.pt.trace.json"
    file.write_bytes(content)
    if problem is None:
        assert summary_of(file)["kernels"] == []
        return
    with pytest.raises(ValueError, match=problem):
        summary_of(file)


def test_the_number_of_trace_events_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "MAX_EVENTS", 3)
    with pytest.raises(ValueError, match="profile fewer seconds"):
        trace(tmp_path, *(span("cpu_op", "mm", n, 1) for n in range(4)))
    monkeypatch.setattr(trace_reader, "MAX_BYTES", 100)
    with pytest.raises(ValueError, match="profile fewer seconds"):
        summary_of(ONE_STEP)


def test_spans_that_lie_are_passed_over_and_names_are_cut(tmp_path: Path) -> None:
    lies: tuple[object, ...] = (
        -1,
        "9",
        None,
        1e300,
        float("nan"),
        float("inf"),
        [1],
    )
    spans = [span("cpu_op", "mm", 0, 1) | {"dur": lie} for lie in lies]
    found = trace(tmp_path, span("cpu_op", "n" * 9000, 0, 1), *spans)
    assert [(len(kernel.name), kernel.total_us) for kernel in found.kernels] == [
        (160, 1)
    ]


def test_a_broken_archive_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "rank0.pt.trace.json.gz"
    for content in (b"plain", ONE_STEP.read_bytes()[:5000]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="unpacked"):
            summary_of(file)


def get_json(url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_server_needs_nothing_but_its_own_text(tmp_path: Path) -> None:
    """As the pod has it: the text as an argument, without a path to anything of ours."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-I",
        "-c",
        Path(trace_reader.__file__).read_text(),
        str(tmp_path),
        str(port),
    ]
    url = f"http://127.0.0.1:{port}/"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in polling("the reader answers", seconds=30):
                try:
                    assert get_json(url) == (
                        404,
                        {"problem": f"no trace in {tmp_path}"},
                    )
                    break
                except urllib.error.URLError:
                    continue
            (tmp_path / "vm.async_llm.1.pt.trace.json.gz").write_bytes(
                b"of the API server"
            )
            (tmp_path / ONE_STEP.name).write_bytes(ONE_STEP.read_bytes())
            assert get_json(url) == (200, summary_of(ONE_STEP))
            (tmp_path / ONE_STEP.name).write_bytes(b"broken")
            assert get_json(url)[0] == 404
        finally:
            process.kill()
