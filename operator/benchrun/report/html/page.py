"""The pages of a run and of a sweep: their sections in the order in which they are to be read."""

from __future__ import annotations

from collections.abc import Callable

from benchrun.api import answering
from benchrun.judge.result_row import gpus_of
from benchrun.observe import untrusted_json as raw
from benchrun.report.html.blocks import Section
from benchrun.report.html.document import Draw, Head, document
from benchrun.report.html.reported import Reported, ReportedSweep, restored
from benchrun.report.html.sections import comparison, curves, provenance, records, results, verdict

SECTIONS: tuple[Callable[[Reported], Section | None], ...] = (
    verdict.verdict_section,
    results.limits_section,
    results.results_section,
    curves.searches_section,
    curves.load_curves_section,
    records.distributions_section,
    records.timeline_section,
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


def sweep_page(sweep: ReportedSweep, draw: Draw, *, made_by: str) -> str:
    """The whole page. The same sweep always gives the same page; it holds no script, and asks the network for nothing."""
    sections = [section for make in SWEEP_SECTIONS if (section := make(sweep)) is not None]
    word = verdict.sweep_word(sweep.status)
    head = Head("benchmark sweep", sweep.name, sweep.namespace, word, _sweep_subtitle(sweep))
    return document(head, sections, draw, made_by=made_by)


def _sweep_subtitle(sweep: ReportedSweep) -> str:
    """Which model, in how many variants."""
    template = raw.mapping(sweep.written.get("template"))
    variants = len(sweep.status.variants)
    replications = sweep.spec.replications if sweep.spec is not None else 1
    servers = f", each on {replications} fresh servers" if replications > 1 else ""
    counted = f"{variants} variant{'' if variants == 1 else 's'}{servers}" if variants else ""
    return " · ".join(part for part in (raw.text(raw.mapping(template.get("model")).get("name")), counted) if part)
