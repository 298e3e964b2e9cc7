"""The tables of a sweep, as text."""

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.cli.console_tables import show_sweep
from benchrun.cli.html_page import draw
from benchrun.report.markdown import sweep_markdown
from benchrun.report.run_list import sweep_list_rows
from benchrun.report.run_summary import sweep_summary
from benchrun.report.sweep_rows import (
    NONE_CERTAIN,
    best_rows,
    change_rows,
    front_rows,
    undecided_rows,
    variant_rows,
)
from benchrun.report.tables import Rows
from rich.console import Console
from unit.plan.specs import spec_body
from unit.report.finished_sweeps import (
    BATCHES,
    FinishedSweep,
    Measured,
    batches,
    finished_sweep,
)
from unit.report.html.reported_sweeps import page_of
from unit.sweep.sweeps import NOW

HOSTILE = "x | y <script> @all #7 [a](http://e)"


def columns(rows: Rows, *headers: str) -> list[tuple[str, ...]]:
    """Those columns, row by row."""
    places = [rows.headers.index(header) for header in headers]
    return [tuple(row[place] for place in places) for row in rows.rows]


def table(
    measured: dict[str, Measured | None], *, wide: bool = False, **spec: Any
) -> Rows:
    return variant_rows(finished_sweep(measured, **spec).status, wide=wide)


def test_three_batch_sizes_beside_each_other() -> None:
    rows = variant_rows(batches().status, texts_per_prompt={"chat": 4}, wide=True)
    shown = columns(
        rows,
        "variant",
        "req/s",
        "texts/s",
        "total tok/s",
        "running",
        "waiting",
        "KV max",
    )
    assert shown == [
        ("10000", "20.3", "81.2", "25400", "33", "491", "9.4%"),
        ("80000", "20.6", "82.4", "25800", "267", "436", "78%"),
        ("160000", "20", "80", "25600", "276", "367", "99%"),
    ]


def test_what_came_from_the_prefix_cache() -> None:
    cached = Measured(server={"prefix_hit_percent": 46.9})
    rows = table({"off": Measured(server={"prefix_hit_percent": 0}), "on": cached})
    assert columns(rows, "variant", "hits") == [("off", "0%"), ("on", "46.9%")]


def test_columns_in_which_nothing_was_measured_are_left_out() -> None:
    rows = table({"base": Measured()})
    assert {"running", "waiting", "KV max", "hits", "texts/s"} & set(
        rows.headers
    ) == set()


def test_throughput_per_gpu_is_shown_where_it_is_not_that_of_the_server() -> None:
    assert "per GPU" not in table({"base": Measured()}).headers
    assert columns(table({"base": Measured()}, wide=True), "tok/s", "per GPU") == [
        ("1200", "1200")
    ]
    template = {
        "model": {"name": "m"},
        "server": {"image": "i", "resources": {"limits": {"nvidia.com/gpu": 4}}},
    }
    whole = finished_sweep({"base": Measured()}).written["template"]
    assert columns(
        table({"base": Measured()}, template=whole | template), "tok/s", "per GPU"
    ) == [("1200", "300")]


def test_the_total_of_tokens_is_shown_where_there_are_no_latencies() -> None:
    assert "total tok/s" not in table(dict(BATCHES)).headers
    latencies = dict.fromkeys(("MeanTTFT", "MeanTPOT", "MeanITL", "MeanE2EL"))
    engine_alone: dict[str, Measured | None] = {
        name: replace(each, figures={**each.figures, **latencies})
        for name, each in BATCHES.items()
    }
    rows = table(engine_alone)
    assert columns(rows, "total tok/s", "running") == [
        ("25400", "33"),
        ("25800", "267"),
        ("25600", "276"),
    ]
    assert {"TTFT", "TPOT", "E2EL"} & set(rows.headers) == set()


