"""A failure is told in bounded words, without a traceback, where the kubelet looks for it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from benchrun_client.contract import Failure
from benchrun_client.failures import (
    MAX_TERMINATION_BYTES,
    TERMINATION_LOG_VARIABLE,
    BadInput,
    Reason,
    RunFailure,
    as_failure,
    leave_termination_message,
)


def test_an_unexpected_error_becomes_its_first_line() -> None:
    failure = as_failure(ValueError("\nno such flag\nTraceback (most recent call last):\n  ..."))
    assert (failure.reason, failure.message) == ("ClientError", "ValueError: no such flag")


def test_an_error_without_words_keeps_its_name() -> None:
    assert as_failure(TimeoutError()).message == "TimeoutError"


def test_bad_input_exits_2_and_everything_else_1() -> None:
    codes = {reason: RunFailure(reason, "").exit_code for reason in get_args(Reason)}
    assert {reason for reason, code in codes.items() if code == 2} == set(get_args(BadInput))
    assert set(codes.values()) == {1, 2}


@pytest.mark.parametrize("character", ["x", "é", "語", '"', "\x01"])
def test_a_termination_message_fits_whatever_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, character: str
) -> None:
    file = tmp_path / "termination-log"
    monkeypatch.setenv(TERMINATION_LOG_VARIABLE, str(file))
    leave_termination_message(RunFailure("CanaryFailed", character * 100_000).to_message())
    assert file.stat().st_size <= MAX_TERMINATION_BYTES
    told = Failure.model_validate_json(file.read_bytes())
    assert told.reason == "CanaryFailed"
    assert told.message.startswith(character * 100)
    assert told.message.endswith("…")


def test_a_termination_message_that_cannot_be_written_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TERMINATION_LOG_VARIABLE, str(tmp_path / "no" / "such" / "folder"))
    leave_termination_message(Failure(reason="ClientError", message="x"))
    assert list(tmp_path.iterdir()) == []
