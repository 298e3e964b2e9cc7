"""Contrast in light and in dark, by WCAG 2.2: 4.5 for text, 3 for what is drawn."""

import re
from importlib.resources import files

import pytest
from kit.every_case import every

STYLE = (files("benchrun.report.html") / "templates" / "report.css").read_text(
    encoding="utf-8"
)
TEXT = [
    ("ink", "paper"),
    ("ink", "card"),
    ("soft", "paper"),
    ("soft", "card"),
    ("link", "paper"),
    ("link", "card"),
    ("green", "green-back"),
    ("amber", "amber-back"),
    ("red", "red-back"),
    ("cyan", "cyan-back"),
    ("soft", "grey-back"),
    ("ink", "green-back"),
    ("ink", "amber-back"),
    ("ink", "red-back"),
    ("ink", "grey-back"),
]
DRAWN = [
    (name, "card")
    for name in (
        "blue",
        "amber",
        "green",
        "red",
        "grey",
        *(f"ramp-{step}" for step in range(8)),
    )
]


def colours(scheme: str) -> dict[str, str]:
    """By variable; dark ones override those of light."""
    light, _, rest = STYLE.partition("@media (prefers-color-scheme: dark)")
    found = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", light))
    return (
        found
        if scheme == "light"
        else found | dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", rest))
    )


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def test_black_on_white_is_the_most_there_is() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@every("scheme", ["light", "dark"])
@every(("front", "back"), TEXT)
def test_text_can_be_read(scheme: str, front: str, back: str) -> None:
    known = colours(scheme)
    assert contrast(known[front], known[back]) >= 4.5


@every("scheme", ["light", "dark"])
@every(("front", "back"), DRAWN)
def test_lines_can_be_seen(scheme: str, front: str, back: str) -> None:
    known = colours(scheme)
    assert contrast(known[front], known[back]) >= 3


def test_every_colour_has_a_dark_one() -> None:
    light, _, rest = STYLE.partition("@media (prefers-color-scheme: dark)")
    names = set(re.findall(r"--([a-z0-9-]+):", light))
    assert set(re.findall(r"--([a-z0-9-]+):", rest.partition("* {")[0])) == names
