"""What is on a claim: markers that can't lie, bytes under way, and the lease of who downloads."""

import errno
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from benchrun_client.contract import ClientProgress, ModelCache, ModelFiles
from benchrun_client.engines import ENGINES
from benchrun_client.failures import RunFailure
from benchrun_client.fill_lease import STALE_SECONDS, FillLease
from benchrun_client.hub import (
    Hub,
    HubTrouble,
    RemoteFile,
    as_ours,
    is_about_claim,
    is_commit,
    why_not_written,
)
from benchrun_client.model_cache import (
    SAFETENSORS,
    Filling,
    FillPace,
    Shelf,
    target_on_claim,
    wanted_files,
)
from benchrun_client.run_progress import RunProgress
from kit.polling import polling
from unit.client.plans import plan

COMMIT = "0123456789abcdef" * 2 + "01234567"
FILES = (RemoteFile("config.json", 2, "c0"), RemoteFile("m.safetensors", 10, "50"))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """A claim with both files of the commit, and no marker."""
    cache = ModelCache(
        claim="models", directory=str(tmp_path), repository="org/tiny"
    )
    shelf = Shelf(cache)
    for folder in (shelf.blobs, shelf.notes, shelf.snapshot(COMMIT)):
        folder.mkdir(parents=True)
    for file in FILES:
        blob = shelf.blobs / file.blob
        blob.write_bytes(b"x" * file.size)
        (shelf.snapshot(COMMIT) / file.path).symlink_to(blob)
    return shelf


def names(*paths: str, weights: str = SAFETENSORS) -> list[str]:
    files = [RemoteFile(p, 1, p) for p in paths]
    return [f.path for f in wanted_files(files, weights)]


def test_of_weights_in_several_formats_those_that_servers_read_are_wanted() -> None:
    others = ["pytorch_model.bin", "model.onnx", "original/c.00.pth", "tf_model.h5"]
    assert names("a.json", "m-1.safetensors", *others) == [
        "a.json",
        "m-1.safetensors",
    ]
    assert names("a.json", *others) == ["a.json", *others]


def test_of_two_formats_the_one_is_wanted_that_the_engine_reads() -> None:
    both = ["config.json", "model.safetensors", "m-Q4_K_M.gguf", "old.bin"]
    wanted = {
        name: names(*both, weights=engine.weights)
        for name, engine in ENGINES.items()
    }
    tensors = ["config.json", "model.safetensors"]
    assert wanted == {
        "VLLM": tensors,
        "SGLang": tensors,
        "LlamaCpp": ["config.json", "m-Q4_K_M.gguf"],
        "TensorRTLLM": tensors,
    }
    alone = ["config.json", "model.safetensors", "old.bin"]
    assert names(*alone, weights=".gguf") == alone


def test_what_is_complete_for_one_format_is_not_for_another(shelf: Shelf) -> None:
    shelf.mark(COMMIT, FILES, tool="a tool")
    other = Shelf(shelf.cache, ENGINES["LlamaCpp"].weights)
    assert other.complete(COMMIT) is None
    other.mark(COMMIT, FILES[:1], tool="a tool")
    marker = other.complete(COMMIT)
    assert marker is not None
    assert dict(marker.files) == {"config.json": 2}
    first = shelf.complete(COMMIT)
    assert first is not None
    assert len(first.files) == 2


def test_safetensors_of_a_part_do_not_replace_the_weights_beside_its_folder() -> (
    None
):
    part = ["part/model.safetensors", "part/pytorch_model.bin", "part/old/c.00.pth"]
    assert names("pytorch_model.bin", "parts/m.bin", *part) == [
        "pytorch_model.bin",
        "parts/m.bin",
        "part/model.safetensors",
    ]


def test_a_commit_is_complete_only_with_its_marker_and_every_file(
    shelf: Shelf,
) -> None:
    assert shelf.complete(COMMIT) is None
    shelf.mark(COMMIT, FILES, tool="a tool")
    marker = shelf.complete(COMMIT)
    assert marker is not None
    assert dict(marker.files) == {"config.json": 2, "m.safetensors": 10}
    assert [path.name for path in shelf.notes.iterdir()] == [f"{COMMIT}.json"]

    (shelf.blobs / "50").write_bytes(b"half")
    assert shelf.complete(COMMIT) is None
    (shelf.blobs / "50").unlink()
    assert shelf.complete(COMMIT) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 10_000, '{"schema": "benchrun.model-cache/2"}']
)
def test_a_marker_that_cannot_be_read_is_none(shelf: Shelf, text: str) -> None:
    shelf.marker(COMMIT).write_text(text)
    assert shelf.complete(COMMIT) is None


