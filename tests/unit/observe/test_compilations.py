"""Compilations are found in a server's log, with their instants; nothing that a log may hold breaks it."""

from __future__ import annotations

import pytest
from benchrun.api import MAX_COMPILATIONS
from benchrun.observe.vllm_log import compilations

AT = "2026-11-21T12:00:{}Z"
PREFIX = "(EngineCore_0 pid=7) WARNING 11-21 12:00:01 [jit_monitor.py:120]"
END = "This causes a latency spike; consider extending warmup to cover this shape/config."
TRITON = f"{PREFIX} Triton kernel JIT compilation during inference: _topk. {END}"
TILELANG = f"{PREFIX} TileLang JIT compilation during inference: mhc. {END}"
NOISE = 'INFO: 10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK'
ZERO = 1_795_262_400.0


def log(*lines: tuple[str, str]) -> str:
    return "\n".join(f"{AT.format(second)} {text}" for second, text in lines)


def test_each_is_told_with_the_kubelets_instant() -> None:
    text = log(("01.5", NOISE), ("02.123456789", TRITON), ("03", NOISE), ("04", TILELANG))
    assert compilations(text, complete=True) == (ZERO + 2.123456, ZERO + 4)


@pytest.mark.parametrize(
    ("expected", "text", "complete"),
    [
        pytest.param((), log(("01", NOISE)), True, id="none"),
        pytest.param((), "", True, id="empty log"),
        pytest.param(None, log(("01", NOISE)), False, id="none in the part that was read"),
        pytest.param(None, log(("01", TRITON)), False, id="one in the part that was read: there may be more"),
        pytest.param((), TRITON, True, id="no instant"),
        pytest.param((), f"2026-11-21T12:00:00 {TRITON}", True, id="an instant without a zone"),
        pytest.param((), f"99999-99-99T00:00:00Z {TRITON}", True, id="an instant that is none"),
        pytest.param(
            (),
            log(("01", "Kernel JIT monitor activated; monitored JIT compilations during inference")),
            True,
            id="start",
        ),
    ],
)
def test_what_is_found(expected: tuple[float, ...] | None, text: str, complete: bool) -> None:
    assert compilations(text, complete=complete) == expected


def test_a_log_full_of_them_is_bounded() -> None:
    kept = compilations(log(*[("01", TRITON)] * MAX_COMPILATIONS), complete=True)
    assert kept is not None
    assert len(kept) == MAX_COMPILATIONS


def test_more_than_are_kept_are_not_known() -> None:
    assert compilations(log(*[("01", TRITON)] * (MAX_COMPILATIONS + 1)), complete=True) is None
