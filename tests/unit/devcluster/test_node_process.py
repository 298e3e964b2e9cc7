"""The node's process: told from another that was given the same id."""

import os
import subprocess
from pathlib import Path

import pytest

from devcluster import node_process, settings
from devcluster.settings import Settings


@pytest.fixture
def cluster(tmp_path: Path) -> Settings:
    return settings.from_environment({"DEVCLUSTER_DIR": str(tmp_path)}, home=tmp_path, here=tmp_path)


def test_a_recorded_process_is_found(cluster: Settings) -> None:
    recorded = node_process.record(cluster, os.getpid())
    assert node_process.recorded(cluster) == recorded
    node_process.forget(cluster)
    assert node_process.recorded(cluster) is None


def test_a_process_that_started_at_another_time_is_not_ours(cluster: Settings) -> None:
    ours = node_process.record(cluster, os.getpid())
    (cluster.directory / node_process.RECORD).write_text(f"{ours.pid} {ours.started - 1}\n")
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
