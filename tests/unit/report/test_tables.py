"""The tables of a result, as text."""

from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Bottleneck,
    CostStatus,
    Explanation,
    Finding,
    ObjectiveResult,
    Price,
    Result,
    ServerStatus,
    UntilDecided,
    Waiting,
    WidthResult,
)
from benchrun.observe import run_of
from benchrun.report.markdown import markdown
from benchrun.report.run_summary import run_summary
from benchrun.report.sweep_rows import (
    change_rows,
    configuration_change_rows,
    configuration_rows,
)
from benchrun.report.tables import (
    Rows,
    explanation_rows,
    figure,
    finding_rows,
    has_uncertain,
    interval_rows,
    objective_rows,
    packing_rows,
    price_text,
    repeat_rows,
    result_rows,
    steady_part,
    texts_per_prompt,
    width_rows,
)
from unit.plan.specs import spec_body, workload
from unit.report.finished_sweeps import BATCHES, batches
from unit.report.going_on import BEGIN, ended, run_body
from unit.report.html.reported_sweeps import LOAD_POINTS, several
from unit.report.statuses import LIMIT, WAITING, result, status


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-", None),
        ("0", 0.0),
        ("8.12", 8.123),
        ("812", 812.3),
        ("12300", 12345.0),
        ("0.0123", 0.01234),
    ],
)
def test_figures(text: str, value: float | None) -> None:
    assert figure(value) == text


def test_an_uncertain_percentile_is_marked_and_a_sure_one_is_not() -> None:
    rows = result_rows(status(result()))
    found = dict(zip(rows.headers, rows.rows[0], strict=True))
    assert (found["TTFT p50"], found["p99"], found["E2EL p99"]) == (
        "80",
        "118?",
        "12300?",
    )
    assert has_uncertain(rows)
    assert not has_uncertain(result_rows(status(result(uncertain=[]))))


def load_points(rows: Rows) -> dict[str, str]:
    """Of its first row, by header."""
    return dict(zip(rows.headers, rows.rows[0], strict=True))


def test_the_total_of_tokens_is_in_the_wide_table() -> None:
    found = status(
        result(
            metrics={
                "request_throughput": 20.3,
                "output_throughput": 81.2,
                "total_token_throughput": 25_400.0,
            }
        )
    )
    assert "total tok/s" not in load_points(result_rows(found))
    wide = load_points(result_rows(found, wide=True))
    assert (wide["req/s"], wide["tok/s"], wide["total tok/s"]) == (
        "20.3",
        "81.2",
        "25400",
    )


def test_throughput_of_a_gpu_stands_beside_that_of_all_where_there_are_several() -> (
    None
):
    known = result(
        metrics=result().metrics | {"output_throughput_per_gpu": 203.085}
    )

    def held(*gpus: int) -> BenchmarkRunStatus:
        servers = [
            ServerStatus(engine="VLLM", role=f"role-{i}", gpus=each)
            for i, each in enumerate(gpus)
        ]
        return status(known).model_copy(update={"servers": servers})

    assert load_points(result_rows(held(3, 1)))["per GPU"] == "203"
    for found in (held(), held(1), held(1, 0)):
        assert "per GPU" not in result_rows(found, wide=True).headers
    older = held(4).model_copy(update={"results": [result()]})
    assert "per GPU" not in result_rows(older, wide=True).headers


def test_texts_a_second_stand_where_texts_are_packed() -> None:
    rows = result_rows(
        status(result("packed/rate=1"), result("chat/rate=1")),
        texts_per_prompt={"packed": 40},
    )
    at = rows.headers.index("texts/s")
    assert [row[at] for row in rows.rows] == ["138", "-"]
    assert "texts/s" not in result_rows(status(result()), wide=True).headers


def test_which_workloads_pack_texts() -> None:
    texts = {"column": "review", "file": {"url": "https://example.org/a.csv"}}
    packed = workload("packed", dataset={"texts": {**texts, "textsPerPrompt": 40}})
    single = workload("single", dataset={"texts": texts})
    assert texts_per_prompt(spec_body(workloads=[packed, single, workload()])) == {
        "packed": 40,
        "single": 1,
    }
    assert texts_per_prompt({"workloads": [{"dataset": "?"}, 3]}) == {}


