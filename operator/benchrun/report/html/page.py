"""The page: sections in the order in which they are to be read, in one file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup

from benchrun.report.html.blocks import Chart, ChartSpec, Section
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
from benchrun.report.html.sections.timeline import timeline_section
from benchrun.report.html.sections.verdict import verdict_section
from benchrun.report.html.svg import inline_svg

Draw = Callable[[ChartSpec], str]
"""A chart as SVG."""
SECTIONS: tuple[Callable[[Reported], Section | None], ...] = (
    verdict_section,
    limits_section,
    results_section,
    load_curves_section,
    distributions_section,
    timeline_section,
    comparison_section,
    findings_section,
    provenance_section,
    repeat_section,
)
_TEMPLATES = files("benchrun.report.html") / "templates"


def page(run: Reported, draw: Draw, *, made_by: str) -> str:
    """The whole page. The same run always gives the same page; it holds no script, and asks the network for nothing."""
    whole = restored(run)
    sections = [section for make in SECTIONS if (section := make(whole)) is not None]
    style = _text("report.css")
    return (
        _environment(draw)
        .get_template("page.html.j2")
        .render(
            run=run,
            subtitle=_subtitle(run),
            sections=sections,
            style=Markup(f"<style>{style}</style>"),
            style_digest=b64encode(sha256(style.encode()).digest()).decode(),
            made_by=made_by,
        )
    )


def _subtitle(run: Reported) -> str:
    """What was measured, on what."""
    server = next(iter(run.status.servers), None)
    if server is None:
        return run.spec.model.name
    on = f"{server.gpus} x {server.gpu}" if server.gpus and server.gpu else ""
    version = f"vLLM {server.version}" if server.version else ""
    return " · ".join(word for word in (run.spec.model.name, on, version) if word)


@dataclass(slots=True)
class _Drawer:
    """Charts drawn one after the other, each with identifiers of its own."""

    draw: Draw
    drawn: int = 0

    def __call__(self, chart: Chart) -> Markup:
        self.drawn += 1
        return Markup(inline_svg(self.draw(chart.spec), prefix=f"chart{self.drawn}-", label=chart.description))


class _Own(BaseLoader):
    """Templates of this package, wherever it is installed."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        if not (_TEMPLATES / template).is_file():
            raise TemplateNotFound(template)
        return _text(template), None, None


def _environment(draw: Draw) -> Environment:
    environment = Environment(
        loader=_Own(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["svg"] = _Drawer(draw)
    return environment


def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
