"""Verdicts of load points, severities of findings, and the worst of several verdicts."""

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
"""Verdicts of load points whose numbers can be used."""
_WORST_LAST: tuple[Verdict, ...] = ("Unknown", "Valid", "Suspect", "Invalid")


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the worst of several verdicts, or None if there are none.

    Unknown (nothing was measured) counts only if there is no other verdict.
    """
    return max(verdicts, key=_WORST_LAST.index, default=None)
