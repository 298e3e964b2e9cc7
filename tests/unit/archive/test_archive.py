"""The archiver against a cluster over HTTP, and into a folder through the real obstore."""

import copy
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchrun.archive import contents, main as archiver, store as storage
from benchrun.archive.contents import ArchivedRun, BadArchive
from benchrun.archive.store import BadPlace, Store
from benchrun.observe import child_of
from benchrun.plan import PackedResult, result_config_map
from unit.archive.cluster import ClusterWithRuns, archived
from unit.archive.conftest import Archive
from unit.cli.finished_runs import OWNER, UID, finished_run
from unit.release.api_server import Json
from unit.release.test_release import run as started

RUN = finished_run()
FOLDER = f"lab/judged-{UID}"
STATUS = "/apis/benchrun.dev/v1alpha1/namespaces/lab/benchmarkruns"


SERVER = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "here",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_ALLOW_HTTP": "true",
}
"""Variables of a storage where nobody listens."""


def another(name: str, namespace: str = "lab", **status: Any) -> Json:
    """A run of another name, without records."""
    body = copy.deepcopy(RUN.body)
    body["metadata"] |= {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    body["status"].pop("resultDocument")
    body["status"] |= status
    return body


def files(place: Path) -> dict[str, bytes]:
    """All files below a folder, by path."""
    found = (each for each in place.rglob("*") if each.is_file())
    return {str(each.relative_to(place)): each.read_bytes() for each in found}


def opened(folder: Path) -> ArchivedRun:
    return ArchivedRun(lambda name, most: (folder / name).read_bytes()[: most + 1])


def test_an_ended_run_is_written_whole_and_marked(
    cluster: ClusterWithRuns, archive: Archive, place: Path
) -> None:
    run = cluster.add_run(RUN.body, RUN.config_maps)
    assert archive() == 0
    found = opened(place / FOLDER)
    body = found.body()
    assert body["spec"] == RUN.body["spec"]
    assert body["status"] == RUN.body["status"]
    data = {m["metadata"]["name"]: m["binaryData"] for m in RUN.config_maps}
    kept = {
        child_of("ConfigMap", m).name: m["binaryData"] for m in found.config_maps()
    }
    assert kept == data
    mark = archived(run)
    assert (mark["status"], mark["reason"]) == ("True", "Written")
    index = (place / FOLDER / "index.json").read_bytes()
    assert hashlib.sha256(index).hexdigest() in mark["message"]
    assert str(place / FOLDER) in mark["message"]


def test_each_file_is_called_by_its_digest_and_the_document_by_the_status(
    cluster: ClusterWithRuns, archive: Archive, place: Path
) -> None:
    cluster.add_run(RUN.body, RUN.config_maps)
    archive()
    found = files(place / FOLDER)
    found.pop("index.json")
    assert (
        len(found) == 10
    )  # four stages, each with its timeline; document; manifest
    for name, data in found.items():
        assert name.partition(".")[0] == hashlib.sha256(data).hexdigest()
    ref = RUN.body["status"]["resultDocument"]
    document = json.loads(gzip.decompress(found[f"{ref['sha256']}.json.gz"]))
    assert document["schema"] == "benchrun.result/1"


def test_written_twice_it_is_the_same_and_a_marked_run_is_left_alone(
    cluster: ClusterWithRuns, archive: Archive, place: Path
) -> None:
    run = cluster.add_run(RUN.body, RUN.config_maps)
    archive()
    before = files(place)
    archived(run)["status"] = "Unknown"
    cluster.now = 1_900_000_000
    assert archive() == 0
    assert files(place) == before
    assert cluster.written == 2
    calls = len(cluster.calls)
    assert archive() == 0
    assert len(cluster.calls) == calls + 1  # the list
    assert cluster.written == 2


def test_a_table_without_the_mark_is_no_reason_to_write_again(
    cluster: ClusterWithRuns, archive: Archive
) -> None:
    cluster.add_run(RUN.body, RUN.config_maps)
    cluster.columns = ["Name"]
    assert (archive(), cluster.written) == (0, 1)
    assert (archive(), cluster.written) == (0, 1)


def test_the_command_of_the_cron_job(
    cluster: ClusterWithRuns, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cluster.add_run(RUN.body, RUN.config_maps)
    monkeypatch.setenv("BENCHRUN_ARCHIVE_PLACE", str(place))
    program = ("-m", "benchrun.runtime", "archive")
    code, said = started(program=program)
    assert (code, archived(run)["status"]) == (0, "True"), said
    assert started("--place=relative", program=program)[0] == 2


def test_the_index_comes_last_and_half_an_archive_is_none(
    cluster: ClusterWithRuns,
    archive: Archive,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = cluster.add_run(RUN.body, RUN.config_maps)
    order: list[str] = []
    whole = Store.put

    def put(self: Store, path: str, data: bytes) -> None:
        order.append(path)
        if len(order) == 10:
            raise contents.StoreError("the disk is full")
        whole(self, path, data)

    monkeypatch.setattr(Store, "put", put)
    assert archive() == 1
    assert archived(run) == {}
    with pytest.raises(FileNotFoundError):
        opened(place / FOLDER)
    order.clear()
    order.extend(["counted"] * 10)
    assert archive() == 0
    assert order[-1] == f"{FOLDER}/index.json"
    assert opened(place / FOLDER).body()["metadata"]["name"] == "judged"


def test_a_run_that_goes_on_is_not_archived(
    cluster: ClusterWithRuns, archive: Archive, place: Path
) -> None:
    cluster.add_run(another("on", conditions=[]))
    assert archive() == 0
    assert files(place) == {}


def test_what_is_only_of_the_cluster_or_of_tools_is_left_out(
    cluster: ClusterWithRuns, archive: Archive, place: Path
) -> None:
    body = copy.deepcopy(RUN.body)
    body["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    body["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": '{"env": "secret"}',
        "team": "serving",
    }
    cluster.add_run(body, RUN.config_maps)
    archive()
    metadata = opened(place / FOLDER).body()["metadata"]
    assert metadata["annotations"] == {"team": "serving"}
    assert metadata.keys() == {
        "annotations",
        "creationTimestamp",
        "generation",
        "name",
        "namespace",
        "uid",
    }


def test_another_runs_records_and_foreign_keys_stay_out(
    cluster: ClusterWithRuns, archive: Archive, place: Path
) -> None:
    theirs = copy.deepcopy(RUN.config_maps[0])
    theirs["metadata"]["name"] += "x"
    older = result_config_map(OWNER, PackedResult.of(b"of another operator"))
    mixed = copy.deepcopy(RUN.config_maps[1])
    mixed["binaryData"]["passwd"] = "c2VjcmV0"
    mixed["metadata"]["labels"]["team"] = "serving"
    rest = [RUN.config_maps[0], mixed, *RUN.config_maps[2:]]
    cluster.add_run(RUN.body, (*rest, theirs, older))
    assert archive() == 0
    kept = opened(place / FOLDER).index.config_maps
    assert {each.name for each in kept} == {
        each["metadata"]["name"] for each in RUN.config_maps
    }
    assert all("passwd" not in each.files for each in kept)
    assert all("team" not in each.labels for each in kept)


@pytest.mark.parametrize(
    "spoil",
    [
        {"binaryData": {"record.json.gz": "not base64!"}},
        {"binaryData": {"record.json.gz": "AAAA" * 2_000_000}},
    ],
    ids=["unreadable", "large"],
)
def test_a_run_that_can_t_be_archived_stops_no_other(
    cluster: ClusterWithRuns,
    archive: Archive,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Json,
) -> None:
    bad = cluster.add_run(RUN.body, (RUN.config_maps[0] | spoil,))
    good = cluster.add_run(another("good"))
    assert archive() == 1
    mark = archived(bad)
    assert (mark["status"], mark["reason"]) == ("False", "NotArchivable")
    assert archived(good)["status"] == "True"
    assert "lab/judged" in capsys.readouterr().out
    assert not (place / FOLDER / "index.json").exists()


def test_a_run_of_too_many_bytes_is_refused(
    cluster: ClusterWithRuns, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MAX_RUN_BYTES", 1000)
    run = cluster.add_run(RUN.body, RUN.config_maps)
    assert archive() == 1
    assert archived(run)["reason"] == "NotArchivable"
    assert "1000 bytes" in archived(run)["message"]


def test_a_run_that_can_t_be_archived_is_written_again_only_when_it_is_another(
    cluster: ClusterWithRuns,
    archive: Archive,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It fails each Job, and costs no upload and no read of what was measured."""
    run = cluster.add_run(RUN.body, copy.deepcopy(RUN.config_maps))
    first = RUN.config_maps[0]["metadata"]["name"]
    changed = cluster.config_maps[f"lab/{first}"]["metadata"]

    def reads() -> int:
        """Count what the next pass reads of what was measured."""
        cluster.calls.clear()
        assert archive() == 1
        return sum("/configmaps/" in path for _, path, _ in cluster.calls)

    with monkeypatch.context() as lower:
        lower.setattr(contents, "MAX_RUN_BYTES", 1000)
        assert reads() > 0
        assert reads() == 0
        changed["resourceVersion"] = "4711"
        assert reads() > 0
        assert reads() == 0
    changed["resourceVersion"] = "4712"
    assert archive() == 0
    assert archived(run)["status"] == "True"


def test_a_long_reason_does_not_make_a_run_be_written_again(
    cluster: ClusterWithRuns, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise ValueError("x" * 5000)

    run = cluster.add_run(RUN.body, RUN.config_maps)
    with monkeypatch.context() as broken:
        broken.setattr(archiver, "write_archive", refuse)
        assert archive() == 1
    assert archive() == 1
    assert archived(run)["reason"] == "NotArchivable"


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
def test_what_the_api_server_refuses_fails_and_is_tried_again(
    cluster: ClusterWithRuns, archive: Archive, verb: str
) -> None:
    run = cluster.add_run(RUN.body, RUN.config_maps)
    first = RUN.config_maps[0]["metadata"]["name"]
    reads = f"/api/v1/namespaces/lab/configmaps/{first}"
    cluster.refused[verb, reads if verb == "GET" else STATUS] = 403
    assert archive() == 1
    assert archived(run) == {}
    cluster.refused.clear()
    assert archive() == 0
    assert archived(run)["status"] == "True"


@pytest.mark.parametrize("key", ["uid", "resourceVersion"])
def test_a_run_that_was_changed_meanwhile_is_not_marked(
    cluster: ClusterWithRuns,
    archive: Archive,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
) -> None:
    run = cluster.add_run(RUN.body, RUN.config_maps)
    whole = Store.put

    def put(self: Store, path: str, data: bytes) -> None:
        run["metadata"][key] = "7"
        whole(self, path, data)

    monkeypatch.setattr(Store, "put", put)
    assert archive() == 0
    assert archived(run) == {}


def test_namespaces_take_turns_the_oldest_first(
    cluster: ClusterWithRuns, archive: Archive
) -> None:
    for name, namespace, day in (
        ("a2", "a", "28"),
        ("a1", "a", "27"),
        ("a3", "a", "29"),
        ("b1", "b", "30"),
    ):
        body = another(name, namespace)
        body["metadata"]["creationTimestamp"] = f"2026-11-{day}T10:00:00Z"
        cluster.add_run(body)
    archive()
    marks = [
        path.split("/")[-2] for verb, path, _ in cluster.calls if verb == "PATCH"
    ]
    assert marks == ["a1", "b1", "a2", "a3"]


def test_only_the_watched_namespaces_are_read(
    cluster: ClusterWithRuns, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = cluster.add_run(another("here", "a"))
    there = cluster.add_run(another("there", "b"))
    monkeypatch.setenv("BENCHRUN_NAMESPACES", "a")
    assert archive() == 0
    assert (archived(here) != {}, archived(there) != {}) == (True, False)


def test_a_storage_that_fails_is_not_tried_for_every_run(
    cluster: ClusterWithRuns, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def put(self: Store, path: str, data: bytes) -> None:
        tries.append(path)
        raise contents.StoreError("no bucket")

    monkeypatch.setattr(Store, "put", put)
    for number in range(10):
        cluster.add_run(another(f"run-{number}"))
    assert archive() == 1
    assert len(tries) == archiver.MAX_STORE_FAILURES


@pytest.mark.parametrize(
    "place",
    [
        "",
        "relative/path",
        "http://host/bucket",
        "s3://",
        "s3://key:secret@bucket/prefix",
        "s3://bucket/prefix?key=secret",
    ],
)
def test_a_place_that_is_none_or_has_credentials_is_refused(place: str) -> None:
    with pytest.raises(BadPlace) as refused:
        Store(place)
    assert "secret" not in str(refused.value)


def test_a_place_whose_path_can_t_be_one_is_an_error_of_the_storage() -> None:
    with pytest.raises(contents.StoreError):
        Store("s3://bucket/../prefix")


def test_a_key_with_a_line_end_is_an_error_of_the_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in SERVER.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key\n")
    store = Store("s3://bucket/prefix")
    for use in (lambda: store.put("a", b""), lambda: store.get("a", 1)):
        with pytest.raises(contents.StoreError) as refused:
            use()
        assert "AWS_ACCESS_KEY_ID" in str(refused.value)


def test_errors_show_neither_a_password_nor_the_bytes_of_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(storage, "RETRY_SECONDS", 0)
    address = SERVER["AWS_ENDPOINT_URL"].replace("//", "//user:pass@word@")
    for name, value in (SERVER | {"AWS_ENDPOINT_URL": address}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(contents.StoreError) as refused:
        Store("s3://bucket/prefix").put("a", b"")
    assert "http://127.0.0.1" in str(refused.value)
    assert not {"user", "pass", "word"} & {
        *re.findall("[a-z]+", str(refused.value))
    }

    # A key in JSON whose line ends were escaped twice.
    pem = r"-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkq\\n-----END PRIVATE KEY-----"
    account = {"private_key": pem, "private_key_id": "k", "client_email": "e"}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
    with pytest.raises(contents.StoreError) as refused:
        Store("gs://bucket/prefix")
    assert str(list(b"MIIEv"))[1:-1] not in str(refused.value)


def test_a_name_that_leads_elsewhere_has_no_folder() -> None:
    body = another("good")
    body["metadata"]["name"] = "../../etc"
    with pytest.raises(ValueError, match="can't be a folder's name"):
        contents.folder_of(body)


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"[]",
        b'{"schema":"benchrun.archive/2"}',
        b'{"schema":"benchrun.archive/1","run":{}}',
        b'{"schema":"benchrun.archive/1","run":{"namespace":"a","name":"b","uid":"c",'
        b'"manifest":{"sha256":"../../../../etc/passwd","suffix":".json","bytes":1}}}',
    ],
)
def test_a_bad_index_is_refused(index: bytes) -> None:
    with pytest.raises(BadArchive):
        contents.read_index(index)


@pytest.mark.parametrize("change", ["shorter", "longer", "other", "gone"])
def test_a_file_that_was_changed_is_refused(
    cluster: ClusterWithRuns, archive: Archive, place: Path, change: str
) -> None:
    cluster.add_run(RUN.body, RUN.config_maps)
    archive()
    found = opened(place / FOLDER)
    file = place / FOLDER / found.index.run.manifest.name
    data = file.read_bytes()
    spoilt = {
        "shorter": data[:-1],
        "longer": data + b" ",
        "other": data.replace(b"Completed", b"Cancelled", 1),
    }
    if change in spoilt:
        file.write_bytes(spoilt[change])
    else:
        file.unlink()
    with pytest.raises(BadArchive, match=file.name):
        found.body()
