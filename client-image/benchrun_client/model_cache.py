"""Fill a claim with a model from the hub, at one commit, before a server exists.

The files have the hub library's own layout under `hub/`. A marker under `benchrun/` says that a
commit is complete: it is written last, and only after every file was found with its size. Without
a marker nothing of a commit is used. Two runs that fill one claim agree by a lease (`FillLease`);
if it is ever broken, both download the same files, which the library moves into place whole.
"""

import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field, ValidationError

from benchrun_client.contract import ModelCache, ModelFiles, Target
from benchrun_client.contract.base import Bytes, LongText, Message
from benchrun_client.contract.model_files import Commit
from benchrun_client.engines import ENGINES
from benchrun_client.failures import RunFailure, shorten
from benchrun_client.fill_lease import STALE_SECONDS, FillLease
from benchrun_client.hub import (
    Hub,
    HubTrouble,
    RemoteFile,
    is_commit,
    why_not_written,
)

MAX_MARKER_BYTES = 4 * 1024 * 1024
STALLED = "no bytes come from the hub"
LONGEST_PAUSE_SECONDS = 300.0  # Of a hub that says when to come again.
SAFETENSORS = ".safetensors"
_FORMATS = (
    ".bin",
    ".ckpt",
    ".gguf",
    ".h5",
    ".msgpack",
    ".onnx",
    ".onnx_data",
    ".ot",
    ".pt",
    ".pth",
    SAFETENSORS,
    ".tflite",
)
"""Endings of files with weights, one format each."""

log = logging.getLogger(__name__)
Report = Callable[[ModelFiles], object]


class Marker(Message):
    """The marker that a commit is complete."""

    schema_: Literal["benchrun.model-cache/1"] = Field(
        "benchrun.model-cache/1", alias="schema"
    )
    repository: LongText
    commit: Commit
    files: Mapping[str, Bytes]  # Size of each file in bytes, by path.
    written_by: LongText


def wanted_files(
    files: Iterable[RemoteFile], weights: str
) -> tuple[RemoteFile, ...]:
    """Return the files that a server needs: one format of the weights, and all that is small.

    `weights` is the ending of the format that the engine reads. A file of another format is left
    out only if its folder, or one above it, has files of that format. So weights in a subfolder do
    not replace those outside it.
    """
    given = tuple(files)
    folders = {
        PurePosixPath(file.path).parent
        for file in given
        if file.path.endswith(weights)
    }
    return tuple(
        file
        for file in given
        if file.path.endswith(weights)
        or not file.path.endswith(_FORMATS)
        or folders.isdisjoint(PurePosixPath(file.path).parents)
    )


