"""A run written into a folder, as the archiver does it."""

from pathlib import Path

from benchrun.archive.contents import folder_of, write_archive
from unit.cli.finished_runs import FinishedRun
from unit.release.api_server import Json


def written(place: Path, run: FinishedRun, *, body: Json | None = None) -> Path:
    """Write the archive of a run below `place` and return its folder."""
    wanted = run.body if body is None else body
    folder = place / folder_of(wanted)
    folder.mkdir(parents=True)

    def put(path: str, data: bytes) -> None:
        (place / path).write_bytes(data)

    write_archive(wanted, run.config_maps, put)
    return folder
