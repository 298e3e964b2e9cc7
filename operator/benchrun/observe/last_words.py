"""The error at the end of a program's log, without the traceback around it."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, Self

from benchrun_client.engines import Engine

from benchrun.api import plain_text

MAX_CHARS = 600
MAX_READ_CHARS = 32 * 1024  # most characters read from the end of a log
MAX_LINES = 1024
MAX_LINE_CHARS = 2048  # most characters read of a line
MAX_LINES_OF_ERROR = 8
_ERROR = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt|Refused))"
    r"(?:: (?P<text>.*))?$"
)
# The program's name may be `vllm serve`, `vllm (offline)` or, from Python 3.14 on,
# `python3 -m vllm...`.
_ARGPARSE = re.compile(r"^\S+(?: [\w().-]+)*: error: (?P<text>.+)$")
_PYDANTIC_INPUT = re.compile(
    r"\[type=\w+, input_value=(?P<value>.*), input_type=(?P<type>\w+)\]"
)
_PYDANTIC_HEAD = re.compile(r"^\d+ validation errors? for \w+$")
_NOISE = re.compile(
    r"^\s*$|^Traceback \(most recent call last\)|^\s+File \"|\", line \d+, in |^\s*[\^~]+\s*$"
    r"|^\s*During handling of|^\s*The above exception|^\s*For further information visit"
    r"|^usage: |Warning: |^\s*warnings\.warn\(|^\[rank\d+\]"
)
_CREDENTIAL = re.compile(
    r"\bhf_[A-Za-z0-9]{10,}|(?<=[Bb]earer )\S+|(?<=://)[^/@\s]+(?=@)"
)
_CHAINED = re.compile(
    r"^\s*(?:During handling of the above|The above exception was the direct)"
)
_TOLD_TO_END = re.compile(r"^(?:\w+\.)*(?:KeyboardInterrupt|CancelledError)\b")
_PROCESS = re.compile(r"^\(\S+ pid=\d+\)")
_END_OF_ERROR = re.compile(
    r"^Traceback \(|^\s*During handling of|^\s*The above exception|Warning: |^\[rank\d+\]"
    r"|^\s+File \"|^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? "
)
_LEVELS_BELOW_ERROR = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")


@lru_cache(maxsize=64)  # every reconcile reads the same log again
def last_words(log: str, engine: Engine) -> str:
    """Return the log's last error message as one line of at most 600 characters.

    If the log has neither a complaint of argparse nor an exception, return the last line that is
    not noise; without such a line, an empty string.
    """
    lines = _lines_of(log, engine)
    # Without a complaint or an exception it is the last line that is not noise.
    plain = (line.text for line in reversed(lines) if not _NOISE.search(line.text))
    stated = _stated(lines, engine)
    return bounded(
        (stated[0] if stated else "")
        or _usage(lines)
        or _error(lines, engine)
        or next(plain, "")
    )


@lru_cache(maxsize=64)
def errors(log: str, engine: Engine) -> tuple[str, ...]:
    """Return the whole error that ended the program, then the errors that led to it, latest first.

    Empty if the log holds no error: other lines do not name a cause.
    """
    lines = _lines_of(log, engine)
    if engine.error_lines is not None:
        return _stated(lines, engine)
    if (at := _complaint(lines)) is not None:
        return (_whole(lines, at),)
    return tuple(_whole(lines, at) for at in _chain(lines, engine))


def _stated(lines: list["_Line"], engine: Engine) -> tuple[str, ...]:
    """Return the lines that state an error in the engine's own form, the first one first."""
    if (begins := engine.error_lines) is None:
        return ()
    return tuple(
        line.text for line in lines if begins.match(line.prefix + line.text)
    )


def _lines_of(log: str, engine: Engine) -> list["_Line"]:
    end = log[-MAX_READ_CHARS:].replace("\r", "\n").split("\n")[-MAX_LINES:]
    return [_Line.of(line[:MAX_LINE_CHARS].rstrip(), engine) for line in end]


def bounded(words: str) -> str:
    """Return the words cut to 600 characters, on one line with single spaces.

    Text that looks like a credential is masked, and terminal control characters are removed.
    """
    single = _CREDENTIAL.sub(
        "***", " ".join(plain_text(words[:MAX_READ_CHARS]).split())
    )
    return (
        single
        if len(single) <= MAX_CHARS
        else single[: MAX_CHARS - 1].rstrip() + "…"
    )