def test_a_marker_of_another_commit_is_none(shelf: Shelf) -> None:
    shelf.mark(COMMIT, FILES, tool="a tool")
    text = shelf.marker(COMMIT).read_text()
    shelf.marker(COMMIT).write_text(text.replace(COMMIT, COMMIT[::-1]))
    assert shelf.complete(COMMIT) is None


def test_bytes_under_way_count_and_never_more_than_the_file_has(
    shelf: Shelf,
) -> None:
    assert shelf.done_bytes(COMMIT, FILES) == 12
    (shelf.snapshot(COMMIT) / "m.safetensors").unlink()
    (shelf.blobs / "50").rename(shelf.blobs / "50.0a1b2c3d.incomplete")
    (shelf.blobs / "50.0a1b2c3d.incomplete").write_bytes(b"123")
    assert shelf.done_bytes(COMMIT, FILES) == 5
    (shelf.blobs / "50.9a1b2c3d.incomplete").write_bytes(b"1" * 99)
    assert shelf.done_bytes(COMMIT, FILES) == 12
    aged(shelf.unfinished())
    shelf.sweep()
    assert shelf.done_bytes(COMMIT, FILES) == 2


def aged(files: Iterable[Path], seconds: float = STALE_SECONDS + 1) -> None:
    """Let files look as if they were last written to so long ago."""
    for each in files:
        then = each.stat().st_mtime - seconds
        os.utime(each, (then, then))


def unfinished(shelf: Shelf, *names: str) -> list[Path]:
    found = [shelf.blobs / f"{name}.0a1b2c3d.incomplete" for name in names]
    for each in found:
        each.write_bytes(b"123")
    return found


def lock(shelf: Shelf) -> Path:
    path = shelf.hub_directory / ".locks" / "models--org--tiny" / "50.lock"
    path.parent.mkdir(parents=True)
    path.touch()
    aged([path])
    return path


def test_what_another_still_writes_is_left_with_its_lock(shelf: Shelf) -> None:
    old, new = unfinished(shelf, "50", "51")
    aged([old])
    held = lock(shelf)
    shelf.sweep()
    assert (old.exists(), new.exists(), held.exists()) == (False, True, True)


def test_a_lock_that_a_killed_process_left_is_deleted(shelf: Shelf) -> None:
    left = lock(shelf)
    fresh = left.with_name("51.lock")
    fresh.touch()
    shelf.sweep()
    assert (left.exists(), fresh.exists()) == (False, True)
    assert not [each for each in shelf.notes.iterdir() if "now" in each.name]


class HubThatStops(Hub):
    """Leaves half a file, and lets another run take the lease if that is asked."""

    def __init__(
        self, shelf: Shelf, *, loses_lease: bool
    ) -> None:  # Without the library.
        self._shelf = shelf
        self._loses_lease = loses_lease

    def commit(self, cache: ModelCache) -> str:
        return COMMIT

    def files(self, cache: ModelCache, commit: str) -> tuple[RemoteFile, ...]:
        return (RemoteFile("new.safetensors", 9, "90"),)

    def download(
        self, cache: ModelCache, commit: str, folder: Path, patterns: Sequence[str]
    ) -> None:
        unfinished(self._shelf, "90")
        if self._loses_lease:
            (self._shelf.notes / "lease").write_text("another's\n")
        raise HubTrouble("it answers 503")


@pytest.mark.parametrize(("loses_lease", "left"), [(False, []), (True, ["90"])])
def test_a_failed_attempt_leaves_nothing_unless_the_lease_was_taken_from_it(
    shelf: Shelf, left: list[str], *, loses_lease: bool
) -> None:
    hub = HubThatStops(shelf, loses_lease=loses_lease)
    filling = Filling(shelf.cache, hub, lambda _: None, FillPace(try_again=()))
    with pytest.raises(RunFailure, match="503"):
        filling.fill()
    assert [each.name.partition(".")[0] for each in shelf.unfinished()] == left


def test_a_lease_has_one_holder_until_it_lets_go(tmp_path: Path) -> None:
    first = FillLease(tmp_path / "lease")
    second = FillLease(tmp_path / "lease")
    assert first.take()
    with first:
        assert not second.take()
    assert second.take()
    with second:
        pass
    assert [*tmp_path.iterdir()] == []


def test_a_lease_without_a_beat_is_taken_and_its_old_holder_leaves_the_new_one(
    tmp_path: Path,
) -> None:
    silent = FillLease(tmp_path / "lease", beat_seconds=1000)
    assert silent.take()
    heir = FillLease(tmp_path / "lease", stale_seconds=0)
    assert heir.take()
    with silent:
        pass
    assert not FillLease(tmp_path / "lease").take()
    with heir:
        pass
    assert [*tmp_path.iterdir()] == []