def test_why_and_what_limits() -> None:
    assert explanation_rows(status(result())).rows == (
        ("chat/concurrency=8", "waiting", "SequenceLimit", WAITING.sentence),
        ("chat/concurrency=8", "limit", "SequenceLimit", LIMIT.sentence),
    )


def test_explanations_and_agreement_are_shown_in_wide_output() -> None:
    answers = [("TrueRun", "Noise"), ("AnswerLength", "StopToken")]
    expected = [
        Explanation.model_validate({"question": q, "answer": a, "sentence": a})
        for q, a in answers
    ]
    rows = [
        explanation_rows(status(result(explanations=expected)), wide=wide).rows[2:]
        for wide in (False, True)
    ]
    assert [[row[1:3] for row in each] for each in rows] == [
        [("answers", "StopToken")],
        [("true run", "Noise"), ("answers", "StopToken")],
    ]


def test_stages_of_all_load_points_stand_in_the_order_in_which_they_were_measured() -> (
    None
):
    first = {
        "sequence": [0.0, 2.0],
        "mean_ttft_ms": [265.0, 122.0],
        "prefix_hit_tokens": [0.0, 28_160.0],
    }
    second = {
        "sequence": [1.0],
        "mean_ttft_ms": [300.0],
        "prefix_hit_tokens": [5.0],
        "compilations": [2.0],
    }
    found = repeat_rows(
        status(
            result("a/rate=1", by_repeat=first),
            result("b/rate=1", by_repeat=second),
        )
    )
    assert found.headers == ("stage", "TTFT", "hit tokens", "compiled")
    assert found.rows == (
        ("a/rate=1/r1", "265", "0", "-"),
        ("b/rate=1/r1", "300", "5", "2"),
        ("a/rate=1/r2", "122", "28160", "-"),
    )


def test_a_result_without_explanations_has_no_row() -> None:
    assert (
        explanation_rows(status(result(waiting=None, bottleneck=None))).rows == ()
    )


def test_intervals() -> None:
    assert interval_rows(status(result())) == Rows(
        (
            "load point",
            "percentile (ms)",
            "measured",
            "at least",
            "at most",
            "whole stage",
        ),
        (
            ("chat/concurrency=8", "p50_ttft", "80", "79.5", "83.25", "81.23"),
            ("chat/concurrency=8", "p99_ttft", "118.4?", "-", "-", "118.4"),
            ("chat/concurrency=8", "p50_tpot", "9.87", "9.8", "9.9", "9.87"),
            ("chat/concurrency=8", "p99_e2el", "12350?", "-", "-", "12350"),
        ),
    )


def objective(**fields: object) -> ObjectiveResult:
    values = {
        "metric": "TTFT",
        "percentile": "99",
        "max_milliseconds": 500,
        "measured_milliseconds": 123.456,
    }
    return ObjectiveResult.model_validate(values | {"outcome": "Met"} | fields)


def test_a_row_an_objective_and_load_point() -> None:
    missed = objective(
        metric="E2EL",
        percentile="99.9",
        measured_milliseconds=12_345.6,
        outcome="Missed",
    )
    rows = objective_rows(
        status(
            result(
                "a/rate=1", axis="RequestRate", objectives=[objective(), missed]
            ),
            result("b/rate=2"),
        )
    )
    assert rows.headers == ("load point", "objective", "measured (ms)", "outcome")
    assert rows.rows == (
        ("a/rate=1", "TTFT p99 at most 500 ms", "123.5", "Met"),
        ("a/rate=1", "E2EL p99.9 at most 500 ms", "12350", "Missed"),
    )


UNTIL = UntilDecided(
    outcome="BudgetEnded",
    undecided=["chat/rate=4"],
    stages=8,
    requests=800,
    requests_saved=0,
    seconds=90,
    sentence="the budget ended",
)


def test_with_auto_each_row_tells_how_often_it_was_measured() -> None:
    body = status(result(repeats=8, objectives=[objective(outcome="Inconclusive")]))
    rows = objective_rows(body.model_copy(update={"until_decided": UNTIL}))
    assert rows.headers[-1] == "repeats"
    assert rows.rows[0][-2:] == ("Inconclusive", "8")


