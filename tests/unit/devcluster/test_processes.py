"""Servers: which there are, in which order they start, and that their flags agree with the files
written for them."""

import os
import subprocess
from pathlib import Path

import pytest

from devcluster import cgroups, node_process, servers, settings
from devcluster.reporting import DevclusterError
from devcluster.running import run, succeeds, wait_until
from devcluster.settings import Settings

SETTINGS = settings.from_environment(
    {"DEVCLUSTER_DIR": "/state", "DEVCLUSTER_CACHE": "/cache"},
    home=Path("/"),
    here=Path("/"),
)
BY_NAME = {server.name: server for server in servers.servers(SETTINGS)}


def test_the_api_server_and_what_it_needs_come_first() -> None:
    assert list(BY_NAME) == [
        "etcd",
        "containerd",
        "api-server",
        "controllers",
        "scheduler",
        "kubelet",
        "proxy",
        "dns",
    ]
    assert [
        name for name, server in BY_NAME.items() if not server.after_api_server
    ] == [
        "etcd",
        "containerd",
        "api-server",
    ]


def test_the_api_server_listens_where_kubeconfigs_point() -> None:
    command = BY_NAME["api-server"].command
    assert command[:2] == ("/cache/bin/kube", "kube-apiserver")
    assert "--bind-address=10.198.0.1" in command
    assert "--secure-port=6443" in command
    assert "--service-cluster-ip-range=10.96.0.0/16" in command
    assert "--token-auth-file=/state/pki/tokens.csv" in command


def test_etcd_is_reached_from_the_node_alone() -> None:
    addresses = [
        word.partition("=")[2]
        for word in BY_NAME["etcd"].command
        if "-urls=" in word
    ]
    assert len(addresses) == 3
    assert all(address.startswith("http://127.0.0.1:") for address in addresses)


def test_the_connection_table_of_the_machine_is_left_alone() -> None:
    assert "--conntrack-max-per-core=0" in BY_NAME["proxy"].command


def test_claims_are_served_by_the_controller_manager() -> None:
    assert "--enable-hostpath-provisioner=true" in BY_NAME["controllers"].command


# Where the cluster's cgroups go, with either version of cgroups, and that none of them stays.

SETTINGS_CGROUPS = settings.from_environment({}, home=Path("/"), here=Path("/"))
BRANCH = "devcluster-benchrun"


def test_version_2_has_one_branch(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    assert cgroups.branches(SETTINGS_CGROUPS, tmp_path) == [tmp_path / BRANCH]


def test_version_1_has_one_branch_a_hierarchy(tmp_path: Path) -> None:
    for hierarchy in ("cpu", "memory"):
        (tmp_path / hierarchy).mkdir()
        (tmp_path / hierarchy / "tasks").touch()
    (tmp_path / "unified").mkdir()
    assert cgroups.branches(SETTINGS_CGROUPS, tmp_path) == [
        tmp_path / "cpu" / BRANCH,
        tmp_path / "memory" / BRANCH,
    ]


def test_a_machine_without_cgroups_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DevclusterError, match="no cgroups under"):
        cgroups.branches(SETTINGS_CGROUPS, tmp_path)


def test_removing_takes_nested_branches_everywhere_and_nothing_else(
    tmp_path: Path,
) -> None:
    for path in (
        f"cpu/{BRANCH}/kubepods/pod1",
        f"unified/{BRANCH}/kubepods",
        f"{BRANCH}/a",
        "cpu/other",
    ):
        (tmp_path / path).mkdir(parents=True)
    cgroups.remove(SETTINGS_CGROUPS, tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("**/*"))
    assert left == ["cpu", "cpu/other", "unified"]


# The node's process: told from another that was given the same id.


@pytest.fixture
def cluster(tmp_path: Path) -> Settings:
    return settings.from_environment(
        {"DEVCLUSTER_DIR": str(tmp_path)}, home=tmp_path, here=tmp_path
    )


def test_a_recorded_process_is_found(cluster: Settings) -> None:
    recorded = node_process.record(cluster, os.getpid())
    assert node_process.recorded(cluster) == recorded
    node_process.forget(cluster)
    assert node_process.recorded(cluster) is None


def test_a_process_that_started_at_another_time_is_not_ours(
    cluster: Settings,
) -> None:
    ours = node_process.record(cluster, os.getpid())
    (cluster.directory / node_process.RECORD).write_text(
        f"{ours.pid} {ours.started - 1}\n"
    )
    assert node_process.recorded(cluster) is None


def test_a_record_cut_short_is_none(cluster: Settings) -> None:
    (cluster.directory / node_process.RECORD).write_text("12")
    assert node_process.recorded(cluster) is None


def test_kill_ends_the_process_and_can_be_repeated(cluster: Settings) -> None:
    # As with unshare: a parent that ends when its child, the node, has ended.
    starter = ["sh", "-c", "sleep 1000 >/dev/null & echo $!; wait"]
    with subprocess.Popen(starter, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = node_process.record(cluster, int(parent.stdout.readline()))
        assert child.alive
        node_process.kill(child)
        assert not child.alive
        assert node_process.recorded(cluster) is None
        node_process.kill(child)


# Running programs: what comes back, and how a failure reads.


def test_output_comes_back_and_input_goes_in(tmp_path: Path) -> None:
    assert run("cat", text="in and out") == "in and out"
    assert run("pwd", folder=tmp_path).strip() == str(tmp_path)
    assert run("sh", "-c", "echo $MARK", extra={"MARK": "here"}) == "here\n"


def test_a_failure_reads_as_one_line_with_the_last_of_what_was_said() -> None:
    with pytest.raises(DevclusterError, match=r"^sh failed with 3: the reason$"):
        run("sh", "-c", "echo some context >&2; echo the reason >&2; exit 3")


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(
        DevclusterError, match="there is no program no-such-program"
    ):
        run("no-such-program", "--version")
    assert not succeeds("no-such-program")


def test_what_is_shown_goes_to_stderr_so_that_stdout_stays_clean(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run("sh", "-c", "echo out; echo err >&2", shown=True) == ""
    assert capfd.readouterr() == ("", "out\nerr\n")


def test_waiting_ends_with_the_condition_or_with_the_remedy() -> None:
    answers = iter([False, False, True])
    wait_until(
        lambda: next(answers), what="it", timeout_seconds=5, remedy="none needed"
    )
    with pytest.raises(DevclusterError, match=r"^it: not within 0 s; look there$"):
        wait_until(lambda: False, what="it", timeout_seconds=0, remedy="look there")
