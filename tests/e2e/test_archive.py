"""A run is archived to a claim by the chart's CronJob, deleted by its TTL, and reported from there."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchrun.cli.__main__ import main
from kit.installed import installed_for
from kit.kubectl import RUN, Namespace, Object
from kit.runs import SIMULATOR_IMAGE, condition, finished, simulated_run

ARCHIVE = "team-benchrun-archive"
READ = (
    "import base64, json, pathlib as p; print(json.dumps({str(f.relative_to('/archive')): "
    "base64.b64encode(f.read_bytes()).decode() for f in p.Path('/archive').rglob('*') "
    "if f.is_file()}))"
)


@pytest.fixture
def team(operator: Namespace, namespace: Namespace) -> Iterator[Namespace]:
    """A namespace with a claim, and with an operator that archives into it."""
    namespace.apply(_claim(), _reader())
    values = "archive.enabled=true,archive.claim=results,archive.schedule=0 0 1 1 *"
    with installed_for(namespace, values):
        yield namespace


def _claim() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "results"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "100Mi"}},
        },
    }


def _reader() -> Object:
    container = {
        "name": "reader",
        "image": SIMULATOR_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
        "volumeMounts": [{"name": "results", "mountPath": "/archive"}],
    }
    claim = {"claimName": "results"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "reader"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": [{"name": "results", "persistentVolumeClaim": claim}],
        },
    }


def copied(team: Namespace, folder: Path) -> list[Path]:
    """Copy what the claim holds, and return the folders of its runs."""
    team.kubectl("wait", "pod/reader", "--for=condition=Ready", "--timeout=60s")
    text = team.kubectl("exec", "reader", "--", "python3", "-c", READ)
    for path, data in json.loads(text).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(data))
    return [index.parent for index in folder.rglob("index.json")]


@pytest.mark.timeout(600)
def test_a_deleted_run_is_reported_from_its_archive(
    team: Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = simulated_run("kept")
    run["spec"]["ttlSecondsAfterFinished"] = 0
    team.apply(run)
    ended = finished(team, "kept", timeout_seconds=200)
    assert condition(ended, "Complete")["status"] == "True", ended["status"]
    assert main(["report", "kept", "-n", team.name]) == 0
    whole = capsys.readouterr().out

    team.kubectl("create", "job", "now", f"--from=cronjob/{ARCHIVE}")
    team.kubectl(
        "wait",
        "job/now",
        "--for=condition=Complete",
        "--timeout=120s",
        timeout_seconds=150,
    )
    assert "archived 1 runs" in team.kubectl("logs", "job/now")
    team.kubectl(
        "wait",
        f"{RUN}/kept",
        "--for=delete",
        "--timeout=60s",
        timeout_seconds=90,
    )

    [folder] = copied(team, tmp_path)
    assert folder.name == f"kept-{ended['metadata']['uid']}"
    assert folder.parent.name == team.name
    assert main(["report", "-f", str(folder)]) == 0
    assert capsys.readouterr().out == whole
    arguments = ["--format", "csv", "--table", "requests"]
    assert main(["export", "-f", str(folder), *arguments]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 8
