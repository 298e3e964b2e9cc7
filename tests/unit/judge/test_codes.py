"""The list of codes is whole: each can be found, is explained, and fits the status."""

from __future__ import annotations

import json

import pytest
from benchrun.api import Finding
from benchrun.judge.rules.catalogue import EXPLANATIONS, evidence_sentence
from benchrun.judge.rules.rule import Code
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
