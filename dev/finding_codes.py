"""`api/codes.py`: a code for each page of docs/findings.

This module imports nothing of benchrun, since benchrun imports the module that is written here.
"""

import re
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs/findings"
_MODULE = '''\
"""Codes of findings: stable names that pipelines match on."""

from enum import StrEnum


class Code(StrEnum):
    """Codes of what the judge can find."""

%s

FIXED: frozenset[Code] = frozenset(
    {%s}
)
"""Codes whose severity is fixed: a spec can't change it."""
'''


def codes_text() -> str:
    """Return the text of the module.

    A code is fixed if the first paragraph of its page says "the severity is fixed".
    """
    pages = {
        page.stem: page.read_text(encoding="utf-8")
        for page in sorted(PAGES.glob("*.md"))
        if page.stem != "README"
    }
    members = "".join(f'    {_constant(code)} = "{code}"\n' for code in pages)
    fixed = (
        f"Code.{_constant(code)}"
        for code, text in pages.items()
        if "the severity is fixed" in text.split("\n\n")[1]
    )
    return _MODULE % (members, ", ".join(fixed))


def _constant(code: str) -> str:
    """Convert a code to the name of a constant: "KVRecomputed" is KV_RECOMPUTED."""
    return re.sub(
        r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", code
    ).upper()