def test_a_holder_that_beats_keeps_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    holder = FillLease(path, beat_seconds=0.01)
    other = FillLease(path, stale_seconds=5)
    assert holder.take()
    with holder:
        seen = {path.read_bytes()}
        for _ in polling("three beats", seconds=20):
            assert not other.take()
            seen.add(path.read_bytes())
            if len(seen) > 3:
                break


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "CacheClaimFull"),
        (errno.EDQUOT, "CacheClaimFull"),
        (errno.EROFS, "CacheClaimReadOnly"),
        (errno.EACCES, "CacheClaimReadOnly"),
        (errno.EIO, "CacheClaimFailed"),
    ],
)
def test_an_error_of_the_disk_names_the_claim_and_its_field(
    shelf: Shelf, number: int, reason: str
) -> None:
    failure = why_not_written(OSError(number, "words of the system"), shelf.cache)
    assert failure.reason == reason
    for part in ("models", "model.source.hub.cacheClaim", "words of the system"):
        assert part in failure.message


def test_only_what_lies_on_the_claim_is_about_the_claim(shelf: Shelf) -> None:
    blob = f"{shelf.blobs}/50"

    def about(error: Exception) -> bool:
        return is_about_claim(error, shelf.cache)

    assert about(RuntimeError("IO: No space left on device (os error 28)"))
    assert about(OSError(errno.ENOSPC, "full"))
    assert about(OSError(errno.EACCES, "denied", blob))
    assert about(OSError(errno.EROFS, "read-only", blob.encode()))
    assert not about(OSError("read timed out"))
    assert not about(OSError(errno.EACCES, "denied", "/etc/ssl/ca.pem"))
    assert not about(OSError(errno.ENOSPC, "full", "/tmp/x"))
    assert not about(OSError(errno.ENOENT, "gone", blob))


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_a_connection_that_is_not_allowed_is_the_networks(
    shelf: Shelf, number: int
) -> None:
    refused = ConnectionError("cannot connect")
    refused.__cause__ = PermissionError(number, os.strerror(number))
    assert isinstance(as_ours(refused, shelf.cache), HubTrouble)
    unwritable = RuntimeError("download failed")
    unwritable.__cause__ = PermissionError(
        number, os.strerror(number), f"{shelf.blobs}/50"
    )
    failure = as_ours(unwritable, shelf.cache)
    assert isinstance(failure, RunFailure)
    assert failure.reason == "CacheClaimReadOnly"


def test_what_is_a_commit() -> None:
    assert [
        is_commit(r) for r in (COMMIT, COMMIT[:12], "main", COMMIT.upper())
    ] == [
        True,
        False,
        False,
        False,
    ]


def test_progress_moves_only_for_news_of_the_model_and_leaves_it_out_without_one() -> (
    None
):
    state = RunProgress()
    assert "model" not in json.loads(state.progress().model_dump_json())
    state.show_model(ModelFiles(state="Downloading", done_bytes=1))
    version = state.progress().version
    state.show_model(ModelFiles(state="Downloading", done_bytes=1))
    assert state.progress().version == version
    state.show_model(ModelFiles(state="Downloading", done_bytes=2))
    assert state.progress().version == version + 1
    read = ClientProgress.model_validate_json(state.progress().model_dump_json())
    assert read.model == ModelFiles(state="Downloading", done_bytes=2)


@pytest.mark.parametrize("commit", ["main", "--trust-remote-code", COMMIT.upper()])
def test_a_client_can_name_nothing_but_a_commit(commit: str) -> None:
    with pytest.raises(ValueError, match="commit"):
        ModelFiles(state="Complete", commit=commit)


def test_a_plan_without_a_claim_is_as_it_was() -> None:
    given = plan()
    assert "cache" not in json.loads(given.to_json())["target"]
    assert target_on_claim(given.target, lambda _: None) is given.target


def test_a_model_of_two_terabytes_can_be_told() -> None:
    files = ModelFiles(
        state="Downloading", total_bytes=2 * 10**12, done_bytes=10**12
    )
    assert ModelFiles.model_validate_json(files.model_dump_json()) == files


def test_a_beat_that_fails_once_does_not_end_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    failed: list[bool] = []

    def failing_once(*words: int | bytes) -> int:
        if not failed:
            failed.append(True)
            raise OSError(errno.EIO, "a network volume's")
        return pwrite(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "pwrite", failing_once)
    path = tmp_path / "lease"
    with FillLease(path, beat_seconds=0.01) as lease:
        assert lease.take()
        first = path.read_bytes()
        for _ in polling("a beat after the failure", seconds=20):
            if path.read_bytes() != first:
                break
    assert failed
