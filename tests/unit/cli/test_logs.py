"""`benchrun logs`: of pods that are there, that come, and that are gone."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from benchrun.cli.__main__ import main
from benchrun.cli.commands import logs
from benchrun.names import child_name
from kit.polling import polling
from unit.cli.fake_kubectl import FakeKubectl
from unit.golden_messages import golden
from unit.plan.specs import Json
from unit.report.going_on import at, ended, run_body, running

Capture = pytest.CaptureFixture[str]
SERVER = "benchrun.dev/role=server"
CLIENT = "benchrun.dev/role=client"
NONE: Json = {"items": []}
CONTAINERS = {"server": "vllm", "client": "client"}


def pod(
    name: str,
    role: str,
    *,
    begun: bool = True,
    restarts: int = 0,
    run: str = "uid-chat",
) -> Json:
    state: Json = (
        {"running": {"startedAt": at(1)}}
        if begun
        else {"waiting": {"reason": "ContainerCreating"}}
    )
    container = CONTAINERS[role]
    kind = "Job" if role == "client" else "ReplicaSet"
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {
                "benchrun.dev/role": role,
                "benchrun.dev/run": "chat",
                "benchrun.dev/run-uid": run,
            },
            "ownerReferences": [
                {
                    "kind": kind,
                    "name": child_name("chat", run, role),
                    "controller": True,
                    "uid": "x",
                }
            ],
            "creationTimestamp": at(0),
        },
        "spec": {"containers": [{"name": container}]},
        "status": {
            "containerStatuses": [
                {"name": container, "state": state, "restartCount": restarts}
            ]
        },
    }


def selected(role: str) -> str:
    return f"--selector=benchrun.dev/run-uid=uid-chat,{role}"


def pods(
    kubectl: FakeKubectl, role: str, *listed: Json, once: bool = False
) -> None:
    kubectl.gives(
        "get", "pods", selected(role), body={"items": list(listed)}, once=once
    )


def run_is(kubectl: FakeKubectl, status: Any, *, once: bool = False) -> None:
    kubectl.gives(
        "get", "benchmarkruns.benchrun.dev", body=run_body(status), once=once
    )


def test_with_two_pods_each_line_names_its_pod(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    run_is(kubectl, running())
    pods(kubectl, SERVER, pod("s", "server"))
    pods(kubectl, CLIENT, pod("c", "client"))
    kubectl.answer(
        "logs", "s", out="loading\n[bold]ready[/bold] " + "x" * 300 + "\n"
    )
    kubectl.answer("logs", "c", out='{"schema":"benchrun.headline/1"}\n')
    assert main(["logs", "chat", "-n", "lab", "--tail=5"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "server | loading",
        "server | [bold]ready[/bold] " + "x" * 300,
        'client | {"schema":"benchrun.headline/1"}',
    ]
    assert [
        "logs",
        "s",
        "--container=server",
        "--tail=5",
        "--namespace=lab",
    ] in kubectl.commands()


@pytest.mark.parametrize(
    ("log", "printed"),
    [
        pytest.param("a\n  b\n", "a\n  b\n", id="lines are printed unchanged"),
        pytest.param(
            "\x1b[2Ja\x1b]0;t\x07\n50%\r99%\n",
            "a\n50%\n99%\n",
            id="a line cannot steer the terminal",
        ),
    ],
)
def test_lines_of_one_pod(
    log: str, printed: str, kubectl: FakeKubectl, capsys: Capture
) -> None:
    run_is(kubectl, running())
    pods(kubectl, SERVER, pod("s", "server"))
    kubectl.answer("logs", "s", out=log)
    assert main(["logs", "chat", "--role", "server"]) == 0
    assert capsys.readouterr().out == printed


def test_pods_that_only_carry_the_label_are_not_read(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    foreign = pod("s2", "server")
    foreign["metadata"]["ownerReferences"] = []
    run_is(kubectl, running())
    pods(kubectl, SERVER, foreign, pod("s", "server"))
    kubectl.answer("logs", "s", out="ours\n")
    assert main(["logs", "chat", "--role", "server"]) == 0
    assert capsys.readouterr().out == "ours\n"


def test_several_pods_of_a_role_are_named(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    run_is(kubectl, running())
    pods(kubectl, SERVER, pod("s-0", "server"), pod("s-1", "server"))
    pods(kubectl, CLIENT, pod("c", "client"))
    for name in ("s-0", "s-1", "c"):
        kubectl.answer("logs", name, out="here\n")
    assert main(["logs", "chat"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "s-0 | here",
        "s-1 | here",
        "client | here",
    ]


def test_several_pods_are_named_also_where_one_role_is_asked_for(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    """Leader and workers of a group have one role."""
    run_is(kubectl, running())
    pods(kubectl, SERVER, pod("s-0", "server"), pod("s-0-1", "server"))
    for name in ("s-0", "s-0-1"):
        kubectl.answer("logs", name, out="here\n")
    assert main(["logs", "chat", "--role", "server"]) == 0
    assert capsys.readouterr().out == "s-0 | here\ns-0-1 | here\n"


def test_what_has_not_begun_is_reported_with_what_it_waits_for(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    run_is(kubectl, running(message="waiting for a node to take the server"))
    pods(kubectl, SERVER, pod("s", "server", begun=False))
    assert main(["logs", "chat", "--role", "server"]) == 1
    golden(capsys.readouterr().err)


def test_when_the_pods_are_gone_the_last_words_are_shown(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    run_is(kubectl, ended("Failed", log_tail="ValueError: [x] too small\n  line 2"))
    pods(kubectl, SERVER)
    pods(kubectl, CLIENT)
    assert main(["logs", "chat"]) == 0
    output = capsys.readouterr()
    golden(*output.out.splitlines(), output.err)


def test_when_nothing_is_kept_that_is_reported_with_where_to_look(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    run_is(kubectl, ended())
    for role in (SERVER, CLIENT):
        pods(kubectl, role)
    assert main(["logs", "chat"]) == 1
    output = capsys.readouterr().err
    golden(output)


def test_a_pod_that_goes_during_a_request_is_gone(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    run_is(kubectl, ended("Failed", log_tail="last"))
    pods(kubectl, SERVER, pod("s", "server"))
    kubectl.fails("logs", error='Error from server (NotFound): pods "s" not found')
    assert main(["logs", "chat", "--role", "server"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "last"


def test_missing_permission_to_read_logs_is_reported(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    run_is(kubectl, running())
    pods(kubectl, SERVER, pod("s", "server"))
    kubectl.fails(
        "logs",
        error='Error from server (Forbidden): pods "s" is forbidden: User "eve" cannot get resource "pods/log" in API group '
        '"" in the namespace "lab"',
    )
    for options in ([], ["-f"]):
        assert main(["logs", "chat", "--role", "server", *options]) == 1
        assert (
            "eve may not get pods/log in namespace lab; ask for the ClusterRole view"
            in capsys.readouterr().err
        )


def test_following_waits_for_the_pod_rereads_a_restarted_one_and_ends_with_the_run(
    kubectl: FakeKubectl, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LOOK_AGAIN_SECONDS", 0.01)
    for _ in range(4):
        run_is(kubectl, running(), once=True)
    run_is(kubectl, ended())
    pods(kubectl, SERVER, once=True)
    pods(kubectl, SERVER, pod("s", "server", begun=False), once=True)
    pods(kubectl, SERVER, pod("s", "server"), once=True)
    pods(kubectl, SERVER, pod("s", "server", restarts=1))
    kubectl.answer("logs", "--follow", out="first\n", once=True)
    kubectl.answer("logs", "--follow", out="second\n", once=True)
    assert main(["logs", "chat", "-f", "--role", "server"]) == 0
    assert capsys.readouterr().out == "first\nsecond\n"


def test_all_pods_of_a_role_are_followed_at_once(
    kubectl: FakeKubectl,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The first one's log goes on until the second has printed; that one comes later."""
    monkeypatch.setattr(logs, "LOOK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(logs, "LOOK_BESIDE_SECONDS", 0.01)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for _ in range(2):
        run_is(kubectl, running(), once=True)
    run_is(kubectl, ended())
    pods(kubectl, SERVER, pod("s-0", "server"), once=True)
    pods(kubectl, SERVER, pod("s-0", "server"), pod("s-0-1", "server"))
    kubectl.answer("logs", "s-0", out="leader\n", after=pipe)
    kubectl.answer("logs", "s-0-1", out="worker\n")
    printed: list[str] = []

    def let_go() -> None:
        # Opening waits for the reader; the second pod is printed by then.
        for _ in polling("the lines of the second pod", seconds=30):
            printed.append(capsys.readouterr().out)
            if "worker" in "".join(printed):
                break
        pipe.write_text("go")

    thread = threading.Thread(target=let_go)
    thread.start()
    assert main(["logs", "chat", "-f", "--role", "server"]) == 0
    thread.join()
    assert "s-0-1 | worker" in "".join(printed)
    assert capsys.readouterr().out.endswith("leader\n")


def test_following_a_run_that_is_deleted_ends(
    kubectl: FakeKubectl, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LOOK_AGAIN_SECONDS", 0.01)
    run_is(kubectl, running(), once=True)
    kubectl.answer("get", "benchmarkruns.benchrun.dev", "--ignore-not-found")
    kubectl.fails(
        "get",
        "chat",
        error='Error from server (NotFound): benchmarkruns.benchrun.dev "chat" not found',
    )
    kubectl.gives("get", "benchmarkruns.benchrun.dev", body=NONE)
    pods(kubectl, SERVER)
    assert main(["logs", "chat", "-f", "--role", "server"]) == 1
    golden(capsys.readouterr().err)
