"""`python -m dev.generate [--check] [ROOT]`: writes or checks the generated files.

They are made from the API models, the kinds of a run's objects, the pages of findings, the chart's
values and pyproject.toml. The spec's rules are written first: everything else imports them, and is
therefore imported only where it is rendered.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m dev.generate"
SPEC_RULES_FILE = "operator/benchrun/api/spec_rules.py"
CRD_FILE = "crds/benchmarkruns.benchrun.dev.yaml"
CHART_CRD_FILE = "charts/benchrun/files/benchmarkruns.benchrun.dev.yaml"
SWEEP_CRD_FILE = "crds/benchmarksweeps.benchrun.dev.yaml"
CHART_SWEEP_CRD_FILE = "charts/benchrun/files/benchmarksweeps.benchrun.dev.yaml"
REFERENCE_FILE = "docs/reference/benchmarkrun.md"
SWEEP_REFERENCE_FILE = "docs/reference/benchmarksweep.md"
RESULT_PAGE_FILE = "docs/reference/result-document.md"
RESULT_SCHEMA_FILE = "docs/reference/benchrun.result.v1.schema.json"
FINDINGS_FILE = "docs/findings/README.md"
EXPORTS_FILE = "docs/export.md"
ENGINES_FILE = "docs/engines.md"
LOADS_FILE = "docs/how-to.md"
FAULTS_FILE = "docs/faults.md"
CHILDREN_FILE = "charts/benchrun/templates/_children.tpl"
FAULTS_MEASURED_FILE = "docs/faults.json"
MUSEUM_FILE = "docs/museum.md"
MUSEUM_MEASURED_FILE = "docs/museum.json"
CHART_FILE = "charts/benchrun/Chart.yaml"
CHART_README_FILE = "charts/benchrun/README.md"


_PAGE = "<!-- Generated from {source} by: " + COMMAND + " -->\n"
_FINDINGS = """\
# Findings

A finding is a problem with a measurement. `status.findings` has its code, severity and numbers. \
`benchrun explain` prints
this list, `benchrun explain CODE` a page.

| severity | meaning |
|---|---|
| Invalid | The figures are wrong, or answer another question. \
Condition `Valid` is False, exit code 4. |
| Suspect | The figures may be wrong. Condition `Valid` is True, reason `Suspect`. |
| Note | Good to know. The load point stays Valid. |

