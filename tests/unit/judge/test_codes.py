"""The list of codes is whole: each can be found, is explained, and fits the status."""

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from benchrun.api import Finding
from benchrun.judge.finding_pages import page_of
from benchrun.judge.rules.all_rules import SENTENCES
from benchrun.judge.rules.rule import Code
from unit.judge.found import example_of

GOLDEN = Path(__file__).parent / "golden/findings.yaml"
NOT_IN_THE_STATUS = "?{}[]"
"""What a sentence would show where its evidence lacks a key."""


@pytest.mark.parametrize("code", list(Code))
def test_every_finding_is_small_and_survives_the_status(code: Code) -> None:
    finding = example_of(code)
    text = finding.model_dump_json(by_alias=True)
    assert len(text) < 2500
    assert Finding.model_validate(json.loads(text)) == finding


def test_the_words_of_findings_are_those_that_were_reviewed() -> None:
    """After a wanted change: `UPDATE_GOLDEN=1 pytest tests/unit/judge/test_codes.py`, then read the
    diff."""
    shown = {}
    for code in SENTENCES:
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


def test_every_code_has_a_sentence_and_a_short_text() -> None:
    assert set(SENTENCES) == set(Code)
    for code in Code:
        page = page_of(code)
        assert all(
            20 < len(text) < 300 and text.endswith(".")
            for text in (page.meaning, page.remedy)
        ), code


PAGES = Path(__file__).parents[3] / "docs/findings"
SECTIONS = ["What it means", "How it is detected", "What to do"]


@pytest.mark.parametrize("code", list(Code))
def test_the_page_has_all_sections(code: Code) -> None:
    text = (PAGES / f"{code}.md").read_text()
    assert text.startswith(f"# {code}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert 15 <= len(text.splitlines()) <= 40


@pytest.mark.parametrize(
    "page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem
)
def test_links_lead_to_pages(page: Path) -> None:
    for target in re.findall(r"\]\(([A-Za-z]+\.md)\)", page.read_text()):
        assert (PAGES / target).exists()
