"""Findings over a run: missing records, one entry a code, verdicts by the worst."""

from collections.abc import Sequence

import pytest
from benchrun.api import Severity, Verdict, worst_verdict
from benchrun.judge.finding_pages import page_of
from benchrun.judge.rules.all_rules import (
    MAX_FINDINGS_BYTES,
    aggregate,
    judge_stage,
    verdict_of_findings,
    within,
)
from benchrun.judge.rules.rule import Code, StageFinding
from benchrun.judge.rules.sample_size import missing_records
from benchrun.judge.status_size import json_bytes
from benchrun_client.contract import START_TIME
from hypothesis import given, strategies as st
from unit.judge.queues import Server, open_loop
from unit.judge.stages import context
from unit.measure.records import edge, load_point, record, requests

FINDINGS = st.lists(
    st.builds(
        StageFinding,
        code=st.sampled_from(Code),
        severity=st.sampled_from(["Note", "Suspect", "Invalid"]),
        stage_id=st.sampled_from(["a/r1", "a/r2", "b/r1"]),
        weight=st.floats(0, 100),
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("missing", "measured"),
    [
        pytest.param([], ["chat/rate=4/r1", "chat/rate=4/r2"], id="all there"),
        pytest.param(
            ["chat/rate=4/r2"], ["chat/rate=4/r1"], id="the last is missing"
        ),
        pytest.param(
            ["chat/rate=4/r1", "chat/rate=4/r2"],
            ["other/rate=4/r1"],
            id="none is there",
        ),
    ],
)
def test_missing_records(missing: list[str], measured: list[str]) -> None:
    found = missing_records(load_point(repeats=2), measured)
    assert [(f.code, f.severity, f.stage_id) for f in found] == [
        (Code.RECORD_MISSING, "Invalid", s) for s in missing
    ]
    assert all(
        f.evidence == {"planned": 2, "measured": 2 - len(missing)} for f in found
    )


@pytest.mark.parametrize(
    ("verdict", "severities"),
    [
        pytest.param("Valid", [], id="nothing found"),
        pytest.param("Valid", ["Note", "Note"], id="a note is no blemish"),
        pytest.param("Suspect", ["Note", "Suspect"], id="a suspicion is"),
        pytest.param(
            "Invalid", ["Suspect", "Invalid", "Note"], id="the worst counts"
        ),
    ],
)
def test_verdict_of_a_stage(
    verdict: Verdict, severities: Sequence[Severity]
) -> None:
    found = [StageFinding(Code.NO_OUTPUT, severity, "s") for severity in severities]
    assert verdict_of_findings(found) == verdict


@pytest.mark.parametrize(
    ("expected", "verdicts"),
    [
        pytest.param(None, [], id="none of nothing"),
        pytest.param("Unknown", ["Unknown"], id="unknown alone"),
        pytest.param("Valid", ["Unknown", "Valid"], id="unknown beside something"),
        pytest.param(
            "Suspect", ["Valid", "Suspect", "Valid"], id="suspect above valid"
        ),
        pytest.param("Invalid", ["Invalid", "Suspect"], id="invalid above all"),
    ],
)
def test_the_worst(expected: Verdict | None, verdicts: list[Verdict]) -> None:
    assert worst_verdict(verdicts) == expected


def test_rules_do_not_stop_each_other() -> None:
    stage = record(
        requests=requests(ok=(0, 0)), servers=(edge(after={START_TIME: 2.0}),)
    )
    codes = [finding.code for finding in judge_stage(context()(stage))]
    assert codes == [
        Code.ALL_REQUESTS_FAILED,
        Code.SERVER_RESTARTED,
        Code.NOT_CHECKED,
    ]


def test_a_good_stage_has_no_findings() -> None:
    assert judge_stage(open_loop(Server(), rate=10, count=200, seed=1)) == []


def test_one_entry_a_code_with_the_worst_stages_evidence() -> None:
    found = aggregate(
        [
            StageFinding(Code.NOT_CHECKED, "Note", "a/r1"),
            StageFinding(
                Code.PREFIX_CACHE_CONTAMINATED,
                "Suspect",
                "a/r1",
                {"hitPercent": 9.0},
                weight=9.0,
            ),
            StageFinding(
                Code.PREFIX_CACHE_CONTAMINATED,
                "Invalid",
                "a/r2",
                {"hitPercent": 12.0},
                weight=12.0,
            ),
            StageFinding(
                Code.PREFIX_CACHE_CONTAMINATED,
                "Invalid",
                "a/r3",
                {"hitPercent": 90.0},
                weight=90.0,
            ),
        ]
    )
    assert [
        (f.code, f.severity, f.count, f.worst_stage, f.evidence) for f in found
    ] == [
        ("PrefixCacheContaminated", "Invalid", 3, "a/r3", {"hitPercent": 90.0}),
        ("NotChecked", "Note", 1, "a/r1", {}),
    ]
    assert found[0].sentence.startswith(
        "90 % of the prompt tokens were in the prefix cache"
    )
    assert found[0].meaning == page_of(Code.PREFIX_CACHE_CONTAMINATED).meaning


def test_an_error_is_cut_at_300_characters() -> None:
    failed = record(requests=requests(ok=(0, 0)), diagnostic="d" * 1000)
    (finding, *_) = judge_stage(context()(failed))
    assert finding.evidence["error"] == "d" * 300


def test_a_sentence_is_cut_at_a_thousand_bytes() -> None:
    reasons = {code.value: "é" * 90 for code in list(Code)[:24]}
    (entry,) = aggregate([StageFinding(Code.NOT_CHECKED, "Note", "a/r1", reasons)])
    assert 990 < len(entry.sentence.encode()) <= 1000
    assert entry.sentence.endswith("…")


FOUND = [code for code in Code if code != Code.NOT_CHECKED]


def test_many_findings_keep_their_sentences_and_lose_their_words_from_the_end() -> (
    None
):
    evidence = {"error": "e" * 60}
    found = aggregate(
        [
            StageFinding(code, "Suspect", f"{'a' * 60}/r1", evidence)
            for code in FOUND
        ]
    )
    explained = [bool(each.meaning) for each in found]
    assert explained == sorted(explained, reverse=True)
    assert 0 < explained.count(True) < len(FOUND)
    assert json_bytes(found, exclude_none=False) <= MAX_FINDINGS_BYTES
    assert found[-1].sentence


def test_where_that_is_not_enough_the_last_lose_their_evidence() -> None:
    evidence: dict[str, float | str | None] = {
        "error": "e" * 60,
        "hitPercent": 90.0,
    }
    found = aggregate(
        [StageFinding(code, "Suspect", "a/r1", evidence) for code in FOUND]
    )
    kept = within(17_000, found)
    assert json_bytes(kept, exclude_none=False) <= 17_000
    has_evidence = [bool(each.evidence) for each in kept]
    assert has_evidence == sorted(has_evidence, reverse=True)
    assert 0 < has_evidence.count(True) < len(kept)
    assert not any(each.meaning or each.remedy for each in kept)
    assert [each.sentence for each in kept] == [each.sentence for each in found]


def test_the_earliest_of_equally_bad_stages_is_named() -> None:
    (entry,) = aggregate(
        [StageFinding(Code.RECORD_MISSING, "Invalid", s) for s in ("a/r2", "a/r3")]
    )
    assert entry.worst_stage == "a/r2"


@given(FINDINGS)
def test_entries_are_one_a_code_and_worst_first(
    findings: list[StageFinding],
) -> None:
    entries = aggregate(findings)
    assert sorted(e.code for e in entries) == sorted({f.code for f in findings})
    severities = [["Note", "Suspect", "Invalid"].index(e.severity) for e in entries]
    assert severities == sorted(severities, reverse=True)
    for entry in entries:
        assert entry.count == len(
            {f.stage_id for f in findings if f.code == entry.code}
        )


@given(FINDINGS)
def test_the_worst_entry_is_the_runs_verdict(findings: list[StageFinding]) -> None:
    entries = aggregate(findings)
    expected = (
        "Valid"
        if not entries or entries[0].severity == "Note"
        else entries[0].severity
    )
    assert verdict_of_findings(findings) == expected
