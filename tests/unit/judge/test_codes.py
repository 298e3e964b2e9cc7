"""The list of codes is whole: each can be found, is explained, and fits the status."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import Finding
from benchrun.judge.rules.catalogue import EXPLANATIONS, evidence_sentence
from benchrun.judge.rules.rule import SEVERITIES, Code
from unit.judge.found import findings_of


@pytest.mark.parametrize("code", list(Code))
def test_every_code_can_be_found(code: Code) -> None:
    assert code in findings_of(code, repeats=2 if code is Code.RECORD_MISSING else 1)


@pytest.mark.parametrize("code", list(Code))
def test_every_finding_is_small_and_explained(code: Code) -> None:
    finding = findings_of(code, repeats=2)[code]
    assert (finding.meaning, finding.remedy) == (EXPLANATIONS[code].meaning, EXPLANATIONS[code].remedy)
    sentence = evidence_sentence(finding.code, finding.evidence)
    assert sentence
    assert not set("?{}[]") & set(sentence), "every key of the sentence is in the evidence"
    assert len(finding.model_dump_json(by_alias=True)) < 1500


@pytest.mark.parametrize("code", list(Code))
def test_every_finding_survives_the_status(code: Code) -> None:
    finding = findings_of(code, repeats=2)[code]
    assert Finding.model_validate(json.loads(finding.model_dump_json(by_alias=True))) == finding


def test_codes_are_named_as_their_constants() -> None:
    assert {code.name.replace("_", "").lower() for code in Code} == {code.value.lower() for code in Code}


PAGES = Path(__file__).parents[3] / "docs/findings"
SOMETIMES: Mapping[Code, set[str]] = {
    Code.CLIENT_SATURATED: {"ttftGapMs", "sendLagP99Ms", "eventLoopLagP99Ms", "coresAProcess"},
    Code.NOT_STEADY_STATE: {"completedPercent", "capacityPercent"},
    Code.REPLICAS_UNEQUAL: {"server", "versionsNamed", "modelsNamed"},
}
"""What is in the evidence of a code only where it is known, or tells something."""
SECTIONS = ["What it means", "How it is detected", "Example", "What to do"]


@pytest.mark.parametrize("code", list(Code))
def test_the_page_has_all_sections(code: Code) -> None:
    text = (PAGES / f"{code}.md").read_text()
    assert text.startswith(f"# {code}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert 15 <= len(text.splitlines()) <= 40


@pytest.mark.parametrize("code", list(Code))
def test_the_example_is_a_finding_of_the_code(code: Code) -> None:
    finding = Finding.model_validate({"count": 1, "worstStage": "chat/rate=4/r1", **_example(code)})
    assert finding.code == code
    assert finding.severity in SEVERITIES
    assert finding.evidence


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.NOT_CHECKED])
def test_the_example_shows_the_evidence_that_the_rule_gives(code: Code) -> None:
    real = findings_of(code, repeats=2 if code is Code.RECORD_MISSING else 1)[code].evidence
    sometimes = SOMETIMES.get(code, set())
    assert set(_example(code)["evidence"]) - sometimes == set(real) - sometimes


def test_the_example_of_what_was_not_checked_names_rules() -> None:
    assert set(_example(Code.NOT_CHECKED)["evidence"]) <= set(Code)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_links_lead_to_pages(page: Path) -> None:
    for target in re.findall(r"\]\(([A-Za-z]+\.md)\)", page.read_text()):
        assert (PAGES / target).exists()


def _example(code: Code) -> dict[str, Any]:
    (block,) = re.findall(r"```yaml\n(.*?)```", (PAGES / f"{code}.md").read_text(), re.DOTALL)
    (example,) = yaml.safe_load(block)
    assert isinstance(example, dict)
    return example
