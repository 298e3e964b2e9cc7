"""`docs/findings/README.md`: the list of findings, made from their pages."""

from __future__ import annotations

from benchrun.cli.pages import pages

_HEAD = """\
# Findings

What can be wrong with a measurement. In `status.findings` each has a code, a severity, the numbers it rests on, and a
line each of what it means and what to do; its page says the rest. The page of a code is `docs/findings/CODE.md`, and
`benchrun explain CODE` prints it; `benchrun explain` prints this list.

| severity | what follows |
|---|---|
| Invalid | The number is wrong, or means something else. Condition `Valid` is False, and commands exit with 4. |
| Suspect | It may be. Condition `Valid` is True with the reason `Suspect`. |
| Note | Worth knowing. The load point stays Valid. |

`validity.severities` in the spec changes a severity or switches a rule off, and the result says so. A rule whose input is
missing finds nothing, and [NotChecked](NotChecked.md) names it. Every line that a rule draws stands with its reason in
`operator/benchrun/judge/thresholds.py`; `benchrun judge` judges a finished run anew by other thresholds.

In the order in which results list them:

| code | severity | what was found |
|---|---|---|
"""


def index_text() -> str:
    """Every finding with its severity and a line."""
    rows = [f"| [{page.code}]({page.code}.md) | {page.severity} | {page.summary} |\n" for page in pages()]
    return _HEAD + "".join(rows)
