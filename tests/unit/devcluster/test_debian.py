"""Missing Debian packages: each named once, in one line that can be pasted into a shell."""

from devcluster import debian


def test_nothing_is_missing_where_everything_is_found() -> None:
    assert debian.missing(debian.CLUSTER.items(), lambda thing: True) == []


def test_a_package_is_named_once_however_many_of_its_programs_are_missing() -> None:
    absent = {"containerd", "ctr", "etcd"}
    assert debian.missing(debian.CLUSTER.items(), lambda thing: thing not in absent) == ["containerd", "etcd-server"]


def test_files_count_as_well_as_programs() -> None:
    assert debian.missing(debian.COMPILER.items(), lambda thing: not thing.startswith("/")) == ["libc6-dev"]


def test_the_complaint_is_one_line_with_the_remedy() -> None:
    assert debian.complaint(["buildah", "runc"]) == (
        "missing Debian packages; run: apt-get install --no-install-recommends buildah runc"
    )
