"""Sections as one HTML file: without a script, and without anything that would have to be fetched."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from itertools import count
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from benchrun.report.html.page_elements import Chart, ChartSpec, Section

# Only what a chart needs passes. Anybody may have written its strings, and the library that draws might not escape one.
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
    """Markup for a page, announced as one picture by `label`. `prefix` goes before every identifier, since charts share the page; a
    mark's label becomes its title, which browsers show under the pointer. Raises UnsafeSvg."""
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
    label = element.get("aria-label")
    if label and tag == "path":
        title = Element("title")
        title.text = label
        clean.append(title)
    for child in (_cleaned(each, prefix) for each in element):
        empty = (child.tag == "g" and len(child) == 0) or (child.tag == "path" and not child.get("d"))
        if not empty:
            clean.append(child)
    return clean


def _value(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    local = _LOCAL_URL.fullmatch(value.strip())
    if local:
        return f"url(#{prefix}{local.group(1)})"
    colour = _OWN_COLOUR.fullmatch(value) is not None or value.startswith(("rgb(", "rgba(", "hsl("))
    if "url" in value.lower() or ("(" in value and name in ("fill", "stroke") and not colour):
        raise UnsafeSvg(f"a chart refers to nothing outside: {name}={value[:80]!r}")
    return value


Draw = Callable[[ChartSpec], str]
"""A chart as SVG."""
_TEMPLATES = files("benchrun.report.html") / "templates"


@dataclass(frozen=True, slots=True)
class Head:
    """The header above all sections."""

    kind: str
    """`benchmark run` or `benchmark sweep`."""
    name: str
    namespace: str
    word: str
    """The verdict, for the title of the window."""
    subtitle: str


def document(head: Head, sections: Sequence[Section], draw: Draw, *, made_by: str) -> str:
    """The whole file."""
    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    numbers = count(1)

    def svg(chart: Chart) -> Markup:
        return Markup(inline_svg(draw(chart.spec), prefix=f"chart{next(numbers)}-", label=chart.description))

    environment.globals["svg"] = svg
    style = _text("report.css")
    return environment.get_template("page.html.j2").render(
        head=head,
        sections=sections,
        style=Markup(f"<style>{style}</style>"),
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        made_by=made_by,
    )


def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
