"""Verdicts of load points and severities of findings, and which of several is the worst."""

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["Valid", "Suspect", "Invalid", "Unknown"]
Severity = Literal["Note", "Suspect", "Invalid"]
# From least to worst.
SEVERITIES: tuple[Severity, ...] = (
    "Note",
    "Suspect",
    "Invalid",
)
TRUSTED: tuple[Verdict, ...] = ("Valid", "Suspect")
"""Verdicts of load points whose numbers mean something."""
_WORST_LAST: tuple[Verdict, ...] = ("Unknown", "Valid", "Suspect", "Invalid")


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the worst of several verdicts, or None if there are none.

    Unknown (nothing was measured) counts only where there is nothing else.
    """
    return max(verdicts, key=_WORST_LAST.index, default=None)