@dataclass(frozen=True, slots=True)
class Shelf:
    """The place of one model on a claim, for engines that read one format of weights."""

    cache: ModelCache
    weights: str = SAFETENSORS

    @property
    def hub_directory(self) -> Path:
        return Path(self.cache.directory) / "hub"

    @property
    def _folder(self) -> str:
        return f"models--{self.cache.repository.replace('/', '--')}"

    @property
    def blobs(self) -> Path:
        return self.hub_directory / self._folder / "blobs"

    @property
    def notes(self) -> Path:
        """Return the folder of markers and lease."""
        return Path(self.cache.directory) / "benchrun" / self._folder

    def snapshot(self, commit: str) -> Path:
        return self.hub_directory / self._folder / "snapshots" / commit

    def marker(self, commit: str) -> Path:
        """Return the path of a commit's marker; each format of the weights has its own.

        The name of the one for safetensors lacks the format, because older clients know no other.
        """
        of = "" if self.weights == SAFETENSORS else self.weights
        return self.notes / f"{commit}{of}.json"

    def has(self, commit: str, path: str, size: int) -> bool:
        """Return whether a file of the commit exists with this size."""
        try:
            return (self.snapshot(commit) / path).stat().st_size == size
        except OSError:
            return False

    def complete(self, commit: str) -> Marker | None:
        """Return the marker of a commit if every file that it lists exists, else None."""
        try:
            with self.marker(commit).open("rb") as file:
                marker = Marker.model_validate_json(file.read(MAX_MARKER_BYTES))
        except (OSError, ValidationError):
            return None
        there = marker.commit == commit and all(
            self.has(commit, path, size) for path, size in marker.files.items()
        )
        return marker if there else None

    def mark(self, commit: str, files: Sequence[RemoteFile], *, tool: str) -> None:
        """Write the marker, whole or not at all."""
        marker = Marker(
            repository=self.cache.repository,
            commit=commit,
            files={file.path: file.size for file in files},
            written_by=tool,
        )
        path = self.marker(commit)
        half = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            with half.open("w") as file:
                file.write(marker.model_dump_json(by_alias=True))
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)

    def done_bytes(self, commit: str, files: Sequence[RemoteFile]) -> int:
        """Return how many bytes of these files exist, including unfinished downloads."""
        under_way = self._under_way()
        return sum(
            file.size
            if self.has(commit, file.path, file.size)
            else min(under_way.get(file.blob, 0), file.size)
            for file in files
        )

    def _under_way(self) -> dict[str, int]:
        """Return the bytes of each blob, including unfinished downloads."""
        sizes: dict[str, int] = {}
        with contextlib.suppress(OSError), os.scandir(self.blobs) as entries:
            for entry in entries:
                blob = entry.name.partition(".")[0]
                with contextlib.suppress(OSError):
                    sizes[blob] = max(sizes.get(blob, 0), entry.stat().st_size)
        return sizes

    @property
    def _locks(self) -> Path:
        return self.hub_directory / ".locks" / self._folder

    def unfinished(self) -> frozenset[Path]:
        """Return the files of unfinished downloads, whether they continue or were abandoned."""
        return frozenset(self.blobs.glob("*.????????.incomplete"))

    def sweep(self, *, stale_seconds: float = STALE_SECONDS) -> None:
        """Delete the files of killed downloads, which can't be continued.

        Only the holder of the lease may call it. A client whose lease was taken away may still
        write, so files that were written to within `stale_seconds`, by the volume's clock, are
        left. If there are none, the library's locks are deleted, too. On a volume without locks of
        the operating system, the library would wait for the lock of a killed process for ever.
        Raises OSError if nothing can be written.
        """
        now = self._volume_time()
        alive = False
        for left in self.unfinished():
            alive |= not _drop_older(left, now - stale_seconds)
        if not alive:
            for lock in self._locks.glob("*.lock"):
                _drop_older(lock, now - stale_seconds)

    def _volume_time(self) -> float:
        """Return the current time by the volume's clock."""
        probe = self.notes / f"now.{uuid.uuid4().hex}"
        try:
            probe.write_bytes(b"0")
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)


def target_on_claim(target: Target, report: Report) -> Target:
    """Fill the claim, and return the target with the tokenizer from the claim.

    A target without a claim is returned unchanged. Raises RunFailure.
    """
    if target.cache is None:
        return target
    weights = ENGINES[target.engine].weights
    folder = Filling(target.cache, Hub(), report, weights=weights).fill()
    return target.model_copy(
        update={"tokenizer": str(folder), "tokenizer_revision": None}
    )


@dataclass(frozen=True, slots=True)
class FillPace:
    """Pauses of a client that fills a claim, and when it gives up, in seconds."""

    try_again: tuple[float, ...] = (2.0, 5.0, 15.0, 45.0)
    """Pauses after errors that may pass. An error after the last pause ends the run."""
    look: float = 1.0  # Between two looks at what another run downloads.
    report: float = 3.0  # Between two looks at what is downloaded.
    stale: float = STALE_SECONDS


