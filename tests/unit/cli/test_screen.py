"""The display of a run that goes on: laid out for widths and heights, and on a real terminal."""

import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from datetime import timedelta
from fcntl import ioctl

import pytest
from benchrun.cli.progress_display import full, several
from benchrun.report.live_view import live_view
from benchrun.report.watch_state import StageLine
from rich.console import Console, RenderableType
from unit.cli.fake_kubectl import FakeKubectl
from unit.cli.test_interrupts import PYTHONPATH
from unit.golden_messages import golden
from unit.report.going_on import BEGIN, ended, followed, live, run_body, running

STAGES = tuple(
    StageLine(
        n,
        f"chat/rate={n}/r1",
        ("3.9 req/s", "TTFT p50 43 ms", *(["1 of 100 failed"] if n == 2 else [])),
    )
    for n in range(20)
)
SAMPLES = tuple(live(70 + 5 * n, running=n, waiting=2 * n) for n in range(8))


def drawn(renderable: RenderableType, *, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(renderable)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def view(**changes: object) -> list[str]:
    run = followed(
        running(done=20, total=40), stages=STAGES, samples=SAMPLES, **changes
    )
    return drawn(
        full(
            live_view(run, now=BEGIN + timedelta(seconds=130)), width=120, height=40
        ),
        width=120,
    )


def test_everything_there_is_to_see() -> None:
    golden("\n".join(view()))


def test_trouble_stands_below() -> None:
    golden(view(trouble="the cluster does not answer; trying again")[-1])


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("height", [16, 24, 50])
def test_no_line_is_wider_than_the_terminal_and_all_fit_its_height(
    width: int, height: int
) -> None:
    run = followed(running(done=20, total=40), stages=STAGES, samples=SAMPLES)
    lines = drawn(
        full(
            live_view(run, now=BEGIN + timedelta(seconds=130)),
            width=width,
            height=height,
        ),
        width=width,
    )
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert len(lines) < height
        assert any("chat/rate=19/r1" in line for line in lines), (
            "the latest stage is always there"
        )


def test_before_there_are_stages_there_is_no_bar() -> None:
    loading = running(
        progress=None,
        live=None,
        start_time=None,
        server_ready_time=None,
        message="the server is starting",
    )
    lines = drawn(
        full(live_view(followed(loading), now=BEGIN), width=80, height=24), width=80
    )
    assert not any("stages " in line and "/" in line for line in lines)
    golden(lines[-1])


def test_several_take_a_few_lines_each() -> None:
    views = [
        live_view(followed(name=name), now=BEGIN + timedelta(seconds=100))
        for name in ("a", "b")
    ]
    lines = drawn(several(views, height=24), width=100)
    assert "1/4 stages" in lines[1]
    assert len(lines) == 8
    golden(*[lines[0], lines[4]])


def test_many_take_one_line_each_however_narrow() -> None:
    views = [
        live_view(followed(name=f"run-{n}"), now=BEGIN + timedelta(seconds=100))
        for n in range(16)
    ]
    lines = drawn(several(views, height=24), width=60)
    assert len(lines) == 16
    golden(lines[15])


def on_a_terminal(
    *arguments: str, width: int, height: int, kind: str = "xterm-256color"
) -> tuple[int, str]:
    """Exit code and everything written to the terminal."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    environment = os.environ | {"PYTHONPATH": PYTHONPATH, "TERM": kind}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "benchrun.cli", *arguments]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    screen = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            data = os.read(ours, 65_536)
        except OSError:  # how Linux tells that the other side is closed
            break
        if not data:
            break
        screen += data
    os.close(ours)
    return process.wait(timeout=10), screen.decode()


def test_on_a_terminal_it_is_drawn_and_removed(kubectl: FakeKubectl) -> None:
    kubectl.watch(run_body(running(done=0)), run_body(ended()))
    code, screen = on_a_terminal("watch", "chat", width=100, height=30)
    assert code == 0
    assert "\x1b[?25l" in screen, "the cursor is hidden while it is drawn"
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l"), (
        "and shown again"
    )
    assert (
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
        .rstrip()
        .endswith("chat: Valid - ended: Valid")
    )


def test_a_terminal_that_cannot_be_drawn_on_gets_lines(
    kubectl: FakeKubectl,
) -> None:
    kubectl.watch(run_body(running(done=0)), run_body(ended()))
    code, screen = on_a_terminal("watch", "chat", width=100, height=30, kind="dumb")
    assert code == 0
    assert "Running · 0/4 · running 8" in screen
    assert "\x1b" not in screen


def test_of_several_those_that_ended_are_shown_above_the_display(
    kubectl: FakeKubectl,
) -> None:
    kubectl.watch(
        run_body(running(), name="a"),
        run_body(running(), name="a"),
        target="a",
        last="DELETED",
    )
    kubectl.watch(
        run_body(running(), name="b"),
        run_body(ended("Invalid"), name="b"),
        target="b",
    )
    code, screen = on_a_terminal("watch", "a", "b", width=100, height=30)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)
    assert code == 1
    assert plain.count("b: Invalid - ended: Invalid") == 2, (
        "when it ended, and with its tables"
    )
    assert plain.count("a: a was deleted") == 2


def test_an_error_leaves_the_terminal_as_it_was(kubectl: FakeKubectl) -> None:
    kubectl.fails(
        "get",
        error='error: the server doesn\'t have a resource type "benchmarkruns"',
    )
    code, screen = on_a_terminal("watch", "chat", width=80, height=24)
    assert code == 1
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l")
    # How often it is drawn anew while kubectl answers is a matter of time.
    golden(re.sub(r"(\r\x1b\[2K[^\r]*?\x1b\[0m)\1+", r"\1", screen))
