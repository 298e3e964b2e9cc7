"""The hand-written image: an archive whose parts refer to each other correctly."""

import hashlib
import io
import json
import tarfile

from devcluster import pause_image


def unpack(archive: bytes) -> dict[str, tuple[bytes, int]]:
    """Every file of a tar: content and mode by name."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            packed = tar.extractfile(member)
            assert packed is not None
            files[member.name] = (packed.read(), member.mode)
    return files


def test_the_archive_holds_one_executable_and_its_digest() -> None:
    files = unpack(pause_image.archive(b"\x7fELF..."))
    layer, _ = files["layer.tar"]
    config = json.loads(files["config.json"][0])
    assert json.loads(files["manifest.json"][0]) == [
        {"Config": "config.json", "RepoTags": ["localhost/pause:dev"], "Layers": ["layer.tar"]}
    ]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert unpack(layer) == {"pause": (b"\x7fELF...", 0o755)}


def test_the_same_program_makes_the_same_image() -> None:
    assert pause_image.archive(b"program") == pause_image.archive(b"program")