def test_two_variants_stand_side_by_side_with_change_and_interval() -> None:
    found = finished_sweep(
        {"base": Measured(), "wide": Measured({"OutputThroughput": 1250.0})}
    ).status
    rows = change_rows(found)
    assert rows.headers == (
        "variant",
        "load point",
        "figure",
        "base",
        "wide",
        "change",
        "interval",
        "word",
    )
    (throughput,) = [row for row in rows.rows if row[2] == "OutputThroughput"]
    assert throughput[3:6] == ("1200", "1250", "+4.2 %")


def test_a_variant_that_failed_has_its_reason_for_a_verdict() -> None:
    rows = table({"base": Measured(), "wide": None})
    assert columns(rows, "variant", "runs", "req/s", "verdict")[1] == (
        "wide",
        "0",
        "-",
        "OutOfGPUMemory",
    )


# ---- best and front
# --------------------------------------------------------------------------------------------------------

OBJECTIVES = [{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 500}]
WITHOUT_GPUS = spec_body(server={"image": "i"}, objectives=OBJECTIVES)


def undecided(**spec: Any) -> FinishedSweep:
    """A variant whose objective is not certain has more throughput than the best."""
    measured = {
        "base": Measured({"OutputThroughput": 343.0}, objective="Met"),
        "wide": Measured(
            {"OutputThroughput": 1370.0, "MeanTPOT": 11.01},
            objective="Inconclusive",
        ),
    }
    return finished_sweep(measured, **{"template": WITHOUT_GPUS, **spec})


def test_who_would_be_better_if_it_were_decided_has_a_row() -> None:
    status = undecided().status
    shown = columns(best_rows(status), "objective", "best", "tok/s", "undecided")
    assert shown == [
        ("throughput", "wide", "1370", "-"),
        ("TTFT p99 <= 500 ms", "base", "343", "wide"),
    ]
    rows = undecided_rows(status)
    assert columns(rows, "objective", "undecided", "load point", "tok/s") == [
        ("TTFT p99 <= 500 ms", "wide", "chat/rate=4", "1370")
    ]
    assert columns(rows, "would take") == [("2,400 requests",)]
    [_, best] = status.best
    unknown = best.undecided[0].model_copy(update={"price": None})
    more = best.model_copy(update={"undecided": [unknown], "more_undecided": 3})
    status = status.model_copy(update={"best": [more]})
    assert "would take" not in undecided_rows(status).headers
    assert columns(best_rows(status), "undecided") == [("wide, 3 more",)]


def test_where_none_is_certain_the_table_says_so() -> None:
    measured: dict[str, Measured | None] = {
        name: Measured(objective="Inconclusive") for name in ("base", "wide")
    }
    template = spec_body(objectives=OBJECTIVES)
    rows = best_rows(finished_sweep(measured, template=template).status)
    assert columns(rows, "best", "load point", "tok/s per GPU")[1] == (
        NONE_CERTAIN,
        "-",
        "-",
    )


def surfaces(found: FinishedSweep) -> dict[str, str]:
    """Everything that is shown of a sweep."""
    out = io.StringIO()
    show_sweep(Console(file=out, width=200), "s", found.status, wide=True)
    listed = sweep_list_rows([found.body], now=NOW)
    summary = sweep_summary(found.reported.declared, found.status, now=NOW)
    return {
        "terminal": out.getvalue(),
        "Markdown": sweep_markdown("s", found.status),
        "HTML": page_of(found.reported, draw),
        "list": str(listed),
        "summary": str(summary),
        "message": found.status.message or "",
    }


def test_who_is_undecided_is_shown_everywhere() -> None:
    for name, text in surfaces(undecided()).items():
        shown = "wide at chat/rate=4 may be better than base" in " ".join(
            text.split()
        )
        assert shown is (name != "list"), name


