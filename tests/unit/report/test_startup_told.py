"""Where the time to ready went, in a line."""

from __future__ import annotations

import pytest
from benchrun.api import ServerStatus, Startup
from benchrun.observe.trim import run_of
from benchrun.report.run_summary import run_summary, startup_text
from unit.report.going_on import BEGIN, ended, run_body

WHOLE = Startup(
    pod_seconds=40.0,
    image_pull_seconds=31.25,
    download_seconds=80.0,
    load_seconds=9.375,
    compile_seconds=22.0,
    warm_up_seconds=15.4,
)


@pytest.mark.parametrize(
    ("line", "ready", "startup"),
    [
        (
            "pod 40 s (image 31 s), download 1 min 20 s, load 9.4 s, compile 22 s, warm-up 15 s, other 18 s",
            185.0,
            WHOLE,
        ),
        (
            "pod 2 s (image there), load 0.02 s",
            2.3,
            Startup(pod_seconds=2.0, image_pull_seconds=0.0, load_seconds=0.02),
        ),
        ("pod 2 s, other 0.5 s", 2.5, Startup(pod_seconds=2.0)),
        ("load 3 s", 60.0, Startup(load_seconds=3.0)),
        ("pod 3 s, load 4 s", 6.5, Startup(pod_seconds=3.0, load_seconds=4.0)),
        ("pod 3 s", None, Startup(pod_seconds=3.0)),
        ("", 60.0, Startup()),
        ("", 60.0, None),
    ],
)
def test_a_start_in_a_line(line: str, ready: float | None, startup: Startup | None) -> None:
    assert startup_text(ServerStatus(role="server", seconds_to_ready=ready, startup=startup)) == line


def test_it_stands_below_the_server() -> None:
    server = ServerStatus(role="server", seconds_to_ready=185.0, startup=WHOLE)
    ran = ended(servers=[server])
    assert dict(run_summary(run_of(run_body(ran)), ran, now=BEGIN).facts)["start"] == startup_text(server)
