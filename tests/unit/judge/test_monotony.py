"""Judging has no surprises: order does not matter, and worse input never has a better verdict."""

from collections.abc import Sequence

from benchrun.api import Verdict
from benchrun.judge.results import Judged, results
from benchrun.judge.rules.all_rules import verdict_of_findings
from benchrun.judge.rules.rule import Code, StageFinding
from benchrun_client.contract import START_TIME, StageRecord
from hypothesis import given, strategies as st
from unit.judge.specs import spec
from unit.measure.records import cell, edge, record, requests

RANK: dict[Verdict, int] = {"Unknown": -1, "Valid": 0, "Suspect": 1, "Invalid": 2}
CELLS = [cell(value=value, repeats=2) for value in ("1", "2", "inf")]
STAGES = [stage for each in CELLS for stage in each.stage_ids]
FINDINGS = st.lists(
    st.builds(
        StageFinding,
        code=st.sampled_from(Code),
        severity=st.sampled_from(["Note", "Suspect", "Invalid"]),
        stage_id=st.sampled_from(STAGES),
    ),
    max_size=8,
)


def judge(records: Sequence[StageRecord]) -> Judged:
    return results(CELLS, records, [], spec=spec())


@st.composite
def measured(draw: st.DrawFn) -> list[StageRecord]:
    """Some of the stages, good and bad ones."""
    found = []
    for stage in draw(st.lists(st.sampled_from(STAGES), unique=True, min_size=1)):
        hits = float(draw(st.integers(0, 30)))
        servers = (
            edge(rises={"prefix_cache_hits_total": hits, "prefix_cache_queries_total": 100.0}),
            *([edge("b", after={START_TIME: 5.0})] if draw(st.booleans()) else []),
        )
        ok = draw(st.sampled_from([(1, 1), (1, 0), (0, 0)]))
        found.append(record(stage, requests=requests(ok=ok), servers=servers))
    return found


@given(measured(), st.data())
def test_the_order_of_records_does_not_matter(records: list[StageRecord], data: st.DataObject) -> None:
    assert judge(data.draw(st.permutations(records))) == judge(records)


@given(measured())
def test_a_row_tells_the_codes_of_the_findings_and_no_others(records: list[StageRecord]) -> None:
    judged = judge(records)
    assert {code for row in judged.results for code in row.findings} == {finding.code for finding in judged.findings}


@given(measured())
def test_losing_a_record_never_makes_a_cell_better(records: list[StageRecord]) -> None:
    whole = {row.cell: row.verdict for row in judge(records).results}
    for row in judge(records[1:]).results:
        assert RANK[row.verdict] >= RANK[whole[row.cell]]


@given(FINDINGS, FINDINGS)
def test_one_finding_more_never_makes_a_verdict_better(few: list[StageFinding], more: list[StageFinding]) -> None:
    assert RANK[verdict_of_findings(few + more)] >= RANK[verdict_of_findings(few)]


@given(st.integers(0, 100), st.integers(0, 100))
def test_more_hits_never_make_a_verdict_better(one: int, other: int) -> None:
    def verdict(hits: int) -> Verdict:
        rises = {"prefix_cache_hits_total": float(hits), "prefix_cache_queries_total": 100.0}
        return judge([record(stage, servers=(edge(rises=rises),)) for stage in STAGES]).verdict

    assert RANK[verdict(max(one, other))] >= RANK[verdict(min(one, other))]


@given(st.integers(1, 60), st.data())
def test_more_failures_never_make_a_verdict_better(sent: int, data: st.DataObject) -> None:
    def verdict(failed: int) -> Verdict:
        columns = requests(
            ttft_us=[1] * sent, e2el_us=[2] * sent, output_tokens=[3] * sent, ok=[0] * failed + [1] * (sent - failed)
        )
        return judge([record(stage, requests=columns) for stage in STAGES]).verdict

    one, other = data.draw(st.integers(0, sent)), data.draw(st.integers(0, sent))
    assert RANK[verdict(max(one, other))] >= RANK[verdict(min(one, other))]
