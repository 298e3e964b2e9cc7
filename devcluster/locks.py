"""A lock on a folder, held by one program at a time.

Two sessions may ask for the same cluster, or fill the same cache.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.reporting import say


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create `folder` if need be and hold its lock; wait while another process holds it.

    The lock is on the folder itself, so it leaves no file behind and ends with the process, however
    that ends.
    """
    descriptor = _open(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another devcluster command to be done with {folder}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # `down` may have deleted the folder while we waited: then this lock is on nothing, and a
        # new one is needed.
        if folder.exists() and os.path.samestat(
            os.fstat(descriptor), folder.stat()
        ):
            return descriptor
        os.close(descriptor)
