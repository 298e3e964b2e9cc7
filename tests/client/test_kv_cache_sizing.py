"""`benchrun kv-cache` against vLLM itself: with a cache of known size, how many tokens does it
hold?"""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from benchrun.cli.__main__ import main as benchrun
from client.processes import VLLM_PYTHON
from client.real_servers import VARIABLES, vllm_server

pytestmark = pytest.mark.timeout(900)
REPOSITORY = Path(__file__).parents[2]
CACHE = "--kv-cache-memory-bytes=100000000"
CPU_DEFAULTS = ("--no-async-scheduling", "--block-size=128")
"""What vLLM's CPU build does unless told otherwise. Said aloud, so that both sides are told the
same."""
CASES = {
    "grouped": ("--max-model-len=8192", *CPU_DEFAULTS),
    "windowed": (
        "--max-model-len=32768",
        "--max-num-batched-tokens=2048",
        *CPU_DEFAULTS,
    ),
    "latent": ("--max-model-len=4000", "--no-async-scheduling", "--block-size=16"),
    "plain": (
        "--max-model-len=10000",
        "--kv-cache-dtype=fp8",
        "--no-async-scheduling",
        "--block-size=64",
    ),
}
"""A model (tests/client/sized_models.py), and the flags of its server."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    script = Path(__file__).with_name("sized_models.py")
    subprocess.run(
        [VLLM_PYTHON, script, folder],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def engines(models: Path) -> Mapping[str, Mapping[str, int]]:
    """What vLLM's engine finds for each case."""
    asked = [[str(models / name), [CACHE, *flags]] for name, flags in CASES.items()]
    done = subprocess.run(
        [VLLM_PYTHON, Path(__file__).with_name("vllm_engines.py")],
        env={**os.environ, **VARIABLES, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = [
        json.loads(line)
        for line in done.stdout.splitlines()
        if line.startswith("{")
    ]
    return dict(zip(CASES, told, strict=True))


def told_by_the_server(address: str) -> dict[str, str]:
    """The labels of vllm:cache_config_info."""
    with urllib.request.urlopen(f"{address}/metrics") as response:
        page = response.read().decode()
    line = next(
        line
        for line in page.splitlines()
        if line.startswith("vllm:cache_config_info{")
    )
    return dict(re.findall(r'(\w+)="([^"]*)"', line))


def sized(
    model: Path, flags: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> dict[str, int]:
    """What our command says."""
    assert (
        benchrun(["kv-cache", str(model), "-o", "json", "--serve", CACHE, *flags])
        == 0
    )
    found: dict[str, int] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", CASES)
def test_tokens_that_fit_are_those_that_vllm_finds(
    models: Path,
    engines: Mapping[str, Mapping[str, int]],
    name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours = sized(models / name, CASES[name], capsys)
    theirs = engines[name]
    assert ours["blocks"] == theirs["num_gpu_blocks"]
    assert ours["cacheTokens"] == pytest.approx(
        theirs["kv_cache_size_tokens"], rel=0.01
    )


def test_a_server_tells_the_same_in_its_metrics(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "windowed"
    ours = sized(models / name, CASES[name], capsys)
    with vllm_server(
        models / name, [CACHE, *CASES[name]], tmp_path / "vllm.log"
    ) as server:
        server.wait_healthy()
        theirs = told_by_the_server(server.url)
    assert ours["cacheTokens"] == pytest.approx(
        int(theirs["kv_cache_size_tokens"]), rel=0.01
    )