class Filling:
    """One client's work on the claim."""

    def __init__(
        self,
        cache: ModelCache,
        hub: Hub,
        report: Report,
        pace: FillPace = FillPace(),
        *,
        weights: str = SAFETENSORS,
    ) -> None:
        self._pace = pace
        self._shelf = Shelf(cache, weights)
        self._cache = cache
        self._hub = hub
        self._report = report
        self._shown = ModelFiles(state="Resolving")
        self._waited = False

    def fill(self) -> Path:
        """Download the missing files, and return the folder of the model. Raises RunFailure."""
        self._show()
        for pause in (*self._pace.try_again, None):
            try:
                return self._attempt()
            except HubTrouble as trouble:
                if (
                    pause is None
                    or (trouble.again_seconds or 0) > LONGEST_PAUSE_SECONDS
                ):
                    raise RunFailure(
                        "HubUnavailable", self._words(trouble)
                    ) from trouble
                log.warning("the hub: %s; trying again", trouble)
                self._show(problem=shorten(str(trouble), 300))
                time.sleep(max(pause, trouble.again_seconds or 0))
            except OSError as error:
                raise why_not_written(error, self._cache) from error
        raise AssertionError("the last attempt returns or raises")

    def _words(self, trouble: HubTrouble) -> str:
        again = (
            f" and asks to come again in {trouble.again_seconds:.0f} s"
            if trouble.again_seconds
            else ""
        )
        return (
            f"cannot download {self._cache.repository}: {trouble}{again}. Check that the client "
            "reaches the hub (model.source.hub.endpoint), and give "
            "model.source.hub.tokenSecretRef for higher limits"
        )

    def _attempt(self) -> Path:
        asked = self._cache.revision
        commit = asked if asked is not None and is_commit(asked) else None
        if commit is None or self._shelf.complete(commit) is None:
            commit = self._hub.commit(self._cache)
        if (marker := self._shelf.complete(commit)) is not None:
            return self._finished(commit, sum(marker.files.values()))
        self._waited = True
        self._shelf.notes.mkdir(parents=True, exist_ok=True)
        lease = FillLease(
            self._shelf.notes / "lease", stale_seconds=self._pace.stale
        )
        while not lease.take():
            self._show(state="Waiting", commit=commit, problem=None)
            if (marker := self._shelf.complete(commit)) is not None:
                return self._finished(commit, sum(marker.files.values()))
            time.sleep(self._pace.look)
        with lease:
            # Another run may have completed it in between.
            if self._shelf.complete(commit) is None:
                self._download(commit, lease)
        marker = self._shelf.complete(commit)
        if marker is None:
            raise HubTrouble("files of the claim disappear while they are written")
        return self._finished(commit, sum(marker.files.values()))

    def _download(self, commit: str, lease: FillLease) -> None:
        shelf = self._shelf
        shelf.sweep(stale_seconds=self._pace.stale)
        before = shelf.unfinished()
        files = wanted_files(self._hub.files(self._cache, commit), shelf.weights)
        total = sum(file.size for file in files)
        self._show(
            state="Downloading", commit=commit, total_bytes=total, problem=None
        )
        self._check_room(total - shelf.done_bytes(commit, files))
        try:
            with self._reporting(commit, files):
                self._hub.download(
                    self._cache,
                    commit,
                    shelf.hub_directory,
                    [escape(file.path) for file in files],
                )
        except (HubTrouble, RunFailure):
            # Another attempt can't go on with them, and would find less room.
            if lease.is_held():
                for left in shelf.unfinished() - before:
                    left.unlink(missing_ok=True)
            raise
        lost = [f.path for f in files if not shelf.has(commit, f.path, f.size)]
        if lost:
            for path in lost:
                _drop(shelf.snapshot(commit) / path)
            raise HubTrouble(f"{lost[0]} did not come whole")
        shelf.mark(commit, files, tool=self._hub.version)

    def _check_room(self, needed: int) -> None:
        at = os.statvfs(self._cache.directory)
        free = at.f_bavail * at.f_frsize
        if at.f_blocks and free < needed:
            raise RunFailure(
                "CacheClaimFull",
                f"claim {self._cache.claim} (model.source.hub.cacheClaim) has {_size(free)} free, "
                f"and {self._cache.repository} needs {_size(needed)} more: enlarge the claim, or "
                "delete models from it",
            )

    @contextlib.contextmanager
    def _reporting(
        self, commit: str, files: Sequence[RemoteFile]
    ) -> Iterator[None]:
        """Report every few seconds how many bytes exist, and whether no more arrive.

        The library itself retries for half a minute and waits for locks, without a message.
        """
        over = threading.Event()

        def watch() -> None:
            seen = -1
            since = time.monotonic()
            while not over.wait(self._pace.report):
                done = self._shelf.done_bytes(commit, files)
                if done != seen:
                    seen = done
                    since = time.monotonic()
                stalled = time.monotonic() - since >= 2 * self._pace.report
                self._show(done_bytes=done, problem=STALLED if stalled else None)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _finished(self, commit: str, size: int) -> Path:
        self._show(
            state="Complete",
            commit=commit,
            start="Cold" if self._waited else "Warm",
            total_bytes=size,
            done_bytes=size,
            problem=None,
            completed_unix_us=time.time_ns() // 1000,
        )
        log.info("%s at %s is on the claim", self._cache.repository, commit)
        return self._shelf.snapshot(commit)

    def _show(self, **changes: object) -> None:
        self._shown = self._shown.model_copy(update=changes)
        self._report(self._shown)


def _drop_older(path: Path, instant: float) -> bool:
    """Delete a file that was last written to before this; return whether it is gone."""
    try:
        if path.stat().st_mtime > instant:
            return False
        path.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _drop(link: Path) -> None:
    """Delete a file of a snapshot with the blob that it points to."""
    for path in (link.resolve(), link):
        with contextlib.suppress(OSError):
            path.unlink()


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
