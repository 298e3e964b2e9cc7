"""The tables of stages and requests, and what becomes of them as CSV."""

import csv
import io
from dataclasses import replace
from functools import partial
from itertools import compress
from operator import add
from statistics import mean

import pytest
from benchrun.api import CostStatus
from benchrun.measure import LATENCIES
from benchrun.report.export.csv_parquet import request_table, stage_table
from benchrun.report.export.encoders import Value, as_csv
from benchrun.report.export.formats import ExportedRun, only
from unit.measure.loads import closed_loop
from unit.report.export.runs import (
    CAPPED,
    CHAT,
    FIRST,
    GPU,
    LOAD_POINTS,
    PERCENTILES,
    STAGES,
    endpoint_spec,
    failing,
    measured,
    renewed,
    row,
    rows,
    run,
    server_sample,
    spec,
    status,
)
from unit.report.export.split_runs import split_run, split_sample

GPU_FIGURES = ("gpu_power_mean_watts", "gpu_memory_max_mib", "sm_clock_mean_mhz")


def stages(exported: ExportedRun | None = None) -> dict[str, dict[str, Value]]:
    return {
        str(each["stage"]): each for each in rows(stage_table(exported or run()))
    }


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


# ---- stages
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage_id", [CHAT, CAPPED])
def test_every_figure_of_a_stage_is_vllms(stage_id: str) -> None:
    ours = stages()[stage_id]
    vllms = measured(stage_id).scalars
    names = [
        *(
            f"{f}_{latency}_ms"
            for latency in LATENCIES
            for f in ("mean", "median", "std", *(f"p{p}" for p in PERCENTILES))
        ),
        *("request_throughput", "output_throughput", "total_token_throughput"),
        *("total_input_tokens", "total_output_tokens", "completed", "failed"),
    ]
    for name in names:
        # A figure of microseconds is off by half of one, and has five significant digits.
        assert ours[name] == pytest.approx(vllms[name], rel=6e-5, abs=6e-4), name
    assert ours["duration_seconds"] == pytest.approx(vllms["duration"], rel=1e-4)


def test_under_a_cap_the_wait_in_the_client_has_columns_of_its_own() -> None:
    ours = stages()[CAPPED]
    columns = measured(CAPPED).requests
    for latency, column in (("ttft", columns.ttft_us), ("e2el", columns.e2el_us)):
        since_due = mean(map(add, column, columns.queue_us)) / 1000
        assert ours[f"mean_{latency}_including_client_queue_ms"] == pytest.approx(
            since_due, rel=6e-5
        )
        assert since_due > mean(column) / 1000 + 10
    assert stages()[CHAT]["mean_e2el_including_client_queue_ms"] is None


def test_what_was_not_measured_is_none_where_vllm_says_0() -> None:
    first = stages()[FIRST]
    assert measured(FIRST).scalars["mean_tpot_ms"] == 0
    assert (first["mean_tpot_ms"], first["p99_itl_ms"], first["std_tpot_ms"]) == (
        None,
        None,
        None,
    )
    assert first["failed"] == 0


def test_a_row_tells_what_was_measured_and_where() -> None:
    chat = stages()[CHAT]
    assert {
        name: chat[name]
        for name in (
            "namespace",
            "run",
            "load_point",
            "repeat",
            "gpu",
            "gpus",
            "max_concurrency",
        )
    } == {
        "namespace": "lab",
        "run": "nightly",
        "load_point": "concurrency=4",
        "repeat": 1,
        "gpu": GPU,
        "gpus": 2,
        "max_concurrency": 4,
    }


def test_the_gpus_of_an_endpoint_are_not_known() -> None:
    assert stages(run(of_spec=endpoint_spec()))[CHAT]["gpus"] is None


def test_verdict_findings_and_what_is_uncertain_stand_in_the_row() -> None:
    judged = [row(LOAD_POINTS[0], "Suspect", ["Drift", "TooFewSamples"])]
    chat = stages(run(of_status=status(judged)))[CHAT]
    assert (chat["verdict"], chat["findings"]) == (
        "Suspect",
        ("Drift", "TooFewSamples"),
    )
    assert list(chat["uncertain"])[:3] == [  # type: ignore[arg-type]
        "p50_ttft_ms",
        "p90_ttft_ms",
        "p99_ttft_ms",
    ]


def test_what_the_servers_said_meanwhile() -> None:
    row = stages(
        run(samples=[server_sample(CHAT, running=3.0, waiting=1.0, kv_cache=0.25)])
    )
    assert (row[CHAT]["running_mean"], row[CHAT]["waiting_max"]) == (3.0, 1.0)
    assert row[CHAT]["kv_cache_max_percent"] == 25.0
    assert (row[CAPPED]["running_mean"], row[CAPPED]["kv_cache_mean_percent"]) == (
        None,
        None,
    )


