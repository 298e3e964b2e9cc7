"""Turn the SVG of a chart into markup for a page, with only the elements that a chart needs."""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# A chart's strings are not trusted: the library that draws might not escape one of them.
TAGS = frozenset(
    {
        "svg",
        "g",
        "path",
        "rect",
        "line",
        "text",
        "tspan",
        "circle",
        "defs",
        "clipPath",
        "title",
    }
)
ATTRIBUTES = frozenset(
    {
        "width",
        "height",
        "viewBox",
        "transform",
        "d",
        "x",
        "y",
        "x1",
        "x2",
        "y1",
        "y2",
        "cx",
        "cy",
        "r",
        "rx",
        "ry",
        "fill",
        "fill-opacity",
        "stroke",
        "stroke-width",
        "stroke-opacity",
        "stroke-dasharray",
        "stroke-linecap",
        "stroke-linejoin",
        "stroke-miterlimit",
        "opacity",
        "text-anchor",
        "font-family",
        "font-size",
        "font-weight",
        "font-style",
        "clip-path",
        "id",
        "dx",
        "dy",
        "dominant-baseline",
        "pointer-events",
    }
)
"""Attributes that are kept. All others are dropped, because they do not change how a chart looks.
"""
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_LOCAL_URL = re.compile(r"url\(\s*[\"']?#([A-Za-z0-9_-]+)[\"']?\s*\)")
_OWN_COLOUR = re.compile(r"var\(--[a-z0-9-]+\)")


class UnsafeSvg(ValueError):
    """The SVG contains something that no chart needs."""


def inline_svg(drawn: str, *, prefix: str, label: str) -> str:
    """Return an SVG as markup for a page. Raises UnsafeSvg.

    Screen readers read it as one picture with the text `label`. `prefix` is put before every
    identifier.
    """
    if "<!" in drawn:
        raise UnsafeSvg("the SVG of a chart must not have declarations")
    try:
        root = ElementTree.fromstring(drawn)
    except ElementTree.ParseError as error:
        raise UnsafeSvg(f"the SVG of a chart is not valid XML: {error}") from error
    clean = _cleaned(root, prefix)
    if clean.tag != "svg":
        raise UnsafeSvg(f"the root of a chart's SVG must be svg, not {clean.tag}")
    clean.set("role", "img")
    clean.set("aria-label", label)
    return ElementTree.tostring(
        clean, encoding="unicode", short_empty_elements=True
    )


def _cleaned(element: Element, prefix: str) -> Element:
    tag = (
        element.tag.removeprefix(_NAMESPACE) if isinstance(element.tag, str) else ""
    )
    if tag not in TAGS:
        raise UnsafeSvg(
            f"the SVG of a chart must not have the element {element.tag}"
        )
    kept = {
        name: _value(name, value, prefix)
        for name, value in element.attrib.items()
        if name in ATTRIBUTES
    }
    clean = Element(tag, kept)
    clean.text = element.text
    clean.tail = element.tail
    label = element.get("aria-label")
    if label and tag == "path":
        title = Element("title")
        title.text = label
        clean.append(title)
    for child in (_cleaned(each, prefix) for each in element):
        empty = (child.tag == "g" and len(child) == 0) or (
            child.tag == "path" and not child.get("d")
        )
        if not empty:
            clean.append(child)
    return clean


def _value(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if local := _LOCAL_URL.fullmatch(value.strip()):
        return f"url(#{prefix}{local.group(1)})"
    colour = _OWN_COLOUR.fullmatch(value) is not None or value.startswith(
        ("rgb(", "rgba(", "hsl(")
    )
    if "url" in value.lower() or (
        "(" in value and name in ("fill", "stroke") and not colour
    ):
        raise UnsafeSvg(
            f"the SVG of a chart must not refer to other resources: {name}={value[:80]!r}"
        )
    return value
