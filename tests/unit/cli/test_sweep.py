"""`benchrun sweep` on files and on what kubectl gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchrun.cli.__main__ import main
from benchrun.judge.sweep.measured import essence
from unit.cli.fake_kubectl import FakeKubectl
from unit.judge.comparison.sides import row, run
from unit.sweep import simulated
from unit.sweep.simulated import SimulatedCluster, SimulatedOperator
from unit.sweep.sweeps import NAME, THREE, a_run, ended, failed, sweep_body

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def body(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A sweep of three variants: a baseline, a faster one, and one that ran out of memory."""
    throughput = {"seqs-v1-r1": 1000.0, "seqs-v2-r1": 1250.0}
    monkeypatch.setattr(
        simulated,
        "figures",
        lambda name: essence(run(name, [row(repeats=5, cv=1.0, OutputThroughput=throughput[name])]).status),
    )
    cluster = SimulatedCluster(sweep_body(THREE))
    for name in throughput:
        cluster.runs[name] = a_run(name, status=ended())
    cluster.runs["seqs-v3-r1"] = a_run("seqs-v3-r1", status=failed("OutOfGPUMemory", "CUDA out of memory"))
    SimulatedOperator(cluster).make_pass()
    return {"kind": "BenchmarkSweep", "metadata": {"name": NAME}, "spec": cluster.spec, "status": cluster.status}


@pytest.fixture
def file(tmp_path: Path, body: dict[str, Any]) -> str:
    path = tmp_path / "sweeps.json"
    path.write_text(json.dumps({"kind": "List", "items": [{"kind": "BenchmarkRun", "metadata": {"name": NAME}}, body]}))
    return str(path)


def lines(said: str) -> list[list[str]]:
    return [line.split() for line in said.splitlines()]


def test_figures_then_changes_then_who_did_best(file: str, capsys: Capture) -> None:
    assert main(["sweep", NAME, "-f", file]) == 0
    said = lines(capsys.readouterr().out)
    assert said[0][:2] == ["seqs:", "Valid"]
    assert ["base", "chat/rate=4", "1", "9.4", "1000", "1000", "43", "11", "1440", "Valid"] in said
    assert ["wide", "chat/rate=4", "1", "9.4", "1250", "1250", "43", "11", "1440", "Valid"] in said
    assert ["wider", "chat/rate=4", "0", *"------", "OutOfGPUMemory"] in said
    [change] = [line for line in said if line[:3] == ["wide", "chat/rate=4", "OutputThroughput"]]
    assert (change[3:5], change[-1]) == (["+25.0", "%"], "Better")
    assert ["chat", "throughput", "wide", "chat/rate=4", "1250", "-"] in said


def test_what_is_to_be_known_of_the_table_is_said(file: str, capsys: Capture) -> None:
    main(["sweep", NAME, "-f", file])
    said = " ".join(capsys.readouterr().out.split())
    assert "against base, within one server: the intervals hold the noise of repeats" in said
    assert "wider: OutOfGPUMemory in seqs-v3-r1: CUDA out of memory" in said


def test_it_is_asked_of_the_cluster(kubectl: FakeKubectl, body: dict[str, Any], capsys: Capture) -> None:
    kubectl.answer("get", "benchmarksweeps.benchrun.dev", NAME, out=json.dumps(body))
    assert main(["sweep", NAME, "-n", "lab"]) == 0
    assert "against base" in capsys.readouterr().out


def test_a_sweep_that_nobody_looked_at_yet(kubectl: FakeKubectl, body: dict[str, Any], capsys: Capture) -> None:
    kubectl.answer("get", NAME, out=json.dumps({**body, "status": {"observedGeneration": -1}}))
    assert main(["sweep", NAME]) == 0
    assert capsys.readouterr().out.startswith("seqs: Unknown")


def test_a_file_without_it_is_named(file: str, capsys: Capture) -> None:
    assert main(["sweep", "other", "-f", file]) == 1
    assert "holds no BenchmarkSweep other" in " ".join(capsys.readouterr().err.split())
    assert main(["sweep", "other", "-f", f"{file}.none"]) == 1
    assert "can't be read" in " ".join(capsys.readouterr().err.split())
