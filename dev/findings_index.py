"""`docs/findings/README.md`: the list of findings, made from their pages."""

from __future__ import annotations

from benchrun.cli.commands.explain import pages

_HEAD = """\
# Findings

A finding is a problem with a measurement. `status.findings` has its code, its severity and the numbers behind it.
`benchrun explain CODE` prints the page of a code, `benchrun explain` prints this list.

| severity | meaning |
|---|---|
| Invalid | The figures are wrong, or answer another question. Condition `Valid` is False, and commands exit with 4. |
| Suspect | The figures may be wrong. Condition `Valid` is True with the reason `Suspect`. |
| Note | Good to know. The load point stays Valid. |

`validity.severities` in the spec changes a severity or switches a rule off; the result shows it. `benchrun judge --help`
lists every threshold, and `benchrun judge` re-evaluates a finished run with others.

Findings in the order of results:

| code | severity | finding |
|---|---|---|
"""


def index_text() -> str:
    """Every finding with its severity and a line."""
    rows = [f"| [{page.code}]({page.code}.md) | {page.lead[1]} | {page.lead[0]} |\n" for page in pages()]
    return _HEAD + "".join(rows)