def test_widths_that_were_asked_for_are_a_table() -> None:
    wide = WidthResult(metric="TTFT", percentile="90", percent="5")
    narrow = wide.model_copy(update={"measured_percent": 4.321, "reached": True})
    rows = width_rows(status(result(repeats=8, widths=[wide, narrow])))
    assert rows.headers[1:] == (
        "latency",
        "asked (%)",
        "width (%)",
        "reached",
        "repeats",
    )
    assert [row[1:] for row in rows.rows] == [
        ("TTFT p90", "5", "-", "no", "8"),
        ("TTFT p90", "5", "4.3", "yes", "8"),
    ]
    assert "Widths of intervals" in markdown(
        "a", status(result(repeats=8, widths=[wide]))
    )
    assert width_rows(status(result())).rows == ()


def test_an_unmeasured_value_is_a_dash() -> None:
    unknown = objective(measured_milliseconds=None, outcome="Inconclusive")
    (row,) = objective_rows(status(result(objectives=[unknown]))).rows
    assert row[2:] == ("-", "Inconclusive")


def test_what_it_takes_to_decide_an_objective_is_shown_where_it_is_known() -> None:
    takes = objective(outcome="Inconclusive", price=Price(requests=2437))
    rows = objective_rows(status(result(objectives=[takes, objective()])))
    assert rows.headers[-1] == "would take"
    assert [row[-1] for row in rows.rows] == ["2,400 requests", "-"]


def test_without_objectives_there_are_no_rows() -> None:
    assert objective_rows(status(result())).rows == ()


COST = CostStatus(currency="CHF", per_hour=4.98)


def priced(**metrics: float | None) -> BenchmarkRunStatus:
    known = result()
    return status(
        known.model_copy(update={"metrics": known.metrics | metrics})
    ).model_copy(update={"cost": COST})


BOTH = priced(
    cost_per_million_output_tokens=1.7029, cost_per_million_total_tokens=0.21286
)


def test_output_tokens_in_every_table_and_all_tokens_in_a_wide_one() -> None:
    narrow = result_rows(BOTH)
    wide = result_rows(BOTH, wide=True)
    assert narrow.rows[0][narrow.headers.index("CHF/Mtok")] == "1.7"
    assert "CHF/total Mtok" not in narrow.headers
    assert wide.rows[0][wide.headers.index("CHF/total Mtok")] == "0.213"


def test_without_a_price_there_is_no_column() -> None:
    for rows in (
        result_rows(status(result()), wide=True),
        result_rows(priced(), wide=True),
    ):
        assert not any("Mtok" in header for header in rows.headers)


def test_a_page_has_both() -> None:
    page = markdown("a", BOTH)
    assert "CHF/Mtok" in page
    assert "CHF/total Mtok" in page


@pytest.mark.parametrize(
    ("expected", "cost"),
    [
        ("4.98 CHF an hour", COST),
        ("19.92 USD an hour", CostStatus(currency="USD", per_hour=19.92)),
        (
            "3 input, 0.3 cached, 15 output, EUR a million tokens",
            CostStatus(
                currency="EUR", per_million_tokens="3 input, 0.3 cached, 15 output"
            ),
        ),
        (
            "not known: the price is per GPU, and no server holds one",
            CostStatus(currency="USD", per_hour=None),
        ),
    ],
)
def test_the_price_itself_is_reported_with_the_run(
    expected: str, cost: CostStatus
) -> None:
    ran = ended(cost=cost)
    assert price_text(cost) == expected
    assert (
        dict(run_summary(run_of(run_body(ran)), ran, now=BEGIN).facts)["price"]
        == expected
    )


def finding(**fields: Any) -> Finding:
    values = {
        "code": "Drift",
        "severity": "Suspect",
        "count": 2,
        "worst_stage": "a/rate=1/r2",
        "sentence": "As it was written.",
        "remedy": "Wait longer.",
    }
    return Finding.model_validate(values | fields)


def test_every_column_of_a_finding() -> None:
    found = finding(
        code="RecordMissing", evidence={"planned": 3.0, "measured": 2.0}
    )
    rows = finding_rows(status().model_copy(update={"findings": [found]}))
    assert dict(zip(rows.headers, rows.rows[0], strict=True)) == {
        "severity": "Suspect",
        "finding": "RecordMissing",
        "worst stage": "a/rate=1/r2",
        "evidence": "As it was written.",
        "what to do": "Wait longer.",
    }


