"""Where the cluster's cgroups go, with either version of cgroups, and that none of them stays."""

from pathlib import Path

import pytest

from devcluster import cgroups, settings
from devcluster.reporting import DevclusterError

SETTINGS = settings.from_environment({}, home=Path("/"), here=Path("/"))
BRANCH = "devcluster-benchrun"


def test_version_2_has_one_branch(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    assert cgroups.branches(SETTINGS, tmp_path) == [tmp_path / BRANCH]


def test_version_1_has_one_branch_a_hierarchy(tmp_path: Path) -> None:
    for hierarchy in ("cpu", "memory"):
        (tmp_path / hierarchy).mkdir()
        (tmp_path / hierarchy / "tasks").touch()
    (tmp_path / "unified").mkdir()
    assert cgroups.branches(SETTINGS, tmp_path) == [tmp_path / "cpu" / BRANCH, tmp_path / "memory" / BRANCH]


def test_a_machine_without_cgroups_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DevclusterError, match="no cgroups under"):
        cgroups.branches(SETTINGS, tmp_path)


def test_removing_takes_nested_branches_everywhere_and_nothing_else(tmp_path: Path) -> None:
    for path in (f"cpu/{BRANCH}/kubepods/pod1", f"unified/{BRANCH}/kubepods", f"{BRANCH}/a", "cpu/other"):
        (tmp_path / path).mkdir(parents=True)
    cgroups.remove(SETTINGS, tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("**/*"))
    assert left == ["cpu", "cpu/other", "unified"]
