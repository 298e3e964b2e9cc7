"""Build the HTML pages of a run and of a sweep; they have no script and fetch nothing."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import count

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from benchrun.api import answering, total_gpus
from benchrun.observe import Run, Sweep
from benchrun.report import run_list
from benchrun.report.html.page_elements import Chart, ChartSpec, Section
from benchrun.report.html.report_data import Reported, ReportedSweep
from benchrun.report.html.sections import (
    comparison,
    curves,
    distributions,
    provenance,
    results,
    timeline,
    verdict,
)
from benchrun.report.html.svg import inline_svg

Draw = Callable[[ChartSpec], str]  # Draws a chart as SVG.
_TEMPLATES = files("benchrun.report.html") / "templates"
SECTIONS: tuple[Callable[[Reported], Section | None], ...] = (
    verdict.verdict_section,
    results.results_section,
    curves.searches_section,
    curves.load_curves_section,
    comparison.comparison_section,
    verdict.findings_section,
    results.limits_section,
    results.profile_section,
    distributions.distributions_section,
    timeline.timeline_section,
    provenance.provenance_section,
    provenance.repeat_section,
)
SWEEP_SECTIONS: tuple[Callable[[ReportedSweep], Section | None], ...] = (
    verdict.sweep_verdict_section,
    verdict.best_section,
    comparison.front_section,
    results.sweep_results_section,
    comparison.changes_section,
    results.sweep_limits_section,
    timeline.side_by_side_section,
    provenance.sweep_provenance_section,
    provenance.repeat_section,
)


def page(run: Reported, draw: Draw, *, made_by: str) -> str:
    """Build the whole page of a run. The same run always gives the same page."""
    sections = [section for make in SECTIONS if (section := make(run)) is not None]
    server = answering(run.status.servers)
    gpus = total_gpus(run.status.servers)
    hardware = (
        f"{gpus} x {server.gpu}"
        if server is not None and gpus and server.gpu
        else ""
    )
    version = (
        f"vLLM {server.version}" if server is not None and server.version else ""
    )
    subtitle = " · ".join(
        word for word in (run.spec.model.name, hardware, version) if word
    )
    word = run_list.outcome_word(run.status)
    return _render(
        run.declared,
        sections,
        draw,
        kind="benchmark run",
        word=word,
        subtitle=subtitle,
        made_by=made_by,
    )


def sweep_page(sweep: ReportedSweep, draw: Draw, *, made_by: str) -> str:
    """Build the whole page of a sweep. The same sweep always gives the same page."""
    sections = [
        section for make in SWEEP_SECTIONS if (section := make(sweep)) is not None
    ]
    variants = len(sweep.status.variants)
    spec = sweep.spec
    replications = spec.replications if spec is not None else 1
    servers = f", each on {replications} fresh servers" if replications > 1 else ""
    counted = (
        f"{variants} variant{'' if variants == 1 else 's'}{servers}"
        if variants
        else ""
    )
    subtitle = " · ".join(
        part
        for part in (run_list.model(run_list.template(sweep.declared)), counted)
        if part
    )
    word = run_list.outcome_word(sweep.status)
    return _render(
        sweep.declared,
        sections,
        draw,
        kind="benchmark sweep",
        word=word,
        subtitle=subtitle,
        made_by=made_by,
    )


def _render(
    of: Run | Sweep, sections: Sequence[Section], draw: Draw, **words: str
) -> str:
    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = count(1)

    def svg(chart: Chart) -> Markup:
        return Markup(
            inline_svg(
                draw(chart.spec),
                prefix=f"chart{next(numbers)}-",
                label=chart.description,
            )
        )

    environment.globals["svg"] = svg
    style = _text("report.css")
    return environment.get_template("page.html.j2").render(
        of=of,
        sections=sections,
        style=Markup(f"<style>{style}</style>"),
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        **words,
    )


def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