def test_a_finding_of_another_release_reads_as_it_was_written() -> None:
    """Also one whose code this release does not know."""
    found = finding(
        code="Unheard", evidence={"planned": 3.0}, sentence="Nothing was heard."
    )
    assert finding_rows(status().model_copy(update={"findings": [found]})).rows[0][
        3
    ] == ("Nothing was heard.")


def test_findings_stand_in_the_order_of_the_status() -> None:
    several = [
        finding(code=code, severity=severity)
        for code, severity in (("B", "Note"), ("A", "Invalid"))
    ]
    assert [
        row[1]
        for row in finding_rows(
            status().model_copy(update={"findings": several})
        ).rows
    ] == ["B", "A"]


NO_WAITING = Waiting(reason="None", sentence="hardly any waited")
NO_LIMIT = Bottleneck(limit="None", sentence="the server kept up")


@pytest.mark.parametrize(
    ("expected", "waiting", "bottleneck"),
    [
        ((), None, None),
        ((), NO_WAITING, NO_LIMIT),
        (("waiting",), WAITING, NO_LIMIT),
        (("limit",), NO_WAITING, LIMIT),
        (("waiting", "limit"), WAITING, LIMIT),
    ],
)
def test_only_what_explains_something_has_a_row(
    expected: tuple[str, ...],
    waiting: Waiting | None,
    bottleneck: Bottleneck | None,
) -> None:
    rows = explanation_rows(status(result(waiting=waiting, bottleneck=bottleneck)))
    assert rows.headers == ("load points", "", "", "explanation")
    assert tuple(row[1] for row in rows.rows) == expected


def test_intervals_have_four_digits_and_only_percentiles_a_row() -> None:
    row = result(
        metrics={"p99_ttft_ms": 123.456, "mean_ttft_ms": 99.0, "completed": 9.0},
        intervals={"p99_ttft_ms": [101.234, 150.678]},
        steady={"p99_ttft_ms": 111.119, "request_throughput": 3.0},
        throughput_of="Plateau",
        uncertain=[],
    )
    load_points = ("chat/concurrency=8", "p99_ttft", "111.1", "101.2", "150.7")
    assert interval_rows(status(row)).rows == ((*load_points, "123.5"),)
    # Whole stages' latencies are the first that a large status leaves out.
    cut = row.model_copy(update={"metrics": {"completed": 9.0}})
    assert interval_rows(status(cut)).rows == ((*load_points, "-"),)


def test_the_steady_part_is_told_where_the_figures_are_of_it() -> None:
    steady = {"request_throughput": 3.0, "duration": 52.04, "sent": 64.0}
    row = result(steady=steady, throughput_of="Plateau")
    assert steady_part(row) == "52 s, 64 of 100"
    assert steady_part(result(steady=steady)) == "-"
    rows = result_rows(status(row, result()), wide=True)
    assert "steady part" not in result_rows(status(row, result())).headers
    assert rows.rows[0][rows.headers.index("steady part")] == "52 s, 64 of 100"
    assert "steady part" not in result_rows(status(result()), wide=True).headers


def test_users_that_began_together_are_told() -> None:
    row = result(user_start="Together")
    found = result_rows(status(row, result(user_start="Spread"), result()))
    column = found.headers.index("users began")
    assert [each[column] for each in found.rows] == ["together", "-", "-"]
    usual = result_rows(status(result(user_start="Spread"), result()))
    assert "users began" not in usual.headers


@pytest.mark.parametrize(
    ("marked", "load_points"),
    [
        (True, ("1", "118?")),
        (True, ("?",)),
        (False, ("1", "what?no")),
        (False, ()),
        (False, ("1",)),
    ],
)
def test_the_mark_stands_at_the_end_of_a_load_point(
    marked: bool, load_points: tuple[str, ...]
) -> None:
    assert has_uncertain(Rows(("a",), (("x",), load_points))) is marked


# Configurations against datasets, and texts in all against texts a prompt, as people draw them by
# hand.


def test_configurations_stand_against_load_points_figure_by_figure() -> None:
    rows = configuration_rows(several().status)
    assert rows.headers == ("figure", "variant", *LOAD_POINTS)
    of_ttft = {row[1]: row[2:] for row in rows.rows if row[0] == "TTFT"}
    measured = {
        (row.variant, row.load_point): row.metrics["mean_ttft_ms"]
        for row in several().status.results
        if row.metrics
    }
    assert list(of_ttft) == [
        "baseline",
        "prefix-caching",
        "chunked-8192",
        "eager",
        "everything",
    ]
    assert [
        float(load_point) for load_point in of_ttft["prefix-caching"]
    ] == pytest.approx(
        [measured["prefix-caching", load_point] for load_point in LOAD_POINTS],
        rel=0.01,
    )


