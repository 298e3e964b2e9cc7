"""The list of codes is whole: each can be found, is explained, and fits the status."""

from __future__ import annotations

import json

import pytest
from benchrun.api.status import Finding
from benchrun.judge.finding import EXPLANATIONS, Code
from benchrun.judge.results import results
from benchrun_client.contract import START_TIME, StageRecord
from unit.judge.specs import spec
from unit.measure.records import cell, edge, record, requests

STAGE = "chat/rate=4/r1"
FOUND_BY: dict[Code, StageRecord] = {
    Code.ALL_REQUESTS_FAILED: record(requests=requests(ok=(0, 0)), errors={"e" * 300: 2}, diagnostic="d" * 1000),
    Code.REQUESTS_FAILED: record(requests=requests(ok=(0, 1)), errors={"e" * 300: 1}),
    Code.NO_OUTPUT: record(requests=requests(output_tokens=(0, 0))),
    Code.SERVER_RESTARTED: record(servers=(edge("a" * 300, after={START_TIME: 5.0}),)),
    Code.COUNTERS_RESET: record(
        servers=(edge("a" * 300, before={"prompt_tokens_total": 9.0}, after={"prompt_tokens_total": 1.0}),)
    ),
    Code.PREFIX_CACHE_CONTAMINATED: record(
        servers=(edge(rises={"prefix_cache_hits_total": 9.0, "prefix_cache_queries_total": 10.0}),)
    ),
    Code.PREFIX_CACHE_UNKNOWN: record(servers=()),
    Code.RECORD_MISSING: record(),
}


def findings_of(stage: StageRecord, *, repeats: int = 1) -> dict[str, Finding]:
    judged = results([cell(repeats=repeats)], [stage], [], spec=spec(), scrape_interval=1.0)
    return {finding.code: finding for finding in judged.findings}


@pytest.mark.parametrize("code", list(Code))
def test_every_code_can_be_found(code: Code) -> None:
    repeats = 2 if code is Code.RECORD_MISSING else 1
    assert code in findings_of(FOUND_BY[code], repeats=repeats)


@pytest.mark.parametrize("code", list(Code))
def test_every_finding_is_small_and_explained(code: Code) -> None:
    finding = findings_of(FOUND_BY[code], repeats=2)[code]
    assert (finding.meaning, finding.remedy) == (EXPLANATIONS[code].meaning, EXPLANATIONS[code].remedy)
    assert len(finding.model_dump_json(by_alias=True)) < 1500


@pytest.mark.parametrize("code", list(Code))
def test_every_finding_survives_the_status(code: Code) -> None:
    finding = findings_of(FOUND_BY[code], repeats=2)[code]
    assert Finding.model_validate(json.loads(finding.model_dump_json(by_alias=True))) == finding


def test_codes_are_named_as_their_constants() -> None:
    assert {code.name.replace("_", "").lower() for code in Code} == {code.value.lower() for code in Code}
