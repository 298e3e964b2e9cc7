"""The image of the pause program, written without an image builder, as it holds just one file.

All functions here are pure.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping

from devcluster.configs import PAUSE_IMAGE


def archive(program: bytes) -> bytes:
    """Return a docker archive that holds one image with one layer with one program."""
    layer = _tar({"pause": program})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
        },
    }
    manifest = [
        {
            "Config": "config.json",
            "RepoTags": [PAUSE_IMAGE],
            "Layers": ["layer.tar"],
        }
    ]
    return _tar(
        {
            "layer.tar": layer,
            "config.json": json.dumps(config).encode(),
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