def test_what_the_gpus_did_and_what_their_energy_brought() -> None:
    samples = renewed(
        partial(server_sample, CHAT),
        watts=400.0,
        gpu_memory_mib=71_000.0,
        sm_clock_mhz=1_755.0,
    )
    row = stages(run(samples=samples))
    chat = row[CHAT]
    assert [chat[name] for name in GPU_FIGURES] == [400.0, 71_000.0, 1_755.0]
    assert chat["output_tokens_per_joule"] == 5 / 400
    assert [
        row[CAPPED][name] for name in (*GPU_FIGURES, "output_tokens_per_joule")
    ] == [None] * 4


def test_power_is_that_of_all_roles_and_not_known_where_one_does_not_tell() -> None:
    exported = partial(renewed, split_sample)
    prefill = exported(
        watts=300.0, role="prefill", gpu_memory_mib=70_000.0, sm_clock_mhz=2_000.0
    )
    decode = exported(
        watts=500.0,
        role="decode",
        running=4.0,
        gpu_memory_mib=60_000.0,
        sm_clock_mhz=1_500.0,
    )
    both = stages(split_run(samples=[*prefill, *decode]))[CHAT]
    assert [both[name] for name in GPU_FIGURES] == [800.0, 70_000.0, 1_750.0]
    assert both["output_tokens_per_joule"] == 5 / 800
    for silent in (decode, [split_sample("prefill"), *decode]):
        half = stages(split_run(samples=silent))[CHAT]
        assert [
            half[name] for name in (*GPU_FIGURES, "output_tokens_per_joule")
        ] == [None] * 4
        assert half["running_mean"] == 4.0


def test_a_million_tokens_cost_what_the_servers_cost_meanwhile() -> None:
    priced = status().model_copy(
        update={"cost": CostStatus(currency="EUR", per_hour=3600.0)}
    )
    price = spec(cost={"perHour": "3600", "currency": "EUR"})
    steady = measured(
        CHAT, requests=closed_loop(200, 4, duration_us=lambda i: 100_000)
    )
    found = stages(run(steady, measured(FIRST), of_spec=price, of_status=priced))
    for stage_id, throughput in (
        (CHAT, "steady_{}_throughput"),
        (FIRST, "{}_throughput"),
    ):
        stage = found[stage_id]
        assert (stage["currency"], stage["cost_per_hour"]) == ("EUR", 3600.0)
        for tokens, rate in (("output", "output"), ("total", "total_token")):
            cost = stage[f"cost_per_million_{tokens}_tokens"]
            a_second = stage[throughput.format(rate)]
            assert cost == pytest.approx(1e6 / float(str(a_second)), rel=1e-4)


def test_without_a_price_or_without_tokens_a_cost_is_not_known_and_never_0() -> (
    None
):
    costs = ("cost_per_million_output_tokens", "cost_per_million_total_tokens")
    free = stages()[CHAT]
    assert [free[name] for name in ("currency", "cost_per_hour", *costs)] == [
        None
    ] * 4
    priced = status().model_copy(
        update={"cost": CostStatus(currency="EUR", per_hour=3600.0)}
    )
    price = spec(cost={"perHour": "3600", "currency": "EUR"})
    gone = stages(run(failing(CHAT, failed=24), of_spec=price, of_status=priced))[
        CHAT
    ]
    assert [gone[name] for name in costs] == [None] * 2
    assert gone["cost_per_hour"] == 3600.0


def test_a_stage_whose_requests_all_failed_has_counts_and_no_latency() -> None:
    gone = stages(run(failing(CHAT, failed=24)))[CHAT]
    assert (gone["requests"], gone["completed"], gone["failed"]) == (24, 0, 24)
    assert [gone[f"mean_{latency}_ms"] for latency in LATENCIES] == [None] * 4


# ---- requests
# --------------------------------------------------------------------------------------------------------


def test_a_row_a_request_gives_the_figures_of_its_stage() -> None:
    table = rows(request_table(run()))
    assert [
        sum(each["stage"] == stage_id for each in table) for stage_id in STAGES
    ] == [
        24,
        24,
        8,
        24,
    ]
    chat = [each for each in table if each["stage"] == CHAT]
    vllms = measured(CHAT).scalars
    for latency in ("ttft", "tpot", "e2el"):
        values = [each[f"{latency}_ms"] for each in chat]
        assert mean(values) == pytest.approx(vllms[f"mean_{latency}_ms"], abs=0.001)  # type: ignore[type-var]
    assert [each["request"] for each in chat] == list(range(24))
    assert chat[0]["start_ms"] == 0


