"""The list of codes is whole: each can be found, is explained, and fits the status."""

import inspect
import json
import os
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import get_type_hints

import pytest
import yaml
from benchrun.api import FIXED, SEVERITIES, Finding
from benchrun.judge import rules
from benchrun.judge.finding_pages import page_of
from benchrun.judge.rules.all_rules import (
    LOAD_POINT_RULES,
    RUN_RULES,
    SENTENCES,
    STAGE_RULES,
)
from benchrun.judge.rules.rule import Code, Found
from unit.judge.found import example_of

GOLDEN = Path(__file__).parent / "golden/findings.yaml"
PAGES = Path(__file__).parents[4] / "docs/findings"
NOT_IN_THE_STATUS = "?{}[]"
"""What a sentence would show where its evidence lacks a key."""


@pytest.mark.parametrize("code", list(Code))
def test_every_finding_is_small_and_survives_the_status(code: Code) -> None:
    finding = example_of(code)
    text = finding.model_dump_json(by_alias=True)
    assert len(text) < 2500
    assert Finding.model_validate(json.loads(text)) == finding


def test_the_words_of_findings_are_those_that_were_reviewed() -> None:
    """After a wanted change: `UPDATE_GOLDEN=1 pytest tests/unit/judge/rules/test_codes.py`, then read
    the diff."""
    shown = {}
    for code in Code:
        finding = example_of(code)
        sentence = finding.sentence
        assert sentence
        assert not set(NOT_IN_THE_STATUS) & set(sentence), (
            "every key of the sentence is in the evidence"
        )
        shown[str(code)] = {
            "meaning": finding.meaning,
            "remedy": finding.remedy,
            "sentence": re.sub(r"(.)\1{9,}", r"\1..", sentence),
            "evidence": " ".join(sorted(finding.evidence)),
        }
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(yaml.safe_dump(shown, sort_keys=False, width=120))
        pytest.fail(f"{GOLDEN.name} was written anew; read its diff")
    assert yaml.load(GOLDEN.read_bytes(), yaml.CSafeLoader) == shown
    assert list(shown) == list(yaml.load(GOLDEN.read_bytes(), yaml.CSafeLoader)), (
        "in the order of results"
    )


FAMILIES = [
    import_module(each.name)
    for each in iter_modules(rules.__path__, "benchrun.judge.rules.")
]


def test_every_rule_is_applied() -> None:
    """A rule finds something at a stage, a load point or a run, and is in one of the lists."""
    written = {
        each
        for family in FAMILIES
        for name, each in vars(family).items()
        if inspect.isfunction(each)
        and each.__module__ == family.__name__
        and not name.startswith("_")
        and len(inspect.signature(each).parameters) == 1
        and get_type_hints(each)["return"] == Found
    }
    applied = [*STAGE_RULES, *LOAD_POINT_RULES, *RUN_RULES]
    assert len(applied) == len(set(applied))
    assert {each.__qualname__ for each in written ^ set(applied)} == set()


def test_every_code_has_a_page() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == {code.value for code in Code}


def test_every_code_has_a_sentence_and_a_short_text() -> None:
    assert set(SENTENCES) == set(Code)
    for code in Code:
        page = page_of(code)
        assert all(
            20 < len(text) < 300 and text.endswith(".")
            for text in (page.meaning, page.remedy)
        ), code


SECTIONS = ["What it means", "How it is detected", "What to do"]


@pytest.mark.parametrize("code", list(Code))
def test_the_page_has_all_sections_and_says_the_severities(code: Code) -> None:
    text = (PAGES / f"{code}.md").read_text()
    assert text.startswith(f"# {code}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert 15 <= len(text.splitlines()) <= 40
    lead = " ".join(text.split("\n\n")[1].split())
    words = re.findall(r"\w+", lead)
    assert [each for each in SEVERITIES if each in words] == [*code.severities]
    assert ("the severity is fixed" in lead) == (code in FIXED)


def test_links_lead_to_pages() -> None:
    for page in PAGES.glob("*.md"):
        for target in re.findall(r"\]\(([A-Za-z]+\.md)\)", page.read_text()):
            assert (PAGES / target).exists(), (page.name, target)
