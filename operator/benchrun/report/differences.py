"""What differs between two judgements of a run, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api.codes import Code
from benchrun.api.status import BenchmarkRunStatus, Result, Verdict
from benchrun.judge.verdict import worst

LOG_RULE = Code.COMPILATION_IN_WINDOW.value
"""Rests on the server's log: where what it told is not kept, it is not found again, and not for want of compilations."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One cell that is judged otherwise."""

    cell: str
    was: Verdict
    now: Verdict
    appeared: tuple[str, ...]
    """Codes that were not found before."""
    gone: tuple[str, ...]
    """Codes that are not found any more."""
    sentence: str


def differences(stored: BenchmarkRunStatus, now: BenchmarkRunStatus, *, log_kept: bool) -> tuple[Difference, ...]:
    """Of the cells that have a row in both. `log_kept`: whether what the server's log told could be judged again."""
    before = {row.cell: row for row in stored.results}
    cut = any(each.field == "results[].findings" for each in (*stored.truncated, *now.truncated))
    pairs = [(before[row.cell], row) for row in now.results if row.cell in before]
    found = [_difference(old, new, codes_known=not cut, log_kept=log_kept) for old, new in pairs]
    return tuple(each for each in found if each is not None)


def _difference(old: Result, new: Result, *, codes_known: bool, log_kept: bool) -> Difference | None:
    appeared = _only_in(new.findings, old.findings) if codes_known else ()
    gone = _only_in(old.findings, new.findings) if codes_known else ()
    if old.verdict == new.verdict and not appeared and not gone:
        return None
    verdicts = f"still {new.verdict}" if old.verdict == new.verdict else f"was {old.verdict}, now {new.verdict}"
    moved = _moved(old, new, appeared, gone) if codes_known else []
    reasons = [*moved, *appeared, *(_no_longer(code, log_kept=log_kept) for code in gone)]
    sentence = f"{new.cell}: {verdicts}{': ' if reasons else ''}{', '.join(reasons)}"
    return Difference(new.cell, old.verdict, new.verdict, appeared, gone, sentence)


def _only_in(codes: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """That the log was not read again is the same for all cells, and said once."""
    return tuple(code for code in codes if code not in others and code != Code.NOT_CHECKED)


def _moved(old: Result, new: Result, appeared: Sequence[str], gone: Sequence[str]) -> list[str]:
    """The code that decided the worse of two verdicts, where both found it: its severity is another one.

    A row lists its worst code first.
    """
    if old.verdict == new.verdict:
        return []
    worse = worst((old.verdict, new.verdict)) == new.verdict
    decisive, explained = (new.findings[:1], appeared) if worse else (old.findings[:1], gone)
    return [f"{code} is {'more' if worse else 'less'} severe" for code in decisive if code not in explained]


def _no_longer(code: str, *, log_kept: bool) -> str:
    return f"{code} was not looked for again" if code == LOG_RULE and not log_kept else f"no {code}"
