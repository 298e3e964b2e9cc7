"""Configurations against datasets, and texts in all against texts a prompt, as people draw them by hand."""

import pytest
from benchrun.api import Result
from benchrun.report.sweep_rows import change_rows, configuration_change_rows, configuration_rows
from benchrun.report.tables import packing_rows
from unit.report.finished_sweeps import BATCHES, batches
from unit.report.html.reported_sweeps import CELLS, several
from unit.report.statuses import result, status


def test_configurations_stand_against_load_points_figure_by_figure() -> None:
    rows = configuration_rows(several().status)
    assert rows.headers == ("figure", "variant", *CELLS)
    of_ttft = {row[1]: row[2:] for row in rows.rows if row[0] == "TTFT"}
    measured = {(row.variant, row.cell): row.metrics["mean_ttft_ms"] for row in several().status.results if row.metrics}
    assert list(of_ttft) == ["baseline", "prefix-caching", "chunked-8192", "eager", "everything"]
    assert [float(cell) for cell in of_ttft["prefix-caching"]] == pytest.approx(
        [measured["prefix-caching", cell] for cell in CELLS], rel=0.01
    )


def test_changes_stand_beside_each_other_with_interval_and_word() -> None:
    found = several().status
    rows = configuration_change_rows(found)
    long = {(row[0], row[1], row[2]): row[5:] for row in change_rows(found).rows}
    faster = next(row for row in rows.rows if row[:2] == ("TTFT", "prefix-caching"))
    assert faster[2:] == tuple("{} ({}) {}".format(*long["prefix-caching", cell, "MeanTTFT"]) for cell in CELLS)
    assert faster[2].startswith("-")
    assert faster[2].endswith("Better")
    assert "baseline" not in {row[1] for row in rows.rows}


def test_one_load_point_has_nothing_to_stand_beside() -> None:
    assert configuration_rows(batches().status).rows == ()
    assert len(BATCHES) > 1


def packed(workload: str, prompts: int, total: float, output: float, *, rate: str = "inf") -> Result:
    metrics = {
        "total_token_throughput": total,
        "output_throughput": output,
        "request_throughput": 2.0,
        "completed": 2.0 * prompts,
    }
    return result(f"{workload}/rate={rate}", metrics=metrics | {"failed": 0.0}, repeats=2, repeats_planned=2)


def test_texts_in_all_stand_against_their_packing() -> None:
    """The table of the original: n texts in one prompt against n prompts of one text."""
    texts = {"all-400": 400, "all-40": 40, "single-400": 1, "single-40": 1, "packed-20": 20}
    found = status(
        packed("all-400", 1, 5058, 16.8), packed("single-400", 400, 21_300, 65.8), packed("all-40", 1, 11_443, 40.7),
        packed("single-40", 40, 22_262, 73.3), packed("single-40", 40, 9000, 30, rate="1"), packed("packed-20", 20, 7000, 20),
        packed("chat", 9, 1, 1),
    )  # fmt: skip
    rows = packing_rows(found, texts)
    assert rows.headers == ("texts in all", "figure", "all in one prompt", "one a prompt", "20 a prompt")
    assert rows.rows[:3] == (
        ("400", "total tok/s", "5060", "21300", "7000"),
        ("400", "tok/s", "16.8", "65.8", "20"),
        ("400", "texts/s", "800", "2", "40"),
    )
    assert rows.rows[3] == ("40", "total tok/s", "11400", "22300", "-")


def test_a_single_packing_is_no_comparison() -> None:
    assert packing_rows(status(packed("all", 1, 1, 1)), {"all": 4}).rows == ()
    assert packing_rows(status(packed("chat", 9, 1, 1)), {}).rows == ()
