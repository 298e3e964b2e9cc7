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
from benchrun.api.schema.crd import RUN, SWEEP

from dev.findings_index import index_text
from dev.reference import reference_text
from dev.sweep_reference import sweep_reference_text

COMMAND = "python -m dev.generate"
CRD_FILE = f"crds/{RUN.name}.yaml"
CHART_CRD_FILE = f"charts/benchrun/files/{RUN.name}.yaml"
SWEEP_CRD_FILE = f"crds/{SWEEP.name}.yaml"
CHART_SWEEP_CRD_FILE = f"charts/benchrun/files/{SWEEP.name}.yaml"
REFERENCE_FILE = "docs/reference/benchmarkrun.md"
SWEEP_REFERENCE_FILE = "docs/reference/benchmarksweep.md"
FINDINGS_FILE = "docs/findings/README.md"


def crd_text() -> str:
    """The CustomResourceDefinition of runs as YAML; the same models always give the same bytes."""
    return _definition_text(RUN.manifest())


def sweep_crd_text() -> str:
    """That of sweeps."""
    return _definition_text(SWEEP.manifest())


def _definition_text(definition: dict[str, Any]) -> str:
    # A node without children takes one line: most of the file would be indentation otherwise.
    body = yaml.dump(
        definition, Dumper=_Dumper, default_flow_style=None, sort_keys=False, width=200, allow_unicode=True
    )
    return f"# Generated from operator/benchrun/api by: {COMMAND}\n{body}"


def reference_page() -> str:
    """The reference page of the API, as Markdown."""
    return f"<!-- Generated from operator/benchrun/api by: {COMMAND} -->\n{reference_text()}"


def sweep_reference_page() -> str:
    """That of sweeps."""
    return f"<!-- Generated from operator/benchrun/api/sweep by: {COMMAND} -->\n{sweep_reference_text()}"


def findings_page() -> str:
    """The list of findings, from their pages."""
    return f"<!-- Generated from the pages of this folder by: {COMMAND} -->\n{index_text()}"


GENERATED: dict[str, Callable[[], str]] = {
    CRD_FILE: crd_text,
    CHART_CRD_FILE: crd_text,
    SWEEP_CRD_FILE: sweep_crd_text,
    CHART_SWEEP_CRD_FILE: sweep_crd_text,
    REFERENCE_FILE: reference_page,
    SWEEP_REFERENCE_FILE: sweep_reference_page,
    FINDINGS_FILE: findings_page,
}
"""Every generated file, by its path in the repository."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the generated files under ROOT; with --check, write nothing and return 1 if one of them differs."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the generated files.")
    parser.add_argument("--check", action="store_true", help="only tell whether they are up to date")
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
