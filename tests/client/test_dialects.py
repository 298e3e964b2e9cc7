"""The real client against simulated servers of SGLang and of TensorRT-LLM: counts, settings, rows.

A server is started by the arguments that the operator gives to the engine itself.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchrun_client.contract import StageRecord
from benchrun_client.engines import ENGINES, EngineName, ServedFiles
from client.engine_runs import EngineRun
from client.processes import SIMULATOR_ROOT, TINY_MODEL, VLLM_PYTHON, free_port

PLACES, USERS, REQUESTS = 2, 4, 40
PROMPT, ANSWER = 64, 12
ARGS: dict[EngineName, tuple[str, ...]] = {
    "SGLang": (f"--max-running-requests={PLACES}", "--context-length=2048"),
    "TensorRTLLM": (f"--max_batch_size={PLACES}", "--max_seq_len=2048"),
}
LACKING: dict[EngineName, set[str]] = {
    "SGLang": {"CompilationInWindow"},
    "TensorRTLLM": {"CompilationInWindow", "Preempted", "RequestsAborted"},
}

pytestmark = pytest.mark.timeout(600)


def run_of(name: EngineName) -> EngineRun:
    return EngineRun(name, USERS, REQUESTS, PROMPT, ANSWER)


@contextmanager
def serving(name: EngineName) -> Iterator[str]:
    """Run a server as the operator starts it, but on a free port of this machine."""
    port = free_port()
    files = ServedFiles(str(TINY_MODEL), "tiny")
    own = [
        "--host=127.0.0.1"
        if word.startswith("--host=")
        else f"--port={port}"
        if word.startswith("--port=")
        else word
        for word in ENGINES[name].serve_args(files, ())
    ]
    words = [*own, *ARGS[name], f"--sim-engine={name}", "--sim-tpot-ms=5"]
    process = subprocess.Popen(
        [VLLM_PYTHON, "-m", "benchrun_simulator", "serve", *words],
        env={"PYTHONPATH": str(SIMULATOR_ROOT)},
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module", params=ARGS)
def measured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[EngineName, StageRecord]:
    name: EngineName = request.param
    folder = tmp_path_factory.mktemp(name)
    with serving(name) as url:
        return name, run_of(name).measured(folder, url)


def test_counters_are_the_requests_own(
    measured: tuple[EngineName, StageRecord],
) -> None:
    _, record = measured
    assert sum(record.requests.ok) == REQUESTS
    (edge,) = record.servers
    assert edge.before is not None
    assert edge.after is not None
    risen = {name: edge.after[name] - edge.before[name] for name in edge.before}
    assert risen["request_success_total"] == REQUESTS
    assert risen["generation_tokens_total"] == REQUESTS * ANSWER
    assert risen["prompt_tokens_total"] == sum(record.requests.input_tokens)
    assert risen["request_queue_time_seconds_sum"] > 0
    assert (edge.version, edge.served and edge.served.id) == ("0.32.0", "tiny")
    assert edge.settings is not None


def test_its_row_has_no_figure_that_the_server_lacks(
    measured: tuple[EngineName, StageRecord],
) -> None:
    name, record = measured
    (row,) = run_of(name).judged(record).results
    (role,) = row.roles
    known = ENGINES[name].counter_series
    assert (role.preemptions is None) is ("num_preemptions_total" not in known)
    assert role.fetched_percent is None
    assert role.prefix_hit_percent is not None


def test_rules_that_need_what_it_lacks_are_named(
    measured: tuple[EngineName, StageRecord],
) -> None:
    name, record = measured
    found = {
        each.code: each.evidence for each in run_of(name).judged(record).findings
    }
    counted = {
        "StreamTruncated",
        "TokenCountsDisagree",
        "RequestsFailed",
        "ForeignTraffic",
    }
    assert not counted & found.keys()
    unchecked = found["NotChecked"]
    assert unchecked is not None
    assert LACKING[name] <= unchecked.keys()
