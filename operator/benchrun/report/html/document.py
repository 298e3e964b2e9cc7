"""Sections as one HTML file: without a script, and without anything that would have to be fetched."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup

from benchrun.report.html.blocks import Chart, ChartSpec, Section
from benchrun.report.html.svg import inline_svg

Draw = Callable[[ChartSpec], str]
"""A chart as SVG."""
_TEMPLATES = files("benchrun.report.html") / "templates"


@dataclass(frozen=True, slots=True)
class Head:
    """What stands above all sections."""

    kind: str
    """What was measured: a benchmark run, a sweep."""
    name: str
    namespace: str
    word: str
    """The verdict, for the title of the window."""
    subtitle: str


def document(head: Head, sections: Sequence[Section], draw: Draw, *, made_by: str) -> str:
    """The whole file."""
    style = _text("report.css")
    return (
        _environment(draw)
        .get_template("page.html.j2")
        .render(
            head=head,
            sections=sections,
            style=Markup(f"<style>{style}</style>"),
            style_digest=b64encode(sha256(style.encode()).digest()).decode(),
            made_by=made_by,
        )
    )


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
