"""`benchrun --version`: both versions, or why one is not known, and never a wait."""

import json
import time
import tomllib
from pathlib import Path

import pytest
from benchrun.cli import versions
from benchrun.cli.__main__ import main
from unit.cli.fake_kubectl import FakeKubectl
from unit.plan.specs import Json

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[3]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def deployment(namespace: str, version: str | None, image: str = "reg/o:1") -> Json:
    labels = {} if version is None else {versions.VERSION_LABEL: version}
    return {
        "metadata": {"name": "benchrun", "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": {"containers": [{"image": image}]}}},
    }


def printed(capsys: Capture) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    out, error = capsys.readouterr()
    assert error == ""
    return out.splitlines()


def test_the_commands_version_is_the_projects(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.answer("get", out=json.dumps({"items": []}))
    assert printed(capsys)[0] == f"benchrun {VERSION}"


def test_each_operator_has_a_line_with_its_version_place_and_image(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    found = [
        deployment("a", "0.2.0"),
        deployment("b", None, "reg/o@sha256:00\x1b[31m"),
    ]
    kubectl.answer("get", "--all-namespaces", out=json.dumps({"items": found}))
    first, second = printed(capsys)[1:]
    assert first.startswith("operator 0.2.0 ")
    assert {"a,", "reg/o:1)"} <= set(first.split())
    assert "b," in second.split()
    assert "\x1b" not in second
    assert f"--selector={versions.SELECTOR}" in kubectl.commands()[-1]


def test_the_selector_is_of_labels_that_the_chart_gives_its_operator() -> None:
    names = (ROOT / "charts/benchrun/templates/_names.tpl").read_text()
    for label in versions.SELECTOR.split(","):
        key, value = label.split("=")
        assert f'set $own "{key}" "{value}"' in names
    assert f'set $own "{versions.VERSION_LABEL}" .context.Chart.AppVersion' in names


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(
            "The connection to the server 10.0.0.1:6443 was refused - did you specify the "
            "right host or port?",
            "10.0.0.1:6443",
            id="down",
        ),
        pytest.param(
            'Error from server (Forbidden): deployments.apps is forbidden: User "eve" cannot '
            'list resource "deployments" in API group "apps" at the cluster scope',
            "Deployments of all namespaces",
            id="forbidden",
        ),
    ],
)
def test_where_no_operator_can_be_seen_the_command_is_still_told(
    error: str, told: str, kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.fails(error=error)
    own, operator = printed(capsys)
    assert own == f"benchrun {VERSION}"
    assert operator.startswith("operator: not known: ")
    assert told in operator


def test_a_cluster_without_operator_is_told(
    kubectl: FakeKubectl, capsys: Capture
) -> None:
    kubectl.answer("get", out=json.dumps({"items": []}))
    assert printed(capsys)[1] == "operator: there is none in this cluster"


def test_without_kubectl_the_reason_is_told(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "kubectl" in printed(capsys)[1]


def test_a_cluster_that_never_answers_is_not_waited_for(
    kubectl: FakeKubectl, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "PATIENCE_SECONDS", 0.5)
    kubectl.answer("get", stays=True)
    before = time.monotonic()
    operator = printed(capsys)[1]
    assert time.monotonic() - before < 20
    assert operator.startswith("operator: not known: ")
    assert "0.5 s" in operator
