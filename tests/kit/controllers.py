"""The embedded cluster's controllers, stopped for a while.

Meanwhile nothing is garbage collected, and no Job gets a pod.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTROLLERS = b"kube-controller-manager"


@contextmanager
def standing_still() -> Iterator[None]:
    """Stop the controller manager, and garbage collection with it, while the context is open."""
    process = _controller_manager()
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def _controller_manager() -> int:
    """Return the process id of the controller manager.

    It is identified by its own kubeconfig: another cluster may run on this machine.
    """
    kubeconfig = f"--kubeconfig={Path(os.environ['DEVCLUSTER_DIR']) / 'controllers.kubeconfig'}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if CONTROLLERS in words and kubeconfig in words:
            return int(folder.name)
    raise AssertionError(
        "the controller manager of DEVCLUSTER_DIR does not run on this machine"
    )
