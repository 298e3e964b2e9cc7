"""A run with a profile at its end: of a real vLLM on CPU, and of a server that has no profiler."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchrun.judge.explain.profile import profile_status
from benchrun_client.contract import PROFILE_STAGE, Plan, ProfilePlan
from benchrun_client.contract.datasets import RandomData
from benchrun_client.engines import ENGINES
from benchrun_client.engines.vllm import trace_reader
from client.processes import TINY_MODEL, client, free_port, simulator
from client.real_servers import vllm_server
from unit.client.plans import plan, stage, warmup

VLLM = ENGINES["VLLM"]

CACHE = "--kv-cache-memory-bytes=100000000"
DATA = RandomData(input_tokens=64, output_tokens=32)


def profiled(url: str, *, reader_port: int) -> Plan:
    load = warmup(data=DATA, requests=16, concurrency=4, seed=99)
    profile = ProfilePlan(
        load=load, seconds=2, max_seconds=240, reader_port=reader_port
    )
    target = {"base_url": url, "tokenizer": str(TINY_MODEL)}
    return plan(
        stage(data=DATA),
        target=target,
        profile=profile,
        health_deadline_seconds=120,
    )


@pytest.mark.timeout(900)
def test_vllm_is_profiled_after_all_stages_and_its_operators_are_told(
    tmp_path: Path,
) -> None:
    traces = tmp_path / "traces"
    port = free_port()
    assert VLLM.profiler is not None
    arguments, variables = VLLM.profiler.enabled_by(
        "vllm/vllm-openai:v0.32.0", str(traces)
    )
    assert variables == {}
    flags = [
        "--served-model-name=tiny",
        "--max-model-len=1024",
        "--max-num-seqs=8",
        CACHE,
        *arguments,
    ]
    reader = [
        sys.executable,
        "-I",
        "-c",
        Path(trace_reader.__file__).read_text(),
        str(traces),
        str(port),
    ]
    with (
        vllm_server(TINY_MODEL, flags, tmp_path / "log") as server,
        subprocess.Popen(reader) as beside,
    ):
        try:
            server.wait_healthy()
            with client(
                tmp_path / "client", profiled(server.url, reader_port=port)
            ) as running:
                (measured, record), progress = running.pull_all()
        finally:
            beside.kill()
    assert (progress.phase, measured.profile, sum(measured.requests.ok)) == (
        "Done",
        None,
        4,
    )
    assert (record.stage_id, record.sequence, record.requests.ok) == (
        PROFILE_STAGE,
        1,
        (),
    )
    assert record.profile is not None
    assert record.profile.problem is None
    found = record.profile.summary
    assert found is not None
    names = [kernel.name for kernel in found.kernels]
    assert (found.device, "aten::mm" in names) == ("CPU", True)
    assert found.steps > 1
    assert 0 < found.busy_us <= found.window_us
    print(profile_status(record.profile))


def test_a_server_without_a_profiler_is_measured_all_the_same(
    tmp_path: Path,
) -> None:
    port = free_port()
    with (
        simulator(port=port),
        client(
            tmp_path, profiled(f"http://127.0.0.1:{port}", reader_port=free_port())
        ) as running,
    ):
        (measured, record), progress = running.pull_all()
    assert (progress.phase, sum(measured.requests.ok)) == ("Done", 4)
    assert record.profile is not None
    assert record.profile.summary is None
    assert VLLM.profiler is not None
    assert VLLM.profiler.remedy in (record.profile.problem or "")