`validity.severities` in the spec changes a severity or switches a rule off; the result shows it. \
`validity.rules` are
[rules of your own](../how-to.md#add-rules-of-your-own). `benchrun judge` re-evaluates a finished \
run with other thresholds;
`--help` lists them.

Findings in the order of results:

| code | severity | finding |
|---|---|---|
"""
_EXPORTS = f"""\
<!-- Generated from operator/benchrun/report/export by: {COMMAND} -->

| format | what it writes |
|---|---|
"""


def spec_rules_module() -> str:
    """Return the module of the spec's rules in Python, from their CEL."""
    from dev.spec_rules import spec_rules_text

    return f"# Generated from the rules in operator/benchrun/api by: {COMMAND}\n{spec_rules_text()}"


def crd_text() -> str:
    """Return the CustomResourceDefinition of runs as YAML."""
    from benchrun.api.crd import RUN

    return _definition_text(RUN.manifest())


def sweep_crd_text() -> str:
    """Return the CustomResourceDefinition of sweeps as YAML."""
    from benchrun.api.crd import SWEEP

    return _definition_text(SWEEP.manifest())


def _definition_text(definition: dict[str, Any]) -> str:
    """Return a CustomResourceDefinition as YAML; the same models always give the same bytes."""
    # A node without children takes one line: most of the file would be indentation otherwise.
    body = yaml.dump(
        definition,
        Dumper=_Dumper,
        default_flow_style=None,
        sort_keys=False,
        width=200,
        allow_unicode=True,
    )
    return f"# Generated from operator/benchrun/api by: {COMMAND}\n{body}"


def reference_page() -> str:
    """Return the reference page of runs, as Markdown."""
    from dev.reference import reference_text

    return _PAGE.format(source="operator/benchrun/api") + reference_text()


def sweep_reference_page() -> str:
    """Return the reference page of sweeps, as Markdown."""
    from dev.reference import sweep_reference_text

    return (
        _PAGE.format(source="operator/benchrun/api/sweep") + sweep_reference_text()
    )


def result_document_page() -> str:
    """Return the page of the result document, as Markdown."""
    from dev.result_schema import result_page

    return (
        _PAGE.format(source="operator/benchrun/api/result_document.py")
        + result_page()
    )


def result_schema() -> str:
    """Return the JSON schema of the result document."""
    from dev.result_schema import result_schema_text

    return result_schema_text()


def findings_page() -> str:
    """Return the page that lists every finding: its severity and the summary of its own page."""
    from benchrun.cli.commands.explain import pages

    rows = [
        f"| [{page.code}]({page.code}.md) | {page.severity} | {page.summary} |\n"
        for page in pages()
    ]
    return (
        _PAGE.format(source="the pages of this folder") + _FINDINGS + "".join(rows)
    )


def museum_page() -> str:
    """Return the page of wrong benchmarks, from their latest replay."""
    from dev.museum_table import museum_text

    found = json.loads((ROOT / MUSEUM_MEASURED_FILE).read_text(encoding="utf-8"))
    return _PAGE.format(source=MUSEUM_MEASURED_FILE) + museum_text(found)


def faults_page() -> str:
    """Return the page of every fault and its consequences, from the tests' measurements."""
    from dev.fault_table import faults_text

    rows = json.loads((ROOT / FAULTS_MEASURED_FILE).read_text(encoding="utf-8"))
    return _PAGE.format(source=FAULTS_MEASURED_FILE) + faults_text(rows)


def chart_metadata() -> str:
    """Return Chart.yaml with the project's version and its images."""
    from dev.chart import metadata_file

    return metadata_file()


def chart_readme() -> str:
    """Return the chart's page, from the comments of its values."""
    from dev.chart import VALUES_FILE, readme

    return _PAGE.format(source=VALUES_FILE) + readme()


def children_template() -> str:
    """Return the chart's templates about the objects of runs."""
    from dev import chart_children

    source = "operator/benchrun/child_kinds.py"
    return (
        f"{{{{/* Generated from {source} by: {COMMAND} */}}}}\n"
        + chart_children.children_template()
    )


def exports_page() -> str:
    """Return the page of exports, its table made anew from the summary of every format."""
    from benchrun.report.export.formats import FORMATS

    rows = [
        f"| `{name}` | {each.summary} |\n" for name, each in sorted(FORMATS.items())
    ]
    return _with_part(EXPORTS_FILE, "formats", _EXPORTS + "".join(rows) + "\n")


def engines_page() -> str:
    """Return the page of engines, its tables made anew from what each engine has."""
    sys.path.append(
        str(ROOT / "tests")
    )  # The table of findings is judged from records of tests.
    from dev.engine_figures import settings_table, table

    source = f"<!-- Generated from client-image/benchrun_client/engines by: {COMMAND} -->\n\n"
    page = (ROOT / ENGINES_FILE).read_text(encoding="utf-8")
    page = _part_anew(page, "settings", source + settings_table() + "\n")
    return _part_anew(page, "figures", source + table() + "\n")


def loads_page() -> str:
    """Return the how-to guides, their table of loads made anew from what each kind states."""
    from dev.load_kinds import table

    source = (
        "<!-- Generated from client-image/benchrun_client/contract/loads.py and "
        f"operator/benchrun/api/workloads.py by: {COMMAND} -->\n\n"
    )
    return _with_part(LOADS_FILE, "loads", source + table() + "\n")


def _with_part(file: str, name: str, part: str) -> str:
    """Return a page with the part between its two comments made anew."""
    return _part_anew((ROOT / file).read_text(encoding="utf-8"), name, part)


def _part_anew(page: str, name: str, part: str) -> str:
    """Return a page's text with the part between two comments made anew."""
    before, begin, rest = page.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    return before + begin + part + end + after


GENERATED: dict[str, Callable[[], str]] = {
    SPEC_RULES_FILE: spec_rules_module,
    CRD_FILE: crd_text,
    CHART_CRD_FILE: crd_text,
    SWEEP_CRD_FILE: sweep_crd_text,
    CHART_SWEEP_CRD_FILE: sweep_crd_text,
    REFERENCE_FILE: reference_page,
    SWEEP_REFERENCE_FILE: sweep_reference_page,
    RESULT_PAGE_FILE: result_document_page,
    RESULT_SCHEMA_FILE: result_schema,
    FINDINGS_FILE: findings_page,
    EXPORTS_FILE: exports_page,
    ENGINES_FILE: engines_page,
    LOADS_FILE: loads_page,
    FAULTS_FILE: faults_page,
    MUSEUM_FILE: museum_page,
    CHART_FILE: chart_metadata,
    CHART_README_FILE: chart_readme,
    CHILDREN_FILE: children_template,
}
"""Every generated file, by its path in the repository."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the generated files under ROOT, and return 0.

    With --check, write nothing and return 1 if one of them differs.
    """
    parser = argparse.ArgumentParser(
        prog=COMMAND, description="Write the generated files."
    )
    parser.add_argument(
        "--check", action="store_true", help="only check that they are up to date"
    )
    parser.add_argument(
        "root",
        nargs="?",
        type=Path,
        default=Path(),
        help="root of the repository (default: here)",
    )
    options = parser.parse_args(arguments)
    stale = [
        name
        for name, render in GENERATED.items()
        if _differs(options.root / name, render(), write=not options.check)
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
            difflib.unified_diff(
                old.splitlines(True),
                text.splitlines(True),
                str(path),
                "generated",
                n=1,
            )
        )
    return True


class _Dumper(yaml.SafeDumper):
    """Writes every value in full, since a schema full of anchors can't be read."""

    def ignore_aliases(self, data: object) -> bool:
        return True


if __name__ == "__main__":
    sys.exit(main())
