"""`python -m dev.generate [--check] [ROOT]`: writes what is made from the API models and the pages of findings, or says that it
is out of date."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from benchrun.api.schema.crd import CRD_NAME, custom_resource_definition
from benchrun.api.schema.sweep_crd import CRD_NAME as SWEEP_CRD_NAME
from benchrun.api.schema.sweep_crd import custom_resource_definition as sweep_definition
from benchrun.cli.commands.explain import pages

from dev.reference import reference_text, sweep_reference_text

COMMAND = "python -m dev.generate"
CRD_FILE = f"crds/{CRD_NAME}.yaml"
CHART_CRD_FILE = f"charts/benchrun/files/{CRD_NAME}.yaml"
SWEEP_CRD_FILE = f"crds/{SWEEP_CRD_NAME}.yaml"
CHART_SWEEP_CRD_FILE = f"charts/benchrun/files/{SWEEP_CRD_NAME}.yaml"
REFERENCE_FILE = "docs/reference/benchmarkrun.md"
SWEEP_REFERENCE_FILE = "docs/reference/benchmarksweep.md"
FINDINGS_FILE = "docs/findings/README.md"


_PAGE = "<!-- Generated from {source} by: " + COMMAND + " -->\n"
_FINDINGS = """\
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


def definition_text(definition: dict[str, Any]) -> str:
    """A CustomResourceDefinition as YAML; the same models always give the same bytes."""
    # A node without children takes one line: most of the file would be indentation otherwise.
    body = yaml.dump(
        definition, Dumper=_Dumper, default_flow_style=None, sort_keys=False, width=200, allow_unicode=True
    )
    return f"# Generated from operator/benchrun/api by: {COMMAND}\n{body}"


def findings_page() -> str:
    """Every finding with its severity and a line, from the findings' pages."""
    rows = [f"| [{page.code}]({page.code}.md) | {page.lead[1]} | {page.lead[0]} |\n" for page in pages()]
    return _PAGE.format(source="the pages of this folder") + _FINDINGS + "".join(rows)


GENERATED: dict[str, Callable[[], str]] = {
    CRD_FILE: lambda: definition_text(custom_resource_definition()),
    CHART_CRD_FILE: lambda: definition_text(custom_resource_definition()),
    SWEEP_CRD_FILE: lambda: definition_text(sweep_definition()),
    CHART_SWEEP_CRD_FILE: lambda: definition_text(sweep_definition()),
    REFERENCE_FILE: lambda: _PAGE.format(source="operator/benchrun/api") + reference_text(),
    SWEEP_REFERENCE_FILE: lambda: _PAGE.format(source="operator/benchrun/api/sweep") + sweep_reference_text(),
    FINDINGS_FILE: findings_page,
}
"""Every generated file, by its path in the repository."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the generated files under ROOT; with --check, write nothing and return 1 if one of them differs."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the generated files.")
    parser.add_argument("--check", action="store_true", help="only check that they are up to date")
    parser.add_argument("root", nargs="?", type=Path, default=Path(), help="root of the repository (default: here)")
    options = parser.parse_args(arguments)
    stale = [
        name for name, render in GENERATED.items() if _differs(options.root / name, render(), write=not options.check)
    ]
    if stale and options.check:
        print(f"out of date: {', '.join(stale)}; run: {COMMAND}", file=sys.stderr)
        return 1
    return 0


def _differs(path: Path, text: str, *, write: bool) -> bool:
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old == text:
        return False
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    else:
        sys.stderr.writelines(
            difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(path), "generated", n=1)
        )
    return True


class _Dumper(yaml.SafeDumper):
    """Writes every value out: a schema full of anchors can't be read."""

    def ignore_aliases(self, data: object) -> bool:
        return True


if __name__ == "__main__":
    sys.exit(main())
