"""The tables of a sweep, as text."""

from dataclasses import replace
from typing import Any

from benchrun.report.markdown import sweep_markdown
from benchrun.report.sweep_rows import change_rows, variant_rows
from benchrun.report.tables import Rows
from unit.report.finished_sweeps import BATCHES, Measured, batches, finished_sweep

HOSTILE = "x | y <script> @all #7 [a](http://e)"


def columns(rows: Rows, *headers: str) -> list[tuple[str, ...]]:
    """Those columns, row by row."""
    places = [rows.headers.index(header) for header in headers]
    return [tuple(row[place] for place in places) for row in rows.rows]


def table(measured: dict[str, Measured | None], *, wide: bool = False, **spec: Any) -> Rows:
    return variant_rows(finished_sweep(measured, **spec).status, wide=wide)


def test_three_batch_sizes_beside_each_other() -> None:
    rows = variant_rows(batches().status, texts_per_prompt={"chat": 4}, wide=True)
    shown = columns(
        rows, "variant", "req/s", "texts/s", "total tok/s", "running", "waiting", "KV max"
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
    assert {"running", "waiting", "KV max", "hits", "texts/s"} & set(rows.headers) == set()


def test_throughput_per_gpu_is_shown_where_it_is_not_that_of_the_server() -> None:
    assert "per GPU" not in table({"base": Measured()}).headers
    assert columns(table({"base": Measured()}, wide=True), "tok/s", "per GPU") == [("1200", "1200")]
    template = {
        "model": {"name": "m"},
        "server": {"image": "i", "resources": {"limits": {"nvidia.com/gpu": 4}}},
    }
    whole = finished_sweep({"base": Measured()}).written["template"]
    assert columns(table({"base": Measured()}, template=whole | template), "tok/s", "per GPU") == [
        ("1200", "300")
    ]


def test_the_total_of_tokens_is_shown_where_there_are_no_latencies() -> None:
    assert "total tok/s" not in table(dict(BATCHES)).headers
    latencies = dict.fromkeys(("MeanTTFT", "MeanTPOT", "MeanITL", "MeanE2EL"))
    engine_alone: dict[str, Measured | None] = {
        name: replace(each, figures={**each.figures, **latencies}) for name, each in BATCHES.items()
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


# ---- Markdown
# --------------------------------------------------------------------------------------------------------


def test_markdown_has_the_verdict_every_table_and_what_limits() -> None:
    text = sweep_markdown("e4", batches().status, texts_per_prompt={"chat": 4})
    assert text.startswith("## e4: Valid\n\nmeasured 3 of 3 variants; every row is valid\n")
    assert "| 80000 | chat/rate=inf | 1 | 20.6 | 82.4 | 82.4 | 25800 |" in text
    heads = "| variant | load point | figure | 10000 | its own | change | interval | word |"
    assert f"### Against 10000\n\n{heads}" in text
    assert "### Best\n" in text
    assert "### Pareto front\n" in text
    assert "- 160000 at chat/rate=inf: Throughput stays flat from 10000 to 160000" in text
    assert "compute is the limit" in text


def test_markdown_of_a_failed_variant_says_why() -> None:
    text = sweep_markdown("s", finished_sweep({"base": Measured(), "wide": None}).status)
    assert "- wide: OutOfGPUMemory in seqs-v2-r1: CUDA out of memory" in text


def test_strings_of_others_do_nothing() -> None:
    found = finished_sweep({"base": Measured(), "wide": None}).status
    hostile = found.model_copy(
        update={
            "message": HOSTILE,
            "baseline": HOSTILE,
            "variants": [each.model_copy(update={"message": HOSTILE}) for each in found.variants],
            "results": [each.model_copy(update={"variant": HOSTILE}) for each in found.results],
        }
    )
    text = sweep_markdown(HOSTILE, hostile)
    assert not any(live in text for live in ("x | y", "<script", "@all", "#7", "[a]", "http://"))
