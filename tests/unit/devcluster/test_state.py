"""The state directory: taken only when free, deleted only when ours."""

from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import settings, state
from devcluster.reporting import DevclusterError
from devcluster.settings import Settings


@pytest.fixture
def cluster(tmp_path: Path) -> Settings:
    folder = tmp_path / "dc"
    folder.mkdir()
    return settings.from_environment(
        {"DEVCLUSTER_DIR": str(folder)}, home=tmp_path, here=tmp_path
    )


def test_an_empty_folder_becomes_the_clusters(cluster: Settings) -> None:
    state.prepare(cluster)
    state.prepare(cluster)
    assert settings.load(cluster.directory) == cluster
    assert (cluster.directory / "etcd").is_dir()


def test_a_folder_with_something_else_in_it_is_rejected_and_never_deleted(
    cluster: Settings,
) -> None:
    precious = cluster.directory / "thesis.tex"
    precious.touch()
    with pytest.raises(DevclusterError, match="holds something else"):
        state.prepare(cluster)
    state.delete(cluster)
    assert precious.exists()


def test_other_settings_than_it_was_made_with_are_rejected(
    cluster: Settings,
) -> None:
    state.prepare(cluster)
    with pytest.raises(DevclusterError, match="DEVCLUSTER_FAKE_GPUS=8, not 2"):
        state.prepare(replace(cluster, fake_gpus=2))


def test_delete_removes_all_of_it(cluster: Settings) -> None:
    state.prepare(cluster)
    state.delete(cluster)
    assert not cluster.directory.exists()


def test_a_private_file_is_private_even_where_an_open_one_was(
    tmp_path: Path,
) -> None:
    path = tmp_path / "token"
    path.write_text("old and longer")
    state.write_whole(path, "new", mode=0o600)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
