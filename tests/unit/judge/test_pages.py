"""Every code has its page: named by the code, with an example that is a finding."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from benchrun.api.status import Finding
from benchrun.judge.finding import SEVERITIES, Code

PAGES = Path(__file__).parents[3] / "docs/findings"
SECTIONS = ["What it means", "How it is detected", "Example", "What to do"]


@pytest.mark.parametrize("code", list(Code))
def test_the_page_has_all_sections(code: Code) -> None:
    text = (PAGES / f"{code}.md").read_text()
    assert text.startswith(f"# {code}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert 15 <= len(text.splitlines()) <= 40


@pytest.mark.parametrize("code", list(Code))
def test_the_example_is_a_finding_of_the_code(code: Code) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (PAGES / f"{code}.md").read_text(), re.DOTALL)
    (example,) = yaml.safe_load(block)
    finding = Finding.model_validate({"count": 1, "worstStage": "chat/rate=4/r1", **example})
    assert finding.code == code
    assert finding.severity in SEVERITIES
    assert finding.evidence


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_links_lead_to_pages(page: Path) -> None:
    for target in re.findall(r"\]\(([A-Za-z]+\.md)\)", page.read_text()):
        assert (PAGES / target).exists()
