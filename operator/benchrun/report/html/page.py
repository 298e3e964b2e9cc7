"""The page of a run: its sections in the order in which they are to be read."""

from __future__ import annotations

from collections.abc import Callable

from benchrun.api.answering import answering
from benchrun.judge.per_gpu import gpus_of
from benchrun.report.html.blocks import Section
from benchrun.report.html.document import Draw, Head, document
from benchrun.report.html.reported import Reported
from benchrun.report.html.restored import restored
from benchrun.report.html.sections.comparison import comparison_section
from benchrun.report.html.sections.distributions import distributions_section
from benchrun.report.html.sections.findings import findings_section
from benchrun.report.html.sections.limits import limits_section
from benchrun.report.html.sections.load_curves import load_curves_section
from benchrun.report.html.sections.provenance import provenance_section
from benchrun.report.html.sections.repeat import repeat_section
from benchrun.report.html.sections.results import results_section
from benchrun.report.html.sections.searches import searches_section
from benchrun.report.html.sections.timeline import timeline_section
from benchrun.report.html.sections.verdict import verdict_section

SECTIONS: tuple[Callable[[Reported], Section | None], ...] = (
    verdict_section,
    limits_section,
    results_section,
    searches_section,
    load_curves_section,
    distributions_section,
    timeline_section,
    comparison_section,
    findings_section,
    provenance_section,
    repeat_section,
)


def page(run: Reported, draw: Draw, *, made_by: str) -> str:
    """The whole page. The same run always gives the same page; it holds no script, and asks the network for nothing."""
    whole = restored(run)
    sections = [section for make in SECTIONS if (section := make(whole)) is not None]
    head = Head("benchmark run", run.name, run.namespace, run.status.verdict or "Unknown", _subtitle(run))
    return document(head, sections, draw, made_by=made_by)


def _subtitle(run: Reported) -> str:
    """What was measured, on what."""
    server, gpus = answering(run.status.servers), gpus_of(run.status.servers)
    if server is None:
        return run.spec.model.name
    on = f"{gpus} x {server.gpu}" if gpus and server.gpu else ""
    version = f"vLLM {server.version}" if server.version else ""
    return " · ".join(word for word in (run.spec.model.name, on, version) if word)
