"""Running other programs, and waiting for their effects."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from devcluster.reporting import DevclusterError

POLL_SECONDS = 0.1

# Debian keeps these out of an ordinary user's PATH.
ADMIN_PATHS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def search_path(*first: Path) -> str:
    """Return the PATH for programs: `first`, the caller's PATH, then the administrator's."""
    return os.pathsep.join(
        [*map(str, first), os.environ.get("PATH", os.defpath), *ADMIN_PATHS]
    )


def run(
    *command: str | Path,
    text: str | None = None,
    extra: Mapping[str, str] | None = None,
    folder: Path | None = None,
    shown: bool = False,
    called: str = "",
) -> str:
    """Run a program to its end and return what it printed.

    `text` is its standard input, `extra` holds environment variables added to this process's, and
    `folder` is where it runs. With `shown` its output goes to this process's stderr as it comes,
    and the result is "". Raises DevclusterError with the program's last line when it fails;
    `called` is the program's name in that message.
    """
    # fd 2 by number: our stderr, for stdout too, so that a caller who captures our stdout is not
    # handed build logs
    try:
        done = subprocess.run(
            [str(word) for word in command],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=2 if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PATH": search_path(), **(extra or {})},
        )
    except FileNotFoundError as error:
        raise DevclusterError(
            f"there is no program {error.filename}; install it"
        ) from error
    if done.returncode:
        said = (done.stderr or done.stdout or "").strip().splitlines()
        reason = (
            "its output is above"
            if shown
            else said[-1]
            if said
            else "it said nothing"
        )
        raise DevclusterError(
            f"{called or Path(command[0]).name} failed with {done.returncode}: {reason}"
        )
    return done.stdout or ""


def succeeds(*command: str | Path, extra: Mapping[str, str] | None = None) -> bool:
    """Return whether a program exits with 0; drop what it prints."""
    try:
        run(*command, extra=extra)
    except DevclusterError:
        return False
    return True


def wait_until(
    condition: Callable[[], bool], *, what: str, timeout_seconds: float, remedy: str
) -> None:
    """Wait for a condition to hold.

    Raises DevclusterError with `what` and `remedy` when it does not hold in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DevclusterError(
                f"{what}: not within {timeout_seconds:.0f} s; {remedy}"
            )
        time.sleep(POLL_SECONDS)
