"""Controllers in the development cluster: which version, and how a chart is told of the image built
here."""

from pathlib import Path

import pytest

from devcluster import commands, controllers, go_modules, settings
from devcluster.leader_worker_set import LWS
from devcluster.queueing import KUEUE

MADE = settings.from_environment(
    {"DEVCLUSTER_DIR": "/dc", "DEVCLUSTER_CACHE": "/c"},
    home=Path("/"),
    here=Path("/"),
)


VERSIONS = {LWS: "0.7.0", KUEUE: "0.14.0"}
EACH = pytest.mark.parametrize("each", VERSIONS, ids=lambda each: each.name)


def words(each: controllers.Controller) -> list[str]:
    chart = Path(f"/modules/charts/{each.name}")
    return list(controllers.helm_command(MADE, each, chart, VERSIONS[each]))


@EACH
def test_the_version_is_that_of_the_module_that_is_built(
    each: controllers.Controller,
) -> None:
    go_mod = (each.source / "go.mod").read_text()
    assert go_modules.required_version(go_mod, each.module) == VERSIONS[each]
    assert f"tool {each.package}\n" in go_mod


@EACH
def test_the_modules_own_chart_is_installed_into_this_cluster_and_waited_for(
    each: controllers.Controller,
) -> None:
    typed = words(each)
    assert typed[:2] == ["/c/bin/helm", "--kubeconfig=/dc/admin.kubeconfig"]
    assert typed[2:6] == [
        "upgrade",
        "--install",
        each.name,
        f"/modules/charts/{each.name}",
    ]
    namespace = f"--namespace={each.name}-system"
    assert {"--wait", "--create-namespace", namespace} <= set(typed)


@EACH
def test_the_image_is_the_one_built_here_and_never_pulled(
    each: controllers.Controller,
) -> None:
    values = dict(
        word.removeprefix("--set=").split("=")
        for word in words(each)
        if word.startswith("--set=")
    )
    image = {
        name.removeprefix(f"{each.image_value}."): value
        for name, value in values.items()
        if "image" in name
    }
    assert image == {
        "repository": f"docker.io/{each.name}/{each.name}",
        "tag": f"v{VERSIONS[each]}",
        "pullPolicy": "IfNotPresent",
    }


@pytest.mark.parametrize("command", ["lws", "kueue"])
def test_without_a_cluster_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
) -> None:
    monkeypatch.setenv("DEVCLUSTER_DIR", str(tmp_path / "dc"))
    monkeypatch.setattr("devcluster.debian.require_root", lambda: None)
    monkeypatch.setattr("devcluster.debian.ensure", lambda packages: None)
    assert commands.main([command]) == 1
    assert (
        "the cluster is not up, so there is nothing to install into; run: devcluster up"
        in capsys.readouterr().err
    )
