"""Where the time until a server was ready went, in a line."""

from __future__ import annotations

from collections.abc import Iterator

from benchrun.api.startup import Startup
from benchrun.api.status import ServerStatus
from benchrun.report.durations import told
from benchrun.report.rows import figure

WORTH_TELLING_SECONDS = 0.5
"""What nobody accounts for is told from here on: instants of pods are whole seconds."""


def startup_told(server: ServerStatus) -> str:
    """`pod 40 s (image 31 s), download 20 s, load 9.4 s, compile 22 s, warm-up 15 s, other 18 s`; empty where nothing is known.

    Other is the rest of the time to ready: Python, imports, files of the model, the way to the first healthy answer.
    """
    if server.startup is None:
        return ""
    parts = list(_parts(server.startup))
    texts = [f"{name} {_seconds(seconds)}{_image(server.startup) if name == 'pod' else ''}" for name, seconds in parts]
    rest = (server.seconds_to_ready or 0.0) - sum(seconds for _, seconds in parts)
    if server.startup.pod_seconds is not None and rest >= WORTH_TELLING_SECONDS:
        texts.append(f"other {_seconds(rest)}")
    return ", ".join(texts)


def _parts(startup: Startup) -> Iterator[tuple[str, float]]:
    parts = (
        ("pod", startup.pod_seconds),
        ("download", startup.download_seconds),
        ("load", startup.load_seconds),
        ("compile", startup.compile_seconds),
        ("warm-up", startup.warm_up_seconds),
    )
    return ((name, seconds) for name, seconds in parts if seconds is not None)


def _image(startup: Startup) -> str:
    pull = startup.image_pull_seconds
    return "" if pull is None else f" (image {_seconds(pull)})" if pull else " (image there)"


def _seconds(seconds: float) -> str:
    return f"{figure(seconds, digits=2)} s" if seconds < 10 else told(seconds)
