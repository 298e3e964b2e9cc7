"""What holds of every metrics page, whatever the engine."""

EXEMPLAR = " # {"
"""Begins an exemplar, which has labels and a value of its own; only OpenMetrics has exemplars."""
_END = "# EOF"
"""Last line of a page of OpenMetrics."""
_UNIT = "\n# UNIT "
"""A line that only OpenMetrics has."""


def is_whole(page: str) -> bool:
    """Return whether a page ends where its format ends, and holds no second page.

    Both formats end their last line, and OpenMetrics ends with a line that says so. Of a page that
    was cut, a number may lack digits, and a sum some of its series. A page without any text is
    whole: it has no figures.
    """
    at = 0 if page.startswith(_END) else page.find(f"\n{_END}")
    if at >= 0:
        return page[at:].strip() == _END
    return not page or (
        page.endswith("\n") and EXEMPLAR not in page and _UNIT not in page
    )


def number(text: str) -> float:
    """Return the value of a line. Raises ValueError for what only Python takes for a number."""
    if "_" in text or not text.isascii():
        raise ValueError
    return float(text)