class _Line(NamedTuple):
    """A line of the log, split into the logger's prefix and the text.

    Lines of one message have the same prefix.
    """

    prefix: str
    text: str

    @classmethod
    def of(cls, line: str, engine: Engine) -> Self:
        found = engine.log_prefix.match(line)
        end = found.end() if found else 0
        return cls(line[:end], line[end:])

    @property
    def process(self) -> str:
        """Return the part of the prefix that names the process; empty if there is none."""
        found = _PROCESS.match(self.prefix)
        return found[0] if found else ""

    @property
    def is_error(self) -> bool:
        """Return whether the line is an exception that was not only warned of."""
        is_told = _LEVELS_BELOW_ERROR.search(self.prefix) is not None
        return not is_told and _ERROR.match(self.text) is not None


def _usage(lines: list[_Line]) -> str:
    """Return argparse's complaint: the last `prog: error: ...` and the lines that belong to it."""
    at = _complaint(lines)
    complaint = None if at is None else _ARGPARSE.match(lines[at].text)
    if at is None or complaint is None:
        return ""
    return _joined([complaint["text"], *_until_end(lines, at)])


def _complaint(lines: list[_Line]) -> int | None:
    """Return the index of the line where argparse complains; None if there is no such line.

    Such a complaint ends the program. If an exception follows it, another program (a compiler)
    complained, and the line does not count.
    """
    for at in reversed(range(len(lines))):
        if _ARGPARSE.match(lines[at].text):
            return at
        if _ERROR.match(lines[at].text):
            return None
    return None


def _error(lines: list[_Line], engine: Engine) -> str:
    """Return the last exception that names a cause, with the lines that belong to it."""
    if (at := _cause(lines, engine)) is None or (
        error := _ERROR.match(lines[at].text)
    ) is None:
        return ""
    first = error["text"] or ""
    name = "" if _PYDANTIC_HEAD.match(first) else f"{error['name']}: "
    return (name + _joined([first, *_until_end(lines, at)])).removesuffix(": ")


def _cause(lines: list[_Line], engine: Engine) -> int | None:
    """Return the index of the last exception that names a cause; None if there is no exception.

    An exception that only points to another one, or only says that the program was stopped, is
    returned only if there is no other.
    """
    found = [at for at, line in enumerate(lines) if line.is_error]
    own = [at for at in found if not _TOLD_TO_END.match(lines[at].text)] or found
    causes = [at for at in own if not engine.points_up(lines[at].text)]
    return next(reversed(causes or own), None)


def _chain(lines: list[_Line], engine: Engine) -> Iterator[int]:
    """Yield the index of the cause, then of the exceptions that led to it, latest first.

    Python's lines between chained exceptions show which ones. Only lines of the same process count.
    """
    at = _cause(lines, engine)
    if at is None:
        return
    yield at
    process = lines[at].process
    chained = False
    for before in reversed(range(at)):
        line = lines[before]
        if line.process != process:
            continue
        if _CHAINED.match(line.text):
            chained = True
        elif line.is_error:
            if not chained:
                return
            yield before
            chained = False


def _whole(lines: list[_Line], at: int) -> str:
    return " ".join([lines[at].text, *_until_end(lines, at)])


def _until_end(lines: list[_Line], at: int) -> list[str]:
    """Return the lines after `at` that belong to the same error.

    The error ends at the next message, traceback, exception or warning.
    """
    kept: list[str] = []
    for line in lines[at + 1 : at + 1 + MAX_LINES_OF_ERROR]:
        if (
            line.prefix != lines[at].prefix
            or _END_OF_ERROR.search(line.text)
            or _ERROR.match(line.text)
        ):
            break
        kept.append(line.text)
    return kept


def _joined(lines: Iterable[str]) -> str:
    kept = (
        line
        for line in lines
        if not _NOISE.search(line) and not _PYDANTIC_HEAD.match(line)
    )
    return " ".join(_PYDANTIC_INPUT.sub(_got, line) for line in kept)


def _got(match: re.Match[str]) -> str:
    """Return pydantic's `[type=..., input_value=0, ...]` as "(got 0)"; empty for an object."""
    return (
        f" (got {match['value']})"
        if match["type"] in ("int", "float", "str", "bool")
        else ""
    )
