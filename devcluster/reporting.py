"""The program's output: progress lines with the time of day, and errors that fit in one line."""

import sys
import time


class DevclusterError(Exception):
    """An error the user can act on.

    The message is one line: what is wrong, then what to do about it.
    """


def say(text: str) -> None:
    """Write one progress line to stderr; stdout is kept for what a command is asked to print."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)
