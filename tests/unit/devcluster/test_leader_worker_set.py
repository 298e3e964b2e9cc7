"""LeaderWorkerSet in the development cluster: which version, and how its own chart is told of the
image built here."""

from pathlib import Path

import pytest

from devcluster import commands, go_modules, leader_worker_set, settings

MADE = settings.from_environment(
    {"DEVCLUSTER_DIR": "/dc", "DEVCLUSTER_CACHE": "/c"},
    home=Path("/"),
    here=Path("/"),
)


def words() -> list[str]:
    return list(
        leader_worker_set.helm_command(
            MADE, Path("/modules/lws/charts/lws"), "0.7.0"
        )
    )


def test_the_version_is_that_of_the_module_that_is_built() -> None:
    go_mod = (go_modules.LWS / "go.mod").read_text()
    assert (
        go_modules.required_version(go_mod, go_modules.LEADER_WORKER_SET) == "0.7.0"
    )
    assert f"tool {go_modules.LEADER_WORKER_SET}/cmd" in go_mod


def test_the_modules_own_chart_is_installed_into_this_cluster_and_waited_for() -> (
    None
):
    assert words()[:2] == ["/c/bin/helm", "--kubeconfig=/dc/admin.kubeconfig"]
    assert words()[2:6] == [
        "upgrade",
        "--install",
        "lws",
        "/modules/lws/charts/lws",
    ]
    assert {"--wait", "--create-namespace", "--namespace=lws-system"} <= set(
        words()
    )


def test_the_image_is_the_one_built_here_and_never_pulled() -> None:
    values = dict(
        word.removeprefix("--set=").split("=")
        for word in words()
        if word.startswith("--set=")
    )
    image = {
        name.removeprefix("image.manager."): value
        for name, value in values.items()
        if "image" in name
    }
    assert image == {
        "repository": "docker.io/lws/lws",
        "tag": "v0.7.0",
        "pullPolicy": "IfNotPresent",
    }


def test_without_a_cluster_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("DEVCLUSTER_DIR", str(tmp_path / "dc"))
    monkeypatch.setattr("devcluster.debian.require_root", lambda: None)
    monkeypatch.setattr("devcluster.debian.ensure", lambda packages: None)
    assert commands.main(["lws"]) == 1
    assert (
        "the cluster is not up, so there is nothing to install into; run: devcluster up"
        in capsys.readouterr().err
    )
