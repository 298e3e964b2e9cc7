"""`benchrun-operator release` as a process: its options, its exit code, what it imports, and how small it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import benchrun.release
import pytest
from benchrun.release.main import main
from unit.release.api_server import STATE, Cluster

IMPORTS = """
import sys
from benchrun.runtime.__main__ import main
sys.argv[1:] = ["release", "--help"]
try:
    main()
except SystemExit:
    print("imported", *sorted(sys.modules))
"""


def run(*arguments: str, program: tuple[str, ...] = ("-m", "benchrun.runtime", "release")) -> tuple[int, str]:
    """Exit code and what it said."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, *program, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_look_by_hand(cluster: Cluster) -> None:
    assert run("--namespace=team-a", "--namespace=team-b", "--state=ops/clocks") == (0, "")
    assert [path for _, path, _ in cluster.calls][:3] == [
        "/api/v1/namespaces/ops/configmaps/clocks",
        "/api/v1/namespaces/team-a/pods",
        "/apis/apps/v1/namespaces/team-a/deployments",
    ]
    assert "/apis/leaderworkerset.x-k8s.io/v1/namespaces/team-b/leaderworkersets" in [p for _, p, _ in cluster.calls]


def test_the_environment_of_the_cron_job(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHRUN_NAMESPACES", "team-a,team-b")
    monkeypatch.setenv("BENCHRUN_RELEASE_STATE", "ops/clocks")
    assert main([]) == 0
    assert len([path for _, path, _ in cluster.calls if path.endswith("/deployments")]) == 2


def test_without_namespaces_the_whole_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHRUN_NAMESPACES", "")
    assert main([]) == 0
    assert [path for _, path, _ in cluster.calls] == [
        STATE,
        "/api/v1/pods",
        "/apis/apps/v1/deployments",
        "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets",
    ]


def test_what_failed_makes_the_exit_code_1(cluster: Cluster) -> None:
    cluster.refused["GET", "/apis/apps/v1/namespaces/team-a"] = 403
    assert main(["--namespace=team-a"]) == 1


@pytest.mark.parametrize("bound", ["0", "-5", "soon", ""])
def test_a_bound_that_would_release_everything_is_refused(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ([f"--max-hold-seconds={bound}"], []):
        monkeypatch.setenv("BENCHRUN_MAX_HOLD_SECONDS", bound)
        with pytest.raises(SystemExit) as refused:
            main(arguments)
        assert refused.value.code == 2


def test_without_a_way_to_the_api_server_it_says_so(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").unlink()
    code, said = run()
    assert (code, "Traceback" in said) == (1, False)


def test_an_api_server_that_is_gone_is_a_failure(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(file.read_text().replace(cluster.url, "http://127.0.0.1:1"))
    code, said = run()
    assert (code, "Traceback" in said) == (1, False)


def test_nothing_of_the_operator_is_imported() -> None:
    code, said = run(program=("-c", IMPORTS))
    imported = set(said.partition("imported ")[2].split())
    assert code == 0
    assert "benchrun.release.main" in imported
    assert {module.split(".")[0] for module in imported}.isdisjoint({"kopf", "aiohttp", "benchrun_client"})
    ours = {module for module in imported if module.startswith("benchrun.")}
    assert {module.split(".")[1] for module in ours} == {"names", "release", "runtime"}
    assert {m for m in imported if m.startswith("benchrun.runtime.")} == {"benchrun.runtime.__main__"}


def test_it_is_small_enough_to_be_read_in_one_go() -> None:
    [folder] = benchrun.release.__path__
    assert sum(len(file.read_text().splitlines()) for file in Path(folder).glob("*.py")) < 200
