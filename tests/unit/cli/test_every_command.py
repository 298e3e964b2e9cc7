"""Every command under the same troubles: a cluster that is none, an output that is full or closed.
One line, one code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from benchrun.cli.__main__ import COMMANDS, main
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.finished_runs import finished_run, listed
from unit.cli.test_interrupts import PYTHONPATH
from unit.golden_messages import golden
from unit.preflight.checks import manifest

Capture = pytest.CaptureFixture[str]
ASKING = {
    "get": ["get"],
    "get-one": ["get", "chat"],
    "watch": ["watch", "chat"],
    "logs": ["logs", "chat"],
    "report": ["report", "chat"],
    "report-page": ["report", "chat", "--html", "x.html"],
    "export": ["export", "chat", "--format=csv"],
    "compare": ["compare", "chat", "rag"],
    "judge": ["judge", "chat"],
    "report-sweep": ["report", "chat", "--sweep"],
    "watch-sweep": ["watch", "chat", "--sweep"],
}
"""Commands that ask the cluster."""
TROUBLES = {
    "down": (
        "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host "
        "or port?",
        "the cluster at 10.0.0.1:6443 does not answer",
    ),
    "away": (
        "Unable to connect to the server: dial tcp: i/o timeout",
        "the cluster does not answer (dial tcp: i/o timeout)",
    ),
    "no-context": (
        'error: context "prod" does not exist',
        "there is no context prod; kubectl config get-contexts lists them",
    ),
    "logged-out": (
        "error: You must be logged in to the server (Unauthorized)",
        "log in to it again",
    ),
    "forbidden": (
        'Error from server (Forbidden): benchmarkruns.benchrun.dev is forbidden: User "eve" cannot get resource '
        '"benchmarkruns" in API group "benchrun.dev" in the namespace "lab"',
        "eve may not get benchmarkruns in namespace lab; ask for the ClusterRole view there",
    ),
    "odd": ("error: something new", "something new"),
}


@pytest.mark.parametrize(
    "command",
    [pytest.param(arguments, id=name) for name, arguments in ASKING.items()],
)
@pytest.mark.parametrize(
    ("message", "reported"),
    [pytest.param(*trouble, id=name) for name, trouble in TROUBLES.items()],
)
def test_a_cluster_that_says_no_is_one_line_and_1(
    command: list[str],
    message: str,
    reported: str,
    kubectl: FakeKubectl,
    capsys: Capture,
) -> None:
    kubectl.fails(error=message)
    assert main([*command, "-n", "lab"]) == 1
    out, error = capsys.readouterr()
    assert error.startswith("benchrun: ")
    assert reported in error
    assert (out, error.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    "command",
    [pytest.param(arguments, id=name) for name, arguments in ASKING.items()],
)
def test_namespace_and_context_reach_kubectl(
    command: list[str], kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.fails(error="error: something new")
    main([*command, "-n", "lab", "--context", "dev"])
    assert kubectl.commands()
    assert all(
        {"--namespace=lab", "--context=dev"} <= set(words)
        for words in kubectl.commands()
    )
    main(command)
    assert not {"--namespace=lab", "--context=dev"} & set(kubectl.commands()[-1])


def test_help_lists_every_command_in_order_and_each_explains_itself(
    capsys: Capture,
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    names = [
        module.__name__.rpartition(".")[2].replace("_", "-") for module in COMMANDS
    ]
    places = [text.index(f"\n    {name} ") for name in names]
    assert places == sorted(places)
    for name in names:
        with pytest.raises(SystemExit) as helped:
            main([name, "--help"])
        assert helped.value.code == 0
        assert f"usage: benchrun {name}" in capsys.readouterr().out


# ---- where the output goes
# -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Commands that need no cluster, with files: one each of those that print, draw tables, dump
    JSON and write bytes."""
    folder = tmp_path_factory.mktemp("files")
    run, maps, wanted = (
        folder / name for name in ("run.yaml", "maps.yaml", "manifest.yaml")
    )
    made = finished_run()
    run.write_text(yaml.safe_dump(made.body), encoding="utf-8")
    maps.write_text(yaml.safe_dump(listed(made.config_maps)), encoding="utf-8")
    wanted.write_text(yaml.safe_dump(manifest()), encoding="utf-8")
    return {
        "explain": ["explain", "Drift"],
        "check-json": ["check", "-f", str(wanted), "-o", "json"],
        "report": ["report", "-f", str(run)],
        "export": [
            "export",
            "-f",
            str(run),
            "--records",
            str(maps),
            "--format=vllm",
        ],
    }


OFFLINE = ("explain", "check-json", "report", "export")


def ended(arguments: list[str], stdout: int) -> tuple[int, str]:
    """As a process: its code and what it said on stderr."""
    command = [sys.executable, "-m", "benchrun.cli", *arguments]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    done = subprocess.run(
        command,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", OFFLINE)
def test_a_reader_that_has_seen_enough_is_no_error(
    name: str, offline: dict[str, list[str]]
) -> None:
    read_end, writing = os.pipe()
    os.close(read_end)
    try:
        assert ended(offline[name], writing) == (0, "")
    finally:
        os.close(writing)


@pytest.mark.parametrize("name", ["explain", "report", "export"])
def test_a_disk_that_is_full_is_an_error(
    name: str, offline: dict[str, list[str]]
) -> None:
    with Path("/dev/full").open("w") as full:
        code, message = ended(offline[name], full.fileno())
    assert code == 1
    golden(message)


def test_a_terminal_without_bars_gets_question_marks(
    offline: dict[str, list[str]],
) -> None:
    command = [sys.executable, "-m", "benchrun.cli", *offline["report"]]
    plain = {
        "PYTHONPATH": PYTHONPATH,
        "PYTHONIOENCODING": "ascii",
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(command, capture_output=True, check=False, env=plain)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