def test_a_failed_request_has_only_its_send_time() -> None:
    last = rows(request_table(run(failing(CHAT, failed=1))))[-1]
    unknown = [name for name, value in last.items() if value is None]
    assert unknown == ["ttft_ms", "tpot_ms", "e2el_ms", "output_tokens", "closed"]
    assert (last["ok"], last["input_tokens"], last["asked_tokens"]) == (
        False,
        64,
        12,
    )


def test_one_token_has_no_time_between_tokens() -> None:
    first = [each for each in rows(request_table(run())) if each["stage"] == FIRST]
    assert {each["tpot_ms"] for each in first} == {None}
    assert {each["output_tokens"] for each in first} == {1}


# ---- CSV
# -------------------------------------------------------------------------------------------------------------


def test_csv_is_read_back_value_for_value() -> None:
    judged = [row(LOAD_POINTS[0], "Suspect", ["Drift", "TooFewSamples"])]
    table = stage_table(
        run(measured(CHAT), failing(FIRST, failed=8), of_status=status(judged))
    )
    back = read(as_csv(table))
    for line, known in zip(back, rows(table), strict=True):
        for column in table.columns:
            value = known[column.name]
            text = line[column.name]
            if value is None:
                assert text == ""
            elif column.kind in ("integer", "number"):
                assert float(text) == value
            elif column.kind == "text":
                assert text == value
    assert (back[0]["findings"], back[0]["began"]) == (
        "Drift;TooFewSamples",
        "2027-01-15T08:00:00.250000Z",
    )
    assert list(back[0]) == [column.name for column in table.columns]


def test_flags_are_words_and_unknown_ones_are_empty() -> None:
    back = read(as_csv(request_table(run(failing(CHAT, failed=1)))))
    assert [(each["ok"], each["closed"]) for each in back[-2:]] == [
        ("true", "true"),
        ("false", ""),
    ]


def test_a_table_without_rows_still_has_its_head() -> None:
    none = only(run(), [])
    assert read(as_csv(stage_table(none))) == []
    assert as_csv(stage_table(none)).startswith(b"namespace,run,run_uid,stage,")


def test_commas_and_quotes_in_a_word_are_kept() -> None:
    strange = 'a "quoted", name'
    named = replace(run(), name=strange)
    assert {each["run"] for each in read(as_csv(stage_table(named)))} == {strange}


def test_token_counts_of_requests_add_up_to_those_of_the_stage() -> None:
    record = failing(CHAT, failed=3)
    tokens = [each["output_tokens"] for each in rows(request_table(run(record)))]
    answered = list(compress(tokens, record.requests.ok))
    assert sum(answered) == stages(run(record))[CHAT]["total_output_tokens"]  # type: ignore[arg-type]


THINKING = ("ttfrt_ms", "ttfat_ms", "reasoning_tokens")


def test_reasoning_has_columns_where_an_answer_has_some() -> None:
    whole = measured(CHAT)
    count = len(whole.requests.ok)
    columns = whole.requests.model_copy(
        update={
            "reasoning_us": (*whole.requests.ttft_us[:-1], 0),
            "answer_us": (
                0,
                *whole.requests.e2el_us[1:-1],
                whole.requests.ttft_us[-1],
            ),
            "reasoning_tokens": (*(3,) * (count - 1), 0),
        }
    )
    exported = run(whole.model_copy(update={"requests": columns}))
    table = [
        each for each in rows(request_table(exported)) if each["stage"] == CHAT
    ]
    assert [table[0][name] for name in THINKING] == [table[0]["ttft_ms"], None, 3]
    assert [table[1][name] for name in THINKING] == [
        table[1]["ttft_ms"],
        table[1]["e2el_ms"],
        3,
    ]
    assert [table[-1][name] for name in THINKING] == [None, table[-1]["ttft_ms"], 0]
    row_of_stage = stages(exported)[CHAT]
    assert row_of_stage["total_reasoning_tokens"] == 3 * (count - 1)
    assert row_of_stage["unanswered"] == 1
    assert row_of_stage["mean_ttfat_ms"] is not None


def test_without_reasoning_there_is_no_column_for_it() -> None:
    assert set(THINKING).isdisjoint(rows(request_table(run()))[0])
    assert not [
        name for name in stages()[CHAT] if "reasoning" in name or "ttfa" in name
    ]
