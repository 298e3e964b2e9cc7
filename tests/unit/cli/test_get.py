"""`benchrun get`: the list and the summary."""

import json
from typing import Any

import pytest
from benchrun.cli.__main__ import main
from unit.cli.fake_kubectl import FakeKubectl
from unit.golden_messages import golden
from unit.plan.specs import Json
from unit.report.finished_sweeps import (
    Measured,
    batches,
    finished_sweep,
    sweep_object,
)
from unit.report.going_on import ended, run_body, running
from unit.sweep.sweeps import decided, sweep_body

Capture = pytest.CaptureFixture[str]
RUNS = "benchmarkruns.benchrun.dev"
SWEEPS = "benchmarksweeps.benchrun.dev"


def test_a_table_of_all_runs(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives(
        "get",
        RUNS,
        body={
            "items": [run_body(running(), name="a"), run_body(ended(), name="b")]
        },
    )
    kubectl.gives("get", SWEEPS, body={"items": []})
    assert main(["get", "-n", "lab", "-l", "team=x"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["run", "state", "stages", "load"]
    assert {line.split()[0]: line.split()[1] for line in lines[1:]} == {
        "a": "Running",
        "b": "Valid",
    }
    assert kubectl.commands() == [
        ["get", RUNS, "--selector=team=x", "--output=json", "--namespace=lab"],
        ["get", SWEEPS, "--selector=team=x", "--output=json", "--namespace=lab"],
    ]


def test_get_lists_all_namespaces(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives(
        "get",
        RUNS,
        "--all-namespaces",
        body={"items": [run_body(running(), namespace="far")]},
    )
    kubectl.gives("get", SWEEPS, "--all-namespaces", body={"items": []})
    assert main(["get", "-A", "-n", "lab"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["far", "chat"]
    assert "--namespace=lab" not in kubectl.commands()[0]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-n", "lab"],
        ["-n", "lab", "-l", "a=b"],
        ["-A"],
        ["--active"],
        ["--active", "-A"],
    ],
)
def test_an_empty_list_prints_a_message(
    options: list[str], kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.gives("get", body={"items": []})
    assert main(["get", *options]) == 0
    golden(capsys.readouterr().out)


def test_one_run_is_summed_up(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives("get", "chat", body=run_body(ended("Suspect")))
    assert main(["get", "chat"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "model     Qwen/Qwen3-4B" in [line.rstrip() for line in lines]
    golden(lines[0])


def test_a_summary_is_no_verdict(kubectl: FakeKubectl) -> None:
    kubectl.gives("get", "chat", body=run_body(ended("Failed")))
    assert main(["get", "chat"]) == 0


@pytest.mark.parametrize(
    "option", [["-A"], ["-l", "a=b"], ["--active"], ["-o", "json"]]
)
def test_a_name_and_a_choice_do_not_go_together(
    option: list[str], capsys: Capture
) -> None:
    assert main(["get", "chat", *option]) == 1
    golden(capsys.readouterr().err)


def test_a_run_of_another_version_cannot_be_summed_up(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.gives(
        "get",
        "chat",
        body={**run_body(running()), "status": {"progress": {"stages": 1}}},
    )
    assert main(["get", "chat"]) == 1
    golden(capsys.readouterr().err)


# ---- what is active, and for programs
# -------------------------------------------------------------------------------------------------


def of_another_release(name: str, *, complete: str = "False") -> Json:
    """A run whose status this command can't read as a whole."""
    conditions = [{"type": "Complete", "status": complete, "reason": "Whatever"}]
    status = {"phase": "Distilling", "conditions": conditions, "progress": {"x": 1}}
    return {**run_body(running(), name=name), "status": status}


def there_are(kubectl: FakeKubectl) -> None:
    """Runs and sweeps, ended and not, of this and of another release."""
    going_on = sweep_object(
        decided().status.model_dump(mode="json", by_alias=True),
        name="new",
        spec=sweep_body(),
    )
    runs = [
        run_body(running(), name="a", namespace="far"),
        run_body(ended(), name="b"),
        run_body(ended("Failed"), name="c"),
        of_another_release("odd"),
        of_another_release("odd-ended", complete="True"),
        {**run_body(running(), name="unseen"), "status": {}},
    ]
    kubectl.gives("get", RUNS, body={"items": runs})
    kubectl.gives("get", SWEEPS, body={"items": [batches().body, going_on]})


def test_the_active_are_those_that_an_upgrade_would_meet(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    there_are(kubectl)
    assert main(["get", "-A", "--active", "-o", "name"]) == 0
    assert [
        line.split("/")[1] for line in capsys.readouterr().out.splitlines()
    ] == [
        "a",
        "odd",
        "unseen",
        "new",
    ]
    assert main(["get", "--active"]) == 0
    table = capsys.readouterr().out
    assert {line.split()[0] for line in table.splitlines() if line} == {
        "run", "a", "odd", "unseen", "sweep", "new",
    }  # fmt: skip


def test_names_are_as_kubectl_takes_them(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    there_are(kubectl)
    assert main(["get", "-o", "name"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert (first, last) == (f"{RUNS}/a", f"{SWEEPS}/new")
    assert main(["get", "-A", "-o", "name"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"far {RUNS}/a"


def test_programs_get_the_facts_of_each(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    there_are(kubectl)
    assert main(["get", "-o", "json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["odd"] == {
        "kind": "BenchmarkRun",
        "namespace": "lab",
        "name": "odd",
        "active": True,
        "phase": "Distilling",
        "verdict": None,
        "acceptedTime": None,
        "completionTime": None,
        "message": None,
    }
    assert (found["b"]["active"], found["b"]["verdict"]) == (False, "Valid")
    assert found["odd-ended"]["active"] is False
    assert found["new"]["kind"] == "BenchmarkSweep"


def test_of_nothing_there_is_an_empty_list(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.gives("get", body={"items": []})
    for output, expected in (("json", "[]\n"), ("name", "")):
        assert main(["get", "--active", "-o", output]) == 0
        assert capsys.readouterr().out == expected


ODD: list[Any] = [
    None,
    [],
    "Running",
    {"conditions": "Complete"},
    {"conditions": [None, {"type": []}, {"type": "Complete", "status": True}]},
    {"phase": {"a": 1}, "verdict": 7, "message": "\x1b[2J\ud800" + "x" * 10_000},
    {"completionTime": "9999-99-99", "acceptedTime": -1, "headline": []},
    {"results": [1], "servers": {"a": []}, "best": "x", "runs": 3},
]


@pytest.mark.parametrize("status", ODD)
@pytest.mark.parametrize("output", ["table", "json", "name"])
def test_no_status_keeps_the_others_from_being_listed(
    status: Any, output: str, kubectl: FakeKubectl, capsys: Capture
) -> None:
    body = {**run_body(running(), name="odd"), "status": status}
    good = run_body(running(), name="good")
    kubectl.gives("get", RUNS, body={"items": [body, good]})
    kubectl.gives("get", SWEEPS, body={"items": [{**body, "spec": status}]})
    for options in (["--wide"], ["--active", "-A"]):
        assert main(["get", "-o", output, *options]) == 0
        out = capsys.readouterr().out
        assert out.count("odd") >= 2
        assert "good" in out
        assert "\x1b" not in out


# ---- sweeps
# ----------------------------------------------------------------------------------------------------------


def test_sweeps_stand_below_the_runs(kubectl: FakeKubectl, capsys: Capture) -> None:
    going_on = sweep_object(
        decided().status.model_dump(mode="json", by_alias=True),
        name="new",
        spec=sweep_body(),
    )
    kubectl.gives("get", RUNS, body={"items": [run_body(ended())]})
    kubectl.gives("get", SWEEPS, body={"items": [batches().body, going_on]})
    assert main(["get"]) == 0
    lines = capsys.readouterr().out.splitlines()
    runs = lines[:2]
    sweeps = lines[3:]
    assert runs[1].split()[0] == "chat"
    assert lines[2] == ""
    assert sweeps[0].split()[:4] == ["sweep", "state", "runs", "best"]
    assert {line.split()[0]: line.split()[1:5] for line in sweeps[1:]} == {
        "seqs": ["Valid", "3/3", "80000", "chat/rate=inf"],
        "new": ["Running", "0/2", "-", "-"],
    }


def test_sweeps_alone_are_listed_too(kubectl: FakeKubectl, capsys: Capture) -> None:
    kubectl.gives("get", RUNS, body={"items": []})
    kubectl.gives("get", SWEEPS, body={"items": [batches().body]})
    assert main(["get", "--wide"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "sweep"
    assert lines[1].split()[-3:] == [
        "10000",
        "Qwen/Qwen3-4B",
        "vllm/vllm-openai:v0.32.0",
    ]


def test_who_may_not_see_sweeps_sees_runs(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.gives("get", RUNS, body={"items": [run_body(ended())]})
    kubectl.fails(
        "get",
        SWEEPS,
        error='Error from server (Forbidden): benchmarksweeps.benchrun.dev is forbidden: User "eve" cannot list resource '
        '"benchmarksweeps" in API group "benchrun.dev" in the namespace "lab"',
    )
    assert main(["get"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "run",
        "chat",
    ]


def test_a_sweep_is_summed_up_where_there_is_no_such_run(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.fails(
        "get",
        RUNS,
        "seqs",
        error='Error from server (NotFound): benchmarkruns.benchrun.dev "seqs" not found',
    )
    kubectl.gives("get", RUNS, body={"items": []})
    kubectl.gives(
        "get",
        SWEEPS,
        "seqs",
        body=finished_sweep({"base": Measured(), "wide": None}).body,
    )
    assert main(["get", "seqs", "-n", "lab"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("lab/seqs: Valid - measured 1 of 2 variants")
    lines_shown = [" ".join(line.split()) for line in lines]
    assert "runs 1 completed, 1 failed" in lines_shown
    assert (
        "note wide: OutOfGPUMemory in seqs-v2-r1: CUDA out of memory" in lines_shown
    )
    assert lines[-1] == "$ benchrun report seqs -n lab"
