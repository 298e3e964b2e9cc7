"""Read archives of runs, from a folder, S3 or GCS, without a cluster."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from benchrun.archive.contents import (
    INDEX,
    ArchivedRun,
    BadArchive,
    Read,
    StoreError,
)
from benchrun.cli import errors
from benchrun.cli.result_documents import BadDocument
from benchrun.observe import untrusted_json as raw

Source = Path | str
"""A file or folder as a path, or a URL as a string, because a path would lose one of its
slashes."""
T = TypeVar("T")


def source(text: str) -> Source:
    """Return the user's argument as a path or a URL, for argparse."""
    return text if "://" in text else Path(text)


class Archive:
    """The archive of a run. Each method raises BadDocument, a CommandError, if it can't be read."""

    def __init__(self, place: Source) -> None:
        self.place = place
        self._run = self._checked(lambda: ArchivedRun(_reader(place)))

    def body(self) -> raw.Object:
        """Return the run as the cluster had it."""
        return self._checked(self._run.body)

    def config_map(self, name: str) -> raw.Object:
        """Return the ConfigMap of this name."""
        found = self._checked(lambda: self._run.config_map(name))
        if found is None:
            raise BadDocument(f"not in {self.place}")
        return found

    def config_maps(self) -> Iterator[raw.Object]:
        """Yield the run's ConfigMaps."""
        bodies = self._run.config_maps()
        while (body := self._checked(lambda: next(bodies, None))) is not None:
            yield body

    def _checked(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except BadArchive as error:
            raise BadDocument(f"{self.place}: {error}") from error
        except FileNotFoundError as error:
            raise BadDocument(
                f"{self.place} has no {INDEX}: it is no run's archive, or not a whole one; name "
                "a folder NAMESPACE/NAME-UID of the archive"
            ) from error
        except StoreError as error:
            raise BadDocument(str(error)) from error
        except OSError as error:
            raise BadDocument(f"{self.place}: {error.strerror}") from error


def archive_at(place: Source) -> Archive | None:
    """Return the archive at a place; None if the place is a file. Raises BadDocument."""
    if isinstance(place, Path) and not place.is_dir():
        return None
    return Archive(place)


def _reader(place: Source) -> Read:
    if isinstance(place, str):
        return _store_reader(place)

    def read(name: str, most: int) -> bytes:
        with (place / name).open("rb") as file:
            return file.read(
                most + 1
            )  # One more: what is longer is not what was written.

    return read


def _store_reader(place: str) -> Read:
    """Return a function that reads from a storage. The package for it is imported only here."""
    try:
        from benchrun.archive.store import BadPlace, Store
    except ModuleNotFoundError as error:
        needed = (
            "an archive in a storage needs another package; to install it, run in a "
            "checkout: pipx install --force '.[archive]'"
        )
        raise errors.CommandError(needed) from error
    try:
        return Store(place).get
    except BadPlace as error:
        raise BadDocument(f"-f {error}") from error
