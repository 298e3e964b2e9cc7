"""Images as OCI archives: what they hold, and programs that run in one without a cluster."""

import json
import shlex
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
DELETED = ".wh."
"""The prefix of a file that stands for the absence of another in the layers below."""


@dataclass(frozen=True, slots=True)
class UnpackedImage:
    root: Path
    config: Json

    @property
    def megabytes(self) -> float:
        """What its files take, each once."""
        sizes = {
            (info.st_dev, info.st_ino): info.st_size
            for path in self.root.rglob("*")
            if (info := path.lstat()) and not path.is_dir()
        }
        return sum(sizes.values()) / 1e6


def image_name(archive: Path) -> str:
    """The full name that the archive gives its only image."""
    with tarfile.open(archive) as opened:
        (manifest,) = _json(opened, "index.json")["manifests"]
        found: str = manifest["annotations"]["org.opencontainers.image.ref.name"]
        return found


def unpack(archive: Path, folder: Path) -> UnpackedImage:
    with tarfile.open(archive) as opened:
        (entry,) = _json(opened, "index.json")["manifests"]
        manifest = _json(opened, _blob(entry["digest"]))
        config: Json = _json(opened, _blob(manifest["config"]["digest"]))["config"]
        for layer in manifest["layers"]:
            packed = opened.extractfile(_blob(layer["digest"]))
            assert packed is not None
            with tarfile.open(fileobj=packed) as files:
                files.extractall(folder, filter="tar")
            assert not list(folder.rglob(f"{DELETED}*")), "a layer deletes files"
    return UnpackedImage(folder, config)


def python_of(image: UnpackedImage, script: Path, *shared: Path) -> Path:
    """Write a script that is the image's `python3`: with the image's variables over its caller's,
    in its caller's folder. The image's own files are read-only; those of `shared` are the
    machine's. It needs root."""
    root = image.root
    places = [Path("/proc"), Path("/dev"), Path("/etc/hosts"), *shared]
    for place in places:
        inside = root / place.relative_to("/")
        if place.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
        else:
            inside.touch()
    mounted = [
        f"mount --rbind {place} {root / place.relative_to('/')}" for place in places
    ]
    variables = shlex.join(image.config["Env"])
    inner = "\n".join(
        [
            "set -e",
            f"mount --bind {root} {root}",
            f"mount -o remount,bind,ro {root}",
            *mounted,
            f'exec chroot {root} /usr/bin/env {variables} /bin/sh -c \'cd "$0"; exec python3 "$@"\' '
            '"$PWD" "$@"',
        ]
    )
    script.write_text(
        f'#!/bin/sh\nexec unshare --mount --propagation=private /bin/sh -c {shlex.quote(inner)} sh "$@"\n'
    )
    script.chmod(0o755)
    return script


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(archive: tarfile.TarFile, name: str) -> Json:
    file = archive.extractfile(name)
    assert file is not None
    found: Json = json.load(file)
    return found
