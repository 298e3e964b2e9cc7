"""Servers that a test starts on this machine."""

import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kit.polling import polling

PATIENCE_SECONDS = 30.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def listening(command: Sequence[str], port: int) -> Iterator[None]:
    """Run a server for as long as the context is open, which begins once it listens on its port.

    Raises AssertionError if it ends before, or does not listen in time.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for _ in polling(f"{command[0]} on port {port}", seconds=PATIENCE_SECONDS):
            assert process.poll() is None, f"{command[0]} has ended"
            if _answers(port):
                break
        yield
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
