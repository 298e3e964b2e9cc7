"""`benchrun get`: the list and the summary."""

from __future__ import annotations

import pytest
from benchrun.cli.__main__ import main
from unit.cli.fake_kubectl import FakeKubectl
from unit.report.going_on import ended, run_body, running

Capture = pytest.CaptureFixture[str]


def test_a_table_of_all_runs(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives("get", body={"items": [run_body(running(), name="a"), run_body(ended(), name="b")]})
    assert main(["get", "-n", "lab", "-l", "team=x"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["run", "state", "stages", "load"]
    assert {line.split()[0]: line.split()[1] for line in lines[1:]} == {"a": "Running", "b": "Valid"}
    assert kubectl.asked() == [
        ["get", "benchmarkruns.benchrun.dev", "--selector=team=x", "--output=json", "--namespace=lab"]
    ]


def test_of_all_namespaces(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives("get", "--all-namespaces", body={"items": [run_body(running(), namespace="far")]})
    assert main(["get", "-A", "-n", "lab"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["far", "chat"]
    assert "--namespace=lab" not in kubectl.asked()[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no runs in this namespace; -A lists all\n"),
        (["-n", "lab"], "no runs in namespace lab; -A lists all\n"),
        (["-n", "lab", "-l", "a=b"], "no runs with labels a=b in namespace lab; -A lists all\n"),
        (["-A"], "no runs in this cluster; benchrun run -f FILE makes one; examples/ has some\n"),
    ],
)
def test_an_empty_list_says_so(options: list[str], said: str, kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives("get", body={"items": []})
    assert main(["get", *options]) == 0
    assert capsys.readouterr().out == said


def test_one_run_is_summed_up(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives("get", "chat", body=run_body(ended("Suspect")))
    assert main(["get", "chat"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "lab/chat: Suspect - ended: Suspect"
    assert "model     Qwen/Qwen3-4B" in [line.rstrip() for line in lines]


def test_a_summary_is_no_verdict(kubectl: FakeKubectl) -> None:
    kubectl.gives("get", "chat", body=run_body(ended("Failed")))
    assert main(["get", "chat"]) == 0


@pytest.mark.parametrize("option", [["-A"], ["-l", "a=b"]])
def test_a_name_and_a_choice_do_not_go_together(option: list[str], capsys: Capture) -> None:
    assert main(["get", "chat", *option]) == 1
    assert "-A and -l choose from a list; leave them out where a run is named" in capsys.readouterr().err


def test_a_run_of_another_version_can_not_be_summed_up(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives("get", "chat", body={**run_body(running()), "status": {"progress": {"stages": 1}}})
    assert main(["get", "chat"]) == 1
    assert "chat was written by another version of the API" in capsys.readouterr().err
