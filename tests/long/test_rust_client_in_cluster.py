"""The load engine in Rust in the cluster: a client image that has it, made here of ours and the program."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from client.rust_client import RUST_CLIENT
from kit.kubectl import Namespace, command
from kit.runs import condition, finished, simulated_run

ROOT = Path(__file__).parents[2]
IMAGE = "docker.io/benchrun/client-rust:dev"
DOCKERFILE = "FROM docker.io/benchrun/client:dev\nCOPY vllm-rs /usr/local/bin/vllm-rs\n"
WORKLOADS: list[dict[str, Any]] = [
    {
        "name": "users",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
        "load": {"concurrencies": [8]},
        "requests": 160,
    },
    {
        "name": "arrivals",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
        "load": {"requestRates": ["20"]},
        "requests": 200,
        "api": "Chat",
    },
]

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def image(tmp_path: Path) -> str:
    """A client image that has the program."""
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    shutil.copy(RUST_CLIENT, tmp_path / "vllm-rs")
    command(sys.executable, str(ROOT / "devcluster"), "build", "-t", IMAGE, str(tmp_path), timeout_seconds=200)
    return IMAGE


def test_it_measures_and_the_result_says_who_did(namespace: Namespace, image: str) -> None:
    namespace.apply(
        simulated_run(
            "rust",
            args=("--sim-ttft-ms=40", "--sim-tpot-ms=5"),
            client={"engine": "VLLMRust", "image": image},
            workloads=WORKLOADS,
            measurement={"warmup": {"none": None, "auto": {}}},
        )
    )
    run = finished(namespace, "rust", timeout_seconds=300)
    assert condition(run, "Complete")["status"] == "True", run["status"]["message"]
    assert (run["status"]["client"]["engine"], run["status"]["client"]["engineVersion"]) == ("vllm-rs", "0.32.0")
    rows = run["status"]["results"]
    assert [(row["metrics"]["completed"], row["metrics"]["failed"]) for row in rows] == [(160, 0), (200, 0)]
    for row in rows:
        assert row["verdict"] in ("Valid", "Suspect"), row
        assert 40 <= row["metrics"]["p50_ttft_ms"] < 80
        assert 4.9 <= row["metrics"]["p50_tpot_ms"] < 8
    unseen = {finding["code"]: finding for finding in run["status"]["findings"]}["NotChecked"]
    assert "event-loop lag" in json.dumps(unseen)
