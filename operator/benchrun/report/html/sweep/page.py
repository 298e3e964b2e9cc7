"""The page of a sweep: its sections in the order in which they are to be read."""

from __future__ import annotations

from collections.abc import Callable

from benchrun.observe import raw
from benchrun.report.html.blocks import Section
from benchrun.report.html.document import Draw, Head, document
from benchrun.report.html.sweep.reported import ReportedSweep
from benchrun.report.html.sweep.sections.best import best_section
from benchrun.report.html.sweep.sections.changes import changes_section
from benchrun.report.html.sweep.sections.front import front_section
from benchrun.report.html.sweep.sections.limits import sweep_limits_section
from benchrun.report.html.sweep.sections.provenance import sweep_provenance_section
from benchrun.report.html.sweep.sections.repeat import sweep_repeat_section
from benchrun.report.html.sweep.sections.results import sweep_results_section
from benchrun.report.html.sweep.sections.verdict import sweep_verdict_section, word

SECTIONS: tuple[Callable[[ReportedSweep], Section | None], ...] = (
    sweep_verdict_section,
    best_section,
    front_section,
    changes_section,
    sweep_limits_section,
    sweep_results_section,
    sweep_provenance_section,
    sweep_repeat_section,
)


def sweep_page(sweep: ReportedSweep, draw: Draw, *, made_by: str) -> str:
    """The whole page. The same sweep always gives the same page; it holds no script, and asks the network for nothing."""
    sections = [section for make in SECTIONS if (section := make(sweep)) is not None]
    head = Head("benchmark sweep", sweep.name, sweep.namespace, word(sweep.status), _subtitle(sweep))
    return document(head, sections, draw, made_by=made_by)


def _subtitle(sweep: ReportedSweep) -> str:
    """Which model, in how many variants."""
    template = raw.mapping(sweep.written.get("template"))
    variants = len(sweep.status.variants)
    replications = sweep.spec.replications if sweep.spec is not None else 1
    servers = f", each on {replications} fresh servers" if replications > 1 else ""
    counted = f"{variants} variant{'' if variants == 1 else 's'}{servers}" if variants else ""
    return " · ".join(part for part in (raw.text(raw.mapping(template.get("model")).get("name")), counted) if part)