@pytest.mark.parametrize("gpus", [0, 1])
def test_without_gpus_nothing_is_per_gpu(gpus: int) -> None:
    server = {"image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    shown = surfaces(
        undecided(template=spec_body(server=server, objectives=OBJECTIVES))
    )
    del shown["message"]
    per_gpu = {
        name for name, text in shown.items() if re.search("per GPU|and GPU", text)
    }
    assert per_gpu == (set(shown) if gpus else set())


@pytest.mark.parametrize(
    ("gpus", "unit", "shown"), [(0, "tok/s", "5"), (2, "tok/s per GPU", "5")]
)
def test_a_status_of_the_version_before_is_shown(
    gpus: int, unit: str, shown: str
) -> None:
    status = before(undecided().status, gpus, gpus)
    for rows in (best_rows(status), front_rows(status)):
        assert {
            load_points[rows.headers.index(unit)] for load_points in rows.rows
        } == {shown}


def test_a_mixed_status_of_the_version_before_is_not_shown_per_gpu() -> None:
    status = before(undecided().status, 0, 4)
    assert columns(best_rows(status), "best", "tok/s") == [
        ("wide", "20"),
        ("base", "5"),
    ]


def before(status: BenchmarkSweepStatus, *gpus: int) -> BenchmarkSweepStatus:
    """As it was stored: 5 tokens a second and GPU, with so many GPUs a variant."""
    old = {"throughput": None, "throughput_per_gpu": 5.0}
    variants = [
        each.model_copy(update={"gpus": held})
        for each, held in zip(status.variants, gpus, strict=True)
    ]
    return status.model_copy(
        update={
            "variants": variants,
            "best": [
                each.model_copy(update=old | {"undecided": []})
                for each in status.best
            ],
            "front": [each.model_copy(update=old) for each in status.front],
        }
    )


def test_sweeps_with_and_without_gpus_are_listed_by_server() -> None:
    two = {"image": "i", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    with_gpus = undecided(
        template=spec_body(server=two, objectives=OBJECTIVES)
    ).body
    alone = sweep_list_rows([with_gpus], now=NOW)
    assert columns(alone, "tok/s per GPU") == [("685",)]
    both = sweep_list_rows([with_gpus, undecided().body], now=NOW)
    assert columns(both, "tok/s") == [("1370",), ("1370",)]


# ---- Markdown
# --------------------------------------------------------------------------------------------------------


def test_markdown_has_the_verdict_every_table_and_what_limits() -> None:
    text = sweep_markdown("e4", batches().status, texts_per_prompt={"chat": 4})
    assert text.startswith(
        "## e4: Valid\n\nmeasured 3 of 3 variants; every row is valid\n"
    )
    assert "| 80000 | chat/rate=inf | 1 | 20.6 | 82.4 | 82.4 | 25800 |" in text
    heads = "| variant | load point | figure | 10000 | its own | change | interval | word |"
    assert f"### Against 10000\n\n{heads}" in text
    assert "### Best\n" in text
    assert "### Pareto front\n" in text
    assert (
        "- 160000 at chat/rate=inf: Throughput stays flat from 10000 to 160000"
        in text
    )
    assert "compute is the limit" in text


def test_markdown_of_a_failed_variant_says_why() -> None:
    text = sweep_markdown(
        "s", finished_sweep({"base": Measured(), "wide": None}).status
    )
    assert "- wide: OutOfGPUMemory in seqs-v2-r1: CUDA out of memory" in text


def test_strings_of_others_do_nothing() -> None:
    found = finished_sweep({"base": Measured(), "wide": None}).status
    hostile = found.model_copy(
        update={
            "message": HOSTILE,
            "baseline": HOSTILE,
            "variants": [
                each.model_copy(update={"message": HOSTILE})
                for each in found.variants
            ],
            "results": [
                each.model_copy(update={"variant": HOSTILE})
                for each in found.results
            ],
        }
    )
    text = sweep_markdown(HOSTILE, hostile)
    assert not any(
        live in text
        for live in ("x | y", "<script", "@all", "#7", "[a]", "http://")
    )
