"""`benchrun run -f`: applied, followed, told; with a kubectl that is a real process."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import BenchmarkRunStatus
from benchrun.cli.__main__ import main
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.finished_runs import finished_run
from unit.golden_messages import golden
from unit.plan.specs import Json, spec_body
from unit.report.going_on import ended, run_body, running

Capture = pytest.CaptureFixture[str]


def manifest(name: str | None = "chat", **metadata: Any) -> Json:
    named = {"name": name} if name is not None else {"generateName": "chat-"}
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": named | metadata,
        "spec": spec_body(),
    }


def file(folder: Path, *bodies: Json) -> str:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    return str(path)


def fresh(name: str = "chat") -> Json:
    """As the API server answers to a new one."""
    return {
        **run_body(BenchmarkRunStatus(), name=name),
        "status": {"observedGeneration": -1},
    }


def new(kubectl: FakeKubectl, name: str = "chat") -> None:
    kubectl.answer("get", name, "--ignore-not-found")
    kubectl.gives("apply", body=fresh(name))


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ended("Valid"), 0),
        (ended("Suspect"), 0),
        (ended("Invalid"), 4),
        (ended("Failed"), 2),
        (ended("Cancelled"), 5),
    ],
    ids=["Valid", "Suspect", "Invalid", "Failed", "Cancelled"],
)
def test_the_exit_code_is_that_of_the_verdict(
    end: BenchmarkRunStatus,
    code: int,
    tmp_path: Path,
    kubectl: FakeKubectl,
    capsys: Capture,
) -> None:
    new(kubectl)
    kubectl.watch(run_body(running(done=0)), run_body(end))
    assert main(["run", "-f", file(tmp_path, manifest()), "-n", "lab"]) == code
    output = capsys.readouterr().out
    assert output.startswith("BenchmarkRun chat in namespace lab created\n")
    assert f"chat: {end.verdict or end.phase} - {end.message}" in output


def test_stages_and_their_figures_go_by_in_a_log(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    run = finished_run()
    new(kubectl, "judged")
    for body in run.config_maps:
        kubectl.gives("get", "configmaps", body["metadata"]["name"], body=body)
    moments = [run_body(running(done=done), name="judged") for done in (0, 1, 3)]
    kubectl.watch(*moments, {**run.body, "metadata": moments[0]["metadata"]})
    assert main(["run", "-f", file(tmp_path, manifest("judged"))]) == 0
    lines = [
        line for line in capsys.readouterr().out.splitlines() if "  stage " in line
    ]
    assert [line.split("  ")[1].split(":")[0] for line in lines] == [
        "stage 1/4 chat/rate=4/r1",
        "stage 2/4 chat/rate=8/r1",
        "stage 3/4 chat/rate=4/r2",
    ]


def test_what_the_status_has_no_room_for_comes_from_the_document(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    run = finished_run()
    first = run_body(running(done=3), name="judged")
    cut = {
        **run.body["status"],
        "results": run.body["status"]["results"][:1],
        "truncated": [{"field": "results", "total": 2, "included": 1}],
    }
    metadata = {**first["metadata"], "uid": run.document.run.uid}
    end = {**run.body, "metadata": metadata, "status": cut}
    new(kubectl, "judged")
    kubectl.gives("configmap", body=run.config_maps[-1])
    kubectl.gives("get", "judged", body=end, unless="--watch")
    kubectl.watch(first, end)
    assert main(["run", "-f", file(tmp_path, manifest("judged"))]) == 0
    table = capsys.readouterr().out.partition("load point")[2]
    assert [row.load_point for row in run.document.results] == [
        line.split()[0] for line in table.splitlines() if line.startswith("chat/")
    ]


def test_without_access_to_records_stages_go_by_without_figures(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    new(kubectl)
    kubectl.fails(
        "get",
        "configmaps",
        error='Error from server (Forbidden): configmaps "a" is forbidden: User "eve" cannot get resource "configmaps" in API '
        'group "" in the namespace "lab"',
    )
    kubectl.watch(
        run_body(running(done=0)),
        run_body(running(done=1)),
        run_body(running(done=2)),
        run_body(ended()),
    )
    assert main(["run", "-f", file(tmp_path, manifest())]) == 0
    assert "stage 1/4 chat/rate=8/r1: measured" in capsys.readouterr().out
    assert (
        sum("configmaps" in arguments for arguments in kubectl.commands()) == 1
    ), "asked again though it is forbidden"


def test_generate_name_makes_a_new_run_and_follows_that(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.gives("create", body=fresh("chat-x7f2k"))
    kubectl.watch(run_body(ended(), name="chat-x7f2k"))
    assert main(["run", "-f", file(tmp_path, manifest(None))]) == 0
    assert kubectl.commands()[-1][:4] == [
        "get",
        "benchmarkruns.benchrun.dev",
        "chat-x7f2k",
        "--watch",
    ]
    golden(capsys.readouterr().out)


def test_no_wait_only_applies(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    new(kubectl)
    assert main(["run", "--no-wait", "-f", file(tmp_path, manifest())]) == 0
    assert not any("--watch" in arguments for arguments in kubectl.commands())
    golden(capsys.readouterr().out)


def test_a_dataset_is_applied_before_its_run_and_handed_on_unchanged(
    tmp_path: Path, kubectl: FakeKubectl
) -> None:
    data = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rows"},
        "data": {"at": "2026-01-01"},
    }
    kubectl.answer("apply", out=json.dumps(data), once=True)
    new(kubectl)
    kubectl.watch(run_body(ended()))
    assert main(["run", "-f", file(tmp_path, data, manifest())]) == 0
    assert [yaml.safe_load(text) for text in kubectl.given("apply")] == [
        data,
        manifest(),
    ]


def test_a_file_without_a_run_is_applied_and_that_is_all(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    data = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rows", "namespace": "lab"},
    }
    kubectl.gives("apply", body=data)
    assert main(["run", "-f", file(tmp_path, data)]) == 0
    golden(capsys.readouterr().out)


def test_a_broken_second_document_leaves_nothing_running(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    assert (
        main(["run", "-f", file(tmp_path, manifest(), {"kind": "BenchmarkRun"})])
        == 1
    )
    assert "run.yaml, document 2: " in capsys.readouterr().err
    assert kubectl.commands() == []


# ---- a run that is there already
# -------------------------------------------------------------------------------------


def test_one_that_is_under_way_is_followed(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.gives("get", "chat", "--ignore-not-found", body=run_body(running()))
    kubectl.gives("apply", body=run_body(running()))
    kubectl.watch(run_body(running()), run_body(ended()))
    assert main(["run", "-f", file(tmp_path, manifest())]) == 0
    assert (
        "BenchmarkRun chat in namespace lab exists already; following it"
        in capsys.readouterr().out
    )


def test_one_that_has_ended_gets_no_second_measurement_and_does_not_look_so(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.gives("get", "chat", "--ignore-not-found", body=run_body(ended()))
    kubectl.gives("apply", "--dry-run=server", body=run_body(ended()))
    assert main(["run", "-f", file(tmp_path, manifest())]) == 1
    output = capsys.readouterr().err
    golden(output)


@pytest.mark.parametrize("status", [running(), ended()], ids=["under way", "ended"])
def test_another_spec_under_its_name_is_rejected_with_what_to_do(
    status: BenchmarkRunStatus,
    tmp_path: Path,
    kubectl: FakeKubectl,
    capsys: Capture,
) -> None:
    kubectl.gives("get", "chat", "--ignore-not-found", body=run_body(status))
    kubectl.fails(
        "apply",
        error='The BenchmarkRun "chat" is invalid: \n* spec.repeats: Invalid value: "integer": spec.repeats is immutable; '
        'create a new run\n* spec.server: Invalid value: "object": spec.server is immutable; create a new run',
    )
    path = file(tmp_path, manifest())
    assert main(["run", "-f", path]) == 1
    output = capsys.readouterr().err
    assert all(
        remedy in output
        for remedy in ("generateName: chat-", "kubectl delete bmr chat\n")
    )
    golden(output)


# ---- several
# ---------------------------------------------------------------------------------------------------------


def two(kubectl: FakeKubectl) -> None:
    for name in ("a", "b"):
        kubectl.answer("get", name, "--ignore-not-found")
    for name in ("a", "b"):
        kubectl.answer("apply", out=json.dumps(fresh(name)), once=True)


def watched(
    kubectl: FakeKubectl,
    name: str,
    *statuses: BenchmarkRunStatus,
    last: str = "MODIFIED",
) -> None:
    kubectl.watch(
        *(run_body(status, name=name) for status in statuses),
        last=last,
        target=name,
    )


def test_several_runs_are_followed_at_once_and_the_worst_decides(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    two(kubectl)
    watched(kubectl, "a", running(), ended("Invalid"))
    watched(kubectl, "b", running(), ended("Valid"))
    assert main(["run", "-f", file(tmp_path, manifest("a"), manifest("b"))]) == 4
    output = capsys.readouterr().out
    assert [
        line[0] for line in output.splitlines() if "  Running · 1/4" in line
    ] in (
        ["a", "b"],
        ["b", "a"],
    )
    assert "a: Invalid - " in output
    assert "b: Valid - " in output


def test_one_that_is_deleted_does_not_keep_the_other_from_its_end(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    two(kubectl)
    watched(kubectl, "a", running(), running(), last="DELETED")
    watched(kubectl, "b", running(), ended("Valid"))
    assert main(["run", "-f", file(tmp_path, manifest("a"), manifest("b"))]) == 1
    output = capsys.readouterr().out
    assert "a: a was deleted" in output
    assert "b: Valid - " in output


def test_what_was_applied_before_an_error_is_reported(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.answer("get", "--ignore-not-found")
    kubectl.answer("apply", out=json.dumps(fresh("a")), once=True)
    kubectl.fails(
        "apply",
        error='Error from server (BadRequest): strict decoding error: unknown field "spec.sever"',
    )
    assert main(["run", "-f", file(tmp_path, manifest("a"), manifest("b"))]) == 1
    output = capsys.readouterr()
    golden(output.err, output.out)


def test_runs_of_one_name_in_two_namespaces_are_distinguished_by_hand(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.answer("get", "--ignore-not-found")
    for namespace in ("one", "two"):
        kubectl.answer(
            "apply",
            f"--namespace={namespace}",
            out=json.dumps(run_body(running(), namespace=namespace)),
        )
    bodies = [manifest(namespace=namespace) for namespace in ("one", "two")]
    assert main(["run", "-f", file(tmp_path, *bodies)]) == 1
    golden(capsys.readouterr().err)


def test_two_namespaces_that_disagree_are_rejected(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    assert (
        main(["run", "-n", "lab", "-f", file(tmp_path, manifest(namespace="prod"))])
        == 1
    )
    assert kubectl.commands() == []
    golden(capsys.readouterr().err)


def test_the_cluster_is_not_the_files_fault(
    tmp_path: Path, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.fails(
        "get",
        error="The connection to the server localhost:8080 was refused - did you specify ...",
    )
    assert main(["run", "-f", file(tmp_path, manifest())]) == 1
    golden(capsys.readouterr().err)