def test_changes_stand_beside_each_other_with_interval_and_word() -> None:
    found = several().status
    rows = configuration_change_rows(found)
    long = {(row[0], row[1], row[2]): row[5:] for row in change_rows(found).rows}
    faster = next(row for row in rows.rows if row[:2] == ("TTFT", "prefix-caching"))
    assert faster[2:] == tuple(
        "{} ({}) {}".format(*long["prefix-caching", load_point, "MeanTTFT"])
        for load_point in LOAD_POINTS
    )
    assert faster[2].startswith("-")
    assert faster[2].endswith("Better")
    assert "baseline" not in {row[1] for row in rows.rows}


def test_one_load_point_has_nothing_to_stand_beside() -> None:
    assert configuration_rows(batches().status).rows == ()
    assert len(BATCHES) > 1


def packed(
    workload: str, prompts: int, total: float, output: float, *, rate: str = "inf"
) -> Result:
    metrics = {
        "total_token_throughput": total,
        "output_throughput": output,
        "request_throughput": 2.0,
        "completed": 2.0 * prompts,
        "total_input_tokens": 2.0 * (119_980 + 26 * prompts),
    }
    return result(
        f"{workload}/rate={rate}",
        metrics=metrics | {"failed": 0.0},
        repeats=2,
        repeats_planned=2,
    )


def test_texts_in_all_stand_against_their_packing() -> None:
    """The table of the original: n texts in one prompt against n prompts of one text."""
    texts = {
        "all-400": 400,
        "all-40": 40,
        "single-400": 1,
        "single-40": 1,
        "packed-20": 20,
    }
    found = status(
        packed("all-400", 1, 5058, 16.8),
        packed("single-400", 400, 21_300, 65.8),
        packed("all-40", 1, 11_443, 40.7),
        packed("single-40", 40, 22_262, 73.3),
        packed("single-40", 40, 9000, 30, rate="1"),
        packed("packed-20", 20, 7000, 20),
        packed("chat", 9, 1, 1),
    )
    rows = packing_rows(found, texts)
    assert rows.headers == (
        "texts in all",
        "figure",
        "all in one prompt",
        "one a prompt",
        "20 a prompt",
    )
    assert rows.rows[:3] == (
        ("400", "total tok/s", "5060", "21300", "7000"),
        ("400", "tok/s", "16.8", "65.8", "20"),
        ("400", "texts/s", "800", "2", "40"),
    )
    assert rows.rows[3:6] == (
        ("400", "prompt tokens", "120006", "130380", "120500"),
        ("400", "verdict", "Valid", "Valid", "Valid"),
        ("40", "total tok/s", "11400", "22300", "-"),
    )


def test_a_single_packing_is_no_comparison() -> None:
    assert packing_rows(status(packed("all", 1, 1, 1)), {"all": 4}).rows == ()
    assert packing_rows(status(packed("chat", 9, 1, 1)), {}).rows == ()


def test_time_to_the_answer_has_columns_where_answers_have_reasoning() -> None:
    thinking = result()
    figures = {"median_ttfat_ms": 512.0, "p99_ttfat_ms": 1024.0}
    thinking = thinking.model_copy(
        update={"metrics": thinking.metrics | figures, "steady": {}}
    )
    rows = result_rows(status(thinking))
    found = dict(zip(rows.headers, rows.rows[0], strict=True))
    assert (found["TTFAT p50"], found["TTFAT p99"]) == ("512", "1020")
    assert not [
        each for each in result_rows(status(result())).headers if "TTFA" in each
    ]


def test_acceptance_has_a_column_where_a_server_speculates() -> None:
    speculating = result()
    roles = [
        each.model_copy(update={"draft_accepted_percent": 62.5})
        for each in speculating.roles
    ]
    rows = result_rows(status(speculating.model_copy(update={"roles": roles})))
    found = dict(zip(rows.headers, rows.rows[0], strict=True))
    assert found["accepted"] == "62.5%"
    assert "accepted" not in result_rows(status(result())).headers
