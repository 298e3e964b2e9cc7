"""What pages say of the lines that rules draw is what the rules compare with."""

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from benchrun.api import Code
from benchrun.judge.rules.session_cache import (
    LEAST_EXPECTED_PERCENT,
    MISSING_NOTE_PERCENT,
)
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import least_count
from unit.judge.scenes import file_of

from dev.generate import findings_page

PAGES = Path(__file__).parents[4] / "docs/findings"
VALUES: Mapping[str, float] = asdict(Thresholds())
# What whole blocks hide is no number that a run could set.
OF_SESSIONS = {LEAST_EXPECTED_PERCENT, MISSING_NOTE_PERCENT}
ALSO_SAID: Mapping[Code, set[float]] = {
    Code.CLIENT_SERVER_GAP: {1},
    Code.PATH_SLOW: {200},
    Code.TOO_FEW_SAMPLES: {95},
    Code.PREEMPTED: {100},
    Code.PREFIX_BROKEN: OF_SESSIONS,
    Code.ROUTED_AWAY: OF_SESSIONS,
    Code.CACHE_TOO_SMALL: OF_SESSIONS,
}
"""Percentages and times on a page that are no thresholds."""
IN_WORDS: Mapping[str, float] = {
    "two": 2,
    "three": 3,
    "four": 4,
    "ten": 10,
    "by more than its mean": 100,
}
_NUMBER = r"\d[\d,]*(?:\.\d+)?"


def detection(code: Code) -> str:
    """The section of the page that tells how the rule decides."""
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    return " ".join(
        text.split("## How it is detected")[1].split("\n## ")[0].split()
    )


def numbers(text: str) -> set[float]:
    """Every number of a text, written in digits or in words."""
    digits = {float(each.replace(",", "")) for each in re.findall(_NUMBER, text)}
    return digits | {
        value for word, value in IN_WORDS.items() if re.search(rf"\b{word}\b", text)
    }


def spoken(name: str) -> float:
    """The number that says a threshold: a chance of 0.001 is "once in 1,000"."""
    return round(1 / VALUES[name]) if "chance" in name else VALUES[name]


def test_every_threshold_belongs_to_a_page() -> None:
    assert {name for code in Code for name in file_of(code).compares_with} == {
        field.name for field in fields(Thresholds)
    }


@pytest.mark.parametrize("code", list(Code))
def test_the_page_states_the_thresholds_of_the_code_and_no_others(
    code: Code,
) -> None:
    text = detection(code)
    thresholds = {spoken(name) for name in file_of(code).compares_with}
    assert thresholds <= numbers(text)
    words = "|".join(IN_WORDS)
    with_unit = set(re.findall(rf"({_NUMBER}|{words}) (?:%|ms\b|seconds\b)", text))
    chances = set(
        re.findall(
            rf"(?:(?:once|one) in|one of(?= \d)) ({_NUMBER}|{words})\b", text
        )
    )
    stated = {number for each in with_unit | chances for number in numbers(each)}
    assert stated <= thresholds | ALSO_SAID.get(code, set())


@pytest.mark.parametrize("percentile", ["50", "90", "95", "99", "99.9"])
def test_the_table_of_samples_says_the_least_that_bounds_a_percentile(
    percentile: str,
) -> None:
    names, needed = re.findall(
        r"^\| (?:percentile|requests needed) \|(.*)\|$",
        _few_samples(),
        re.MULTILINE,
    )
    by_name = dict(
        zip(
            names.replace(" ", "").split("|"),
            needed.replace(" ", "").split("|"),
            strict=True,
        )
    )
    least = int(by_name[f"p{percentile}"])
    assert least_count(float(percentile)) == least


def _few_samples() -> str:
    return (PAGES / f"{Code.TOO_FEW_SAMPLES}.md").read_text(encoding="utf-8")


# ---- the list
# --------------------------------------------------------------------------------------------------------


def test_the_list_has_a_short_row_for_each_page() -> None:
    rows = [line.split("|") for line in findings_page().splitlines()]
    summaries = {row[1].strip(): row[3].strip() for row in rows if len(row) == 5}
    for code in Code:
        summary = summaries[f"[{code}]({code}.md)"]
        assert 20 < len(summary) < 120
        assert summary.endswith(".")


def test_the_list_is_up_to_date() -> None:
    written = (PAGES / "README.md").read_text(encoding="utf-8")
    assert written == findings_page(), "run: python -m dev.generate"
