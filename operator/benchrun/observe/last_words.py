"""What a program said last, out of the end of its log: the error itself, without the traceback around it.

A vLLM server that fails leaves up to three tracebacks, in two processes, each line behind a log prefix. People want the
one sentence that names the cause; everything else they can read in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from benchrun.api import plain_text

MAX_CHARS = 600
MAX_READ_CHARS = 32 * 1024
"""What is looked at of a log: its end."""
MAX_LINES_OF_ERROR = 8
CAUSE_IS_ABOVE = "See root cause above"
"""vLLM's API server ends with these words when an engine process failed: the cause is further up in the log."""

_LOG_PREFIX = re.compile(r"^(?:\(\S+ pid=\d+\) )?(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d )?(?:\[\S+:\d+\] ?)?")
_PREFIXED = frozenset("([ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt|Refused))(?:: (?P<text>.*))?$")
_ARGPARSE = re.compile(r"^\S+(?: \w+)*: error: (?P<text>.+)$")
_PYDANTIC_INPUT = re.compile(r"\s*\[type=\w+, input_value=(?P<value>.*), input_type=(?P<type>\w+)\]")
_PYDANTIC_HEAD = re.compile(r"^\d+ validation errors? for \w+$")
_NOISE = re.compile(
    r"^\s*$|^Traceback \(most recent call last\)|^\s+File \"|\", line \d+, in |^\s*[\^~]+\s*$"
    r"|^\s*During handling of|^\s*The above exception|^\s*For further information visit"
    r"|^usage: |Warning: |^\s*warnings\.warn\(|^\[rank\d+\]"
)
_CREDENTIAL = re.compile(r"\bhf_[A-Za-z0-9]{10,}|(?<=[Bb]earer )\S+|(?<=://)[^/@\s]+(?=@)")
_END_OF_ERROR = re.compile(
    r"^Traceback \(|^\s*During handling of|^\s*The above exception|Warning: |^\[rank\d+\]|^\s+File \""
)


def last_words(log: str) -> str:
    """One line of at most 600 characters; empty if the log says nothing."""
    lines = [_Line.of(line.rstrip()) for line in log[-MAX_READ_CHARS:].replace("\r", "\n").split("\n")]
    return bounded(_usage(lines) or _error(lines) or _plain(lines))


def bounded(words: str) -> str:
    """Cut to 600 characters, with white space made single, and what looks like a credential or only steers a terminal taken out."""
    single = _CREDENTIAL.sub("***", " ".join(plain_text(words[:MAX_READ_CHARS]).split()))
    return single if len(single) <= MAX_CHARS else single[: MAX_CHARS - 1].rstrip() + "…"


class _Line(NamedTuple):
    """A line of the log and the prefix it was written behind; lines of one message share it."""

    prefix: str
    text: str

    @classmethod
    def of(cls, line: str) -> _Line:
        found = _LOG_PREFIX.match(line) if line[:1] in _PREFIXED else None
        end = found.end() if found else 0
        return cls(line[:end], line[end:])


def _usage(lines: list[_Line]) -> str:
    """argparse's complaint: the last `prog: error: ...` and what follows it."""
    for at in reversed(range(len(lines))):
        if complaint := _ARGPARSE.match(lines[at].text):
            return _joined([complaint["text"], *_until_end(lines, at)])
    return ""


def _error(lines: list[_Line]) -> str:
    """The last exception that is a cause, told with its own further lines."""
    found = [(at, error) for at, line in enumerate(lines) if (error := _ERROR.match(line.text))]
    if not found:
        return ""
    causes = [(at, error) for at, error in found if CAUSE_IS_ABOVE not in lines[at].text]
    at, error = (causes or found)[-1]
    first = error["text"] or ""
    name = "" if _PYDANTIC_HEAD.match(first) else f"{error['name']}: "
    return (name + _joined([first, *_until_end(lines, at)])).removesuffix(": ")


def _plain(lines: list[_Line]) -> str:
    """No exception anywhere: the last line that says something."""
    return next((line.text for line in reversed(lines) if not _NOISE.search(line.text)), "")


def _until_end(lines: list[_Line], at: int) -> list[str]:
    """Lines after `at` that belong to the same error: up to the next message, traceback, exception or warning."""
    kept: list[str] = []
    for line in lines[at + 1 : at + 1 + MAX_LINES_OF_ERROR]:
        if line.prefix != lines[at].prefix:
            break
        if _END_OF_ERROR.search(line.text) or _ERROR.match(line.text):
            break
        kept.append(line.text)
    return kept


def _joined(lines: Iterable[str]) -> str:
    said = [
        _PYDANTIC_INPUT.sub(_got, line) for line in lines if not _NOISE.search(line) and not _PYDANTIC_HEAD.match(line)
    ]
    return " ".join(said)


def _got(match: re.Match[str]) -> str:
    """pydantic's `[type=..., input_value=0, ...]` as "(got 0)"; nothing for a whole object."""
    return f" (got {match['value']})" if match["type"] in ("int", "float", "str", "bool") else ""
