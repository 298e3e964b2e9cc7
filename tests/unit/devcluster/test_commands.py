"""The command line: what it prints and how it refuses."""

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from devcluster import commands, settings
from devcluster.objects import capacity_patch, initial_objects

REPOSITORY = Path(__file__).parents[3]


def test_env_is_one_line_a_shell_can_evaluate() -> None:
    made = settings.from_environment(
        {"DEVCLUSTER_DIR": "/a b", "DEVCLUSTER_CACHE": "/c d"},
        home=Path("/"),
        here=Path("/"),
    )
    line = commands.environment(made)
    script = f'PATH=/bin; {line}; printf \'%s|%s\' "$KUBECONFIG" "$PATH"'
    printed = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert printed == "/a b/admin.kubeconfig|/c d/bin:/bin"
    assert shlex.split(line)[0] == "export"


def test_a_mistake_is_one_line_and_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEVCLUSTER_FAKE_GPUS", "many")
    assert commands.main(["status"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (
        printed.err
        == "devcluster: DEVCLUSTER_FAKE_GPUS must be a whole number, 0 or more: 'many'\n"
    )


def test_status_without_a_cluster_says_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("DEVCLUSTER_DIR", str(tmp_path / "dc"))
    assert commands.main(["status"]) == 1
    assert capsys.readouterr().out == f"down: no cluster in {tmp_path / 'dc'}\n"


@pytest.mark.parametrize(
    "start", [["devcluster"], ["-m", "devcluster"]], ids=["folder", "module"]
)
def test_it_starts_from_the_repository_root_without_third_party_packages(
    start: list[str],
) -> None:
    # -S and -E: no site-packages and no PYTHONPATH, as with a bare system Python.
    done = subprocess.run(
        [sys.executable, "-SE", *start, "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "bring the cluster up" in done.stdout


def test_standard_is_the_default_storage_class() -> None:
    classes = [
        item
        for item in initial_objects()["items"]
        if item["kind"] == "StorageClass"
    ]
    assert [item["metadata"]["name"] for item in classes] == ["standard"]
    assert classes[0]["metadata"]["annotations"] == {
        "storageclass.kubernetes.io/is-default-class": "true"
    }


def test_devices_are_both_there_and_free() -> None:
    assert capacity_patch(8) == {
        "status": {
            "capacity": {"nvidia.com/gpu": "8"},
            "allocatable": {"nvidia.com/gpu": "8"},
        }
    }


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("10.198.0.254", "HOST:PORT"),
        ("../etc:80", "HOST:PORT"),
        ("10.198.0.254:5000", "no cluster"),
    ],
)
def test_a_registry_is_trusted_by_host_and_port_in_a_cluster_that_is_there(
    address: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("DEVCLUSTER_DIR", str(tmp_path))
    assert commands.main(["trust-registry", address]) == 1
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_containerd_is_told_of_a_registry_is_in_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DEVCLUSTER_DIR", str(tmp_path))
    (tmp_path / settings.RECORD).write_text("{}")
    assert commands.main(["trust-registry", "10.198.0.254:5000"]) == 0
    text = (tmp_path / "registries/10.198.0.254:5000/hosts.toml").read_text()
    read = tomllib.loads(text)
    (host,) = read["host"]
    assert host == read["server"] == "http://10.198.0.254:5000"
    assert read["host"][host]["capabilities"] == ["pull", "resolve"]
