"""Log lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from benchrun.runtime import logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Logging as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_json_line_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="INFO", log_format="json")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("benchrun.x").exception("pass %s", "failed", extra={"run": "lab/chat"})
    entry = json.loads(capsys.readouterr().err)
    assert entry["time"].endswith("+00:00")
    assert {key: entry[key] for key in ("level", "logger", "message", "run")} == {
        "level": "error",
        "logger": "benchrun.x",
        "message": "pass failed",
        "run": "lab/chat",
    }
    assert "ValueError: broken" in entry["error"]


def test_json_entry_with_line_breaks_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="INFO", log_format="json")
    logging.getLogger("x").info("a\nb")
    assert capsys.readouterr().err.count("\n") == 1


def test_plain_line_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="INFO", log_format="plain")
    logging.getLogger("x").info("hello")
    assert capsys.readouterr().err.endswith("INFO    x: hello\n")


def test_level_is_obeyed_and_what_says_something_for_every_request_is_silent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure(level="INFO", log_format="plain")
    logging.getLogger("x").debug("too much")
    logging.getLogger("aiohttp.access").info("GET /healthz")
    assert capsys.readouterr().err == ""
