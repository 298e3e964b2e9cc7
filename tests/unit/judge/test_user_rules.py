"""Rules of the user's own: in row, findings, verdict and document, each by its name."""

from typing import Any

import pytest
from benchrun.api import Finding, Result
from benchrun.api.row_figures import (
    LATENCIES,
    figure_in,
    metric_problem,
    row_values,
)
from benchrun.judge.judged_run import judged_run
from benchrun.judge.results import Judged, results
from benchrun.measure import (
    LATENCIES as MEASURED,
    REASONING_LATENCIES,
    request_figures,
)
from benchrun_client.contract import StageRecord
from unit.judge.specs import spec
from unit.judge.test_results import RUN
from unit.measure.records import load_point, record, requests, sample


def judged(*rules: dict[str, Any], points: int = 1, **changes: Any) -> Judged:
    """Judge a load point of one answered and one failed request by these rules."""
    whole = [{"name": f"rule-{n}", **rule} for n, rule in enumerate(rules)]
    validity = {"maxFailedPercent": "100", "rules": whole}
    return results(
        [load_point(), load_point(value="8")][:points],
        [failing("chat/rate=4/r1"), failing("chat/rate=8/r1")][:points],
        [sample(1005.0)],
        spec=spec(validity=validity, **changes),
    )


def failing(stage_id: str) -> StageRecord:
    return record(stage_id, requests=requests(ok=(1, 0)))


def own(found: Judged) -> dict[str, Finding]:
    return {
        each.code: each
        for each in found.findings
        if each.code.startswith("UserRule")
    }


def unchecked(found: Judged) -> str:
    notes = [each for each in found.findings if each.code == "NotChecked"]
    return ", ".join(
        f"{code.removeprefix('UserRule/')}: {why}"
        for note in notes
        for code, why in note.evidence.items()
        if code.startswith("UserRule/")
    )


def test_each_rule_has_its_finding_in_rows_and_run() -> None:
    found = judged(
        {"metric": "failed", "above": "0", "severity": "Invalid", "message": "No!"},
        {"metric": "completed", "below": "9", "severity": "Note"},
        {"metric": "completed", "below": "1"},
    )
    assert list(own(found)) == ["UserRule/rule-0", "UserRule/rule-1"]
    (row,) = found.results
    assert [each for each in row.findings if each.startswith("UserRule")] == list(
        own(found)
    )
    assert (row.verdict, found.verdict) == ("Invalid", "Invalid")
    finding = own(found)["UserRule/rule-0"]
    assert finding.evidence == {
        "rule": "rule-0",
        "metric": "failed",
        "value": 1.0,
        "side": "above",
        "threshold": 0.0,
        "message": "No!",
    }
    assert (finding.severity, finding.worst_stage, finding.count) == (
        "Invalid",
        "chat/rate=4",
        1,
    )
    assert finding.sentence == "No! (failed is 1, above 0)"


def test_a_rule_is_for_the_rows_of_its_condition() -> None:
    rule = {
        "metric": "failed",
        "above": "0",
        "when": "load > 4.0",
        "severity": "Invalid",
    }
    first, second = judged(rule, points=2).results
    assert "UserRule/rule-0" not in first.findings
    assert "UserRule/rule-0" in second.findings
    assert second.verdict == "Invalid"


@pytest.mark.parametrize(
    ("why", "rule"),
    [
        ("total_reasoning_tokens is absent", {"metric": "total_reasoning_tokens"}),
        ("decode.runningMean is absent", {"metric": "decode.runningMean"}),
        (
            "repeatCvPercent.mean_ttft_ms is absent",
            {"metric": "repeatCvPercent.mean_ttft_ms"},
        ),
        (
            "metrics.unanswered is absent",
            {"metric": "failed", "when": "metrics.unanswered > 1.0"},
        ),
        (
            "server.preemptions is 0",
            {"metric": "failed", "relativeTo": "server.preemptions"},
        ),
    ],
)
def test_what_a_row_lacks_is_told_of_every_rule(
    why: str, rule: dict[str, Any]
) -> None:
    found = judged({**rule, "above": "0"}, {"metric": "reconnected", "above": "0"})
    assert not own(found)
    assert unchecked(found) == f"rule-0: {why}, rule-1: reconnected is absent"
    assert "NotChecked" in found.results[0].findings


