"""Text that others wrote, made fit to be stored and shown: what a terminal or a reader would obey instead of show is gone."""

from __future__ import annotations

import re

MESSAGE_BYTES = 1000
"""A message stands in up to nine conditions at once."""

_OBEYED = re.compile(
    # What terminals take as commands: colours and the cursor; the window's title, links, the clipboard; the rest.
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,8}[0-~]?"
    # Control characters but tab and line feed, what turns the direction of writing, and halves of characters.
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain_text(text: str) -> str:
    """Without control characters (but tab and line feed; a carriage return is one), escape sequences and marks that turn the
    direction of writing."""
    return _OBEYED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def sentence(text: str) -> str:
    """The beginning of a text, plain, in at most 1,000 bytes."""
    data = plain_text(text).encode()
    kept = data if len(data) <= MESSAGE_BYTES else data[: MESSAGE_BYTES - 3]
    return kept.decode(errors="ignore") + ("" if kept is data else "…")
