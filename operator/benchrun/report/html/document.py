"""Sections as one HTML file: without a script, and without anything that would have to be fetched."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup

from benchrun.report.html.blocks import Chart, ChartSpec, Section

# ---- svg --------------------------------------------------------------------------------------------------------------
# A drawn chart, made safe to stand within a page: only what a chart needs passes, everything else is refused.
#
# The strings in a chart (names of workloads, of runs) were written by anybody. The library that draws escapes them; should it
# once not, the chart is refused here. Identifiers get a prefix, since several charts share one page. What a mark says of itself
# becomes its title, which browsers show where the pointer rests.

TAGS = frozenset({"svg", "g", "path", "rect", "line", "text", "tspan", "circle", "defs", "clipPath", "title"})
ATTRIBUTES = frozenset({
    "width", "height", "viewBox", "transform", "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry",
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "stroke-miterlimit", "opacity", "text-anchor", "font-family", "font-size", "font-weight",
    "font-style", "clip-path", "id", "dx", "dy", "dominant-baseline", "pointer-events",
})  # fmt: skip
"""Kept. Others are dropped: nothing else changes how a chart looks."""
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_LOCAL_URL = re.compile(r"url\(\s*[\"']?#([A-Za-z0-9_-]+)[\"']?\s*\)")
_OWN_COLOUR = re.compile(r"var\(--[a-z0-9-]+\)")


class UnsafeSvg(ValueError):
    """The drawing holds something that no chart needs."""


def inline_svg(drawn: str, *, prefix: str, label: str) -> str:
    """Markup to stand in a page, announced as one picture by `label`. Raises UnsafeSvg."""
    if "<!" in drawn:
        raise UnsafeSvg("a drawing has no declarations")
    try:
        root = ElementTree.fromstring(drawn)
    except ElementTree.ParseError as error:
        raise UnsafeSvg(f"a drawing is XML: {error}") from error
    clean = _cleaned(root, prefix)
    if clean.tag != "svg":
        raise UnsafeSvg(f"a drawing is an svg, not {clean.tag}")
    clean.set("role", "img")
    clean.set("aria-label", label)
    return ElementTree.tostring(clean, encoding="unicode", short_empty_elements=True)


def _cleaned(element: Element, prefix: str) -> Element:
    tag = element.tag.removeprefix(_NAMESPACE) if isinstance(element.tag, str) else ""
    if tag not in TAGS:
        raise UnsafeSvg(f"a chart needs no element {element.tag}")
    kept = {name: _value(name, value, prefix) for name, value in element.attrib.items() if name in ATTRIBUTES}
    clean = Element(tag, kept)
    clean.text, clean.tail = element.text, element.tail
    said = element.get("aria-label")
    if said and tag == "path":
        title = Element("title")
        title.text = said
        clean.append(title)
    children = [_cleaned(child, prefix) for child in element]
    clean.extend([child for child in children if not _is_empty(child)])
    return clean


def _is_empty(element: Element) -> bool:
    """A group or a path that draws nothing."""
    if element.tag == "g":
        return len(element) == 0
    return element.tag == "path" and not element.get("d")


def _value(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    local = _LOCAL_URL.fullmatch(value.strip())
    if local:
        return f"url(#{prefix}{local.group(1)})"
    if "url" in value.lower() or ("(" in value and name in ("fill", "stroke") and not _is_colour(value)):
        raise UnsafeSvg(f"a chart points to nothing outside: {name}={value[:80]!r}")
    return value


def _is_colour(value: str) -> bool:
    return _OWN_COLOUR.fullmatch(value) is not None or value.startswith(("rgb(", "rgba(", "hsl("))


# ---- document ---------------------------------------------------------------------------------------------------------
# Sections as one HTML file: without a script, and without anything that would have to be fetched.

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