def test_what_could_not_be_asked_is_told_beside_more_of_another_load_point() -> (
    None
):
    rule = {
        "metric": "failed",
        "above": "5",
        "when": "load < 5.0 || metrics.unanswered > 1.0",
    }
    found = judged(rule, points=2)
    assert unchecked(found) == "rule-0: metrics.unanswered is absent"


def test_each_rule_that_some_load_point_could_not_be_asked_is_told() -> None:
    of_each = ("load < 5.0", "load > 5.0")
    rules = [
        {
            "metric": "failed",
            "above": "5",
            "when": f"{of} || metrics.unanswered > 1.0",
        }
        for of in of_each
    ]
    absent = "metrics.unanswered is absent"
    found = judged(*rules, points=2)
    assert unchecked(found) == f"rule-0: {absent}, rule-1: {absent}"


def test_severities_can_not_be_switched_off_elsewhere() -> None:
    with pytest.raises(ValueError, match="must be one of"):
        spec(validity={"severities": [{"code": "UserRule", "severity": "Off"}]})


def test_a_message_is_plain_text_and_survives_the_status() -> None:
    text = "a\x1b[31mred\x07\n\n\t{value} <b>\u202e"
    found = judged({"metric": "failed", "above": "0", "message": text})
    finding = own(found)["UserRule/rule-0"]
    assert finding.sentence == "ared {value} <b> (failed is 1, above 0)"
    assert finding.evidence["message"] == "ared {value} <b>"


def test_a_message_of_nothing_is_none() -> None:
    found = judged({"metric": "failed", "above": "0", "message": "\x1b[31m\x07"})
    assert own(found)["UserRule/rule-0"].sentence == "failed is 1, above 0."


def test_most_rules_with_the_longest_texts_fit_the_status() -> None:
    rules = [
        {
            "name": f"rule-{n:034d}",
            "metric": "failed",
            "above": "0",
            "severity": "Invalid",
            "message": "ä" * 300,
        }
        for n in range(16)
    ]
    run_spec = spec(validity={"maxFailedPercent": "100", "rules": rules})
    ended = judged_run(RUN, run_spec, [failing("chat/rate=4/r1")], [])
    codes = [each.code for each in ended.judgement.findings]
    assert [each for each in codes if each.startswith("UserRule")] == [
        f"UserRule/{rule['name']}" for rule in rules
    ]
    assert len({each.code for each in ended.document.findings}) == len(
        ended.document.findings
    )
    assert ended.judgement.verdict == "Invalid"


def test_every_figure_that_is_measured_has_a_known_name() -> None:
    (row,) = judged(
        points=1,
        objectives=[{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 25}],
        cost={"perHour": "1"},
    ).results
    assert [key for key in row.metrics | row.steady if metric_problem(key)] == []
    assert set(MEASURED) | set(REASONING_LATENCIES) <= set(LATENCIES)
    queued = (
        *request_figures.QUEUED_LATENCIES,
        request_figures.QUEUED_TTFRT,
        request_figures.QUEUED_TTFAT,
    )
    assert set(queued) <= set(LATENCIES)
    told = (
        request_figures.RECONNECTED,
        request_figures.ANSWERED_PERCENT,
        request_figures.CACHED_BY_ANSWERS,
    )
    assert [key for key in told if metric_problem(key)] == []


def test_figures_are_those_of_tables() -> None:
    row = Result(
        load_point="chat/rate=4",
        workload="chat",
        axis="RequestRate",
        value="inf",
        repeats=1,
        repeats_planned=1,
        metrics={"output_throughput": 5.0, "failed": 0},
        steady={"request_throughput": 1.0, "output_throughput": 7.0, "sent": 3},
        throughput_of="Plateau",
        verdict="Valid",
    )
    values = row_values(row)
    assert figure_in(values, "output_throughput") == 7.0
    assert figure_in(values, "sent") == 3
    assert figure_in(values, "failed") == 0
    assert figure_in(values, "server.runningMean") is None
    assert values["load"] == float("inf")
