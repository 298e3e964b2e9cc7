"""The pages of a run and of a sweep: their sections in the order in which they are to be read."""

from __future__ import annotations

from collections.abc import Callable

from benchrun.api import answering
from benchrun.judge.row import gpus_of
from benchrun.observe import raw
from benchrun.report.html.document import Draw, Head, document
from benchrun.report.html.page_elements import Section
from benchrun.report.html.report_data import Reported, ReportedSweep, restored
from benchrun.report.html.sections import comparison, curves, distributions_timeline, provenance, results, verdict

SECTIONS: tuple[Callable[[Reported], Section | None], ...] = (
    verdict.verdict_section,
    results.limits_section,
    results.results_section,
    curves.searches_section,
    curves.load_curves_section,
    distributions_timeline.distributions_section,
    distributions_timeline.timeline_section,
    comparison.comparison_section,
    verdict.findings_section,
    provenance.provenance_section,
    provenance.repeat_section,
)
SWEEP_SECTIONS: tuple[Callable[[ReportedSweep], Section | None], ...] = (
    verdict.sweep_verdict_section,
    verdict.best_section,
    comparison.front_section,
    comparison.changes_section,
    results.sweep_limits_section,
    results.sweep_results_section,
    provenance.sweep_provenance_section,
    provenance.sweep_repeat_section,
)


def page(run: Reported, draw: Draw, *, made_by: str) -> str:
    """The whole page. The same run always gives the same page; it has no script and fetches nothing."""
    whole = restored(run)
    sections = [section for make in SECTIONS if (section := make(whole)) is not None]
    server, gpus = answering(run.status.servers), gpus_of(run.status.servers)
    hardware = f"{gpus} x {server.gpu}" if server is not None and gpus and server.gpu else ""
    version = f"vLLM {server.version}" if server is not None and server.version else ""
    subtitle = " · ".join(word for word in (run.spec.model.name, hardware, version) if word)
    head = Head("benchmark run", run.name, run.namespace, run.status.verdict or "Unknown", subtitle)
    return document(head, sections, draw, made_by=made_by)


def sweep_page(sweep: ReportedSweep, draw: Draw, *, made_by: str) -> str:
    """The whole page. The same sweep always gives the same page; it has no script and fetches nothing."""
    sections = [section for make in SWEEP_SECTIONS if (section := make(sweep)) is not None]
    model = raw.text(raw.mapping(raw.mapping(sweep.written.get("template")).get("model")).get("name"))
    variants = len(sweep.status.variants)
    replications = sweep.spec.replications if sweep.spec is not None else 1
    servers = f", each on {replications} fresh servers" if replications > 1 else ""
    counted = f"{variants} variant{'' if variants == 1 else 's'}{servers}" if variants else ""
    subtitle = " · ".join(part for part in (model, counted) if part)
    head = Head("benchmark sweep", sweep.name, sweep.namespace, verdict.sweep_word(sweep.status), subtitle)
    return document(head, sections, draw, made_by=made_by)
