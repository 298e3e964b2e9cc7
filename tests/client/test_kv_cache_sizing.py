"""`benchrun kv-cache` against vLLM itself: with a cache of known size, how many tokens does it hold?"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchrun.cli.__main__ import main as benchrun
from client.processes import VLLM_PYTHON, free_port
from kit.polling import polling

pytestmark = pytest.mark.timeout(900)
REPOSITORY = Path(__file__).parents[2]
START_SECONDS = 420.0
"""Of a server: 75 s of CPU, beside other work several times that."""
VLLM_VARIABLES = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
CACHE = "--kv-cache-memory-bytes=100000000"
CPU_DEFAULTS = ("--no-async-scheduling", "--block-size=128")
"""What vLLM's CPU build does unless told otherwise. Said aloud, so that both sides are told the same."""
CASES = {
    "grouped": ("--max-model-len=8192", *CPU_DEFAULTS),
    "windowed": ("--max-model-len=32768", "--max-num-batched-tokens=2048", *CPU_DEFAULTS),
    "latent": ("--max-model-len=4000", "--no-async-scheduling", "--block-size=16"),
    "plain": ("--max-model-len=10000", "--kv-cache-dtype=fp8", "--no-async-scheduling", "--block-size=64"),
}
"""A model (tests/client/sized_models.py), and the flags of its server."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    script = Path(__file__).with_name("sized_models.py")
    subprocess.run([VLLM_PYTHON, script, folder], env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=True)
    return folder


@pytest.fixture(scope="module")
def engines(models: Path) -> Mapping[str, Mapping[str, int]]:
    """What vLLM's engine finds for each case."""
    asked = [[str(models / name), [CACHE, *flags]] for name, flags in CASES.items()]
    done = subprocess.run(
        [VLLM_PYTHON, Path(__file__).with_name("vllm_engines.py")],
        env={**os.environ, **VLLM_VARIABLES, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(zip(CASES, told, strict=True))


@contextmanager
def server(model: Path, flags: Sequence[str], log: Path) -> Iterator[str]:
    """A real vLLM server, from its first healthy answer on; its address."""
    port = free_port()
    own = (f"--port={port}", "--host=127.0.0.1", "--enforce-eager", CACHE)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [VLLM_PYTHON.with_name("vllm"), "serve", model, *own, *flags],
            env={
                **os.environ,
                "HF_HUB_OFFLINE": "1",
                "VLLM_NO_USAGE_STATS": "1",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            },
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_healthy(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_healthy(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in polling("vLLM is healthy", seconds=START_SECONDS):
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (OSError, urllib.error.URLError):
            continue


def told_by_the_server(address: str) -> dict[str, str]:
    """The labels of vllm:cache_config_info."""
    with urllib.request.urlopen(f"{address}/metrics") as response:
        page = response.read().decode()
    line = next(line for line in page.splitlines() if line.startswith("vllm:cache_config_info{"))
    return dict(re.findall(r'(\w+)="([^"]*)"', line))


def sized(model: Path, flags: Sequence[str], capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """What our command says."""
    assert benchrun(["kv-cache", str(model), "-o", "json", "--serve", CACHE, *flags]) == 0
    found: dict[str, int] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", CASES)
def test_tokens_that_fit_are_those_that_vllm_finds(
    models: Path, engines: Mapping[str, Mapping[str, int]], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = sized(models / name, CASES[name], capsys), engines[name]
    assert ours["blocks"] == theirs["num_gpu_blocks"]
    assert ours["cacheTokens"] == pytest.approx(theirs["kv_cache_size_tokens"], rel=0.01)


def test_a_server_tells_the_same_in_its_metrics(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "windowed"
    ours = sized(models / name, CASES[name], capsys)
    with server(models / name, CASES[name], tmp_path / "vllm.log") as address:
        theirs = told_by_the_server(address)
    assert ours["cacheTokens"] == pytest.approx(int(theirs["kv_cache_size_tokens"]), rel=0.01)
