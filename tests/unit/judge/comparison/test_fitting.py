"""A comparison keeps to its share of the status: what got worse stays."""

from benchrun.api import ComparedCell, ComparedMetric
from benchrun.judge.status_size import MAX_COMPARISON_BYTES, fitted_cells
from unit.judge.comparison.sides import TYPICAL, compared, row, run

METRICS: tuple[ComparedMetric, ...] = tuple(TYPICAL)


def cells(count: int, *, ttft: float = 60.0) -> list[ComparedCell]:
    ids = [f"chat/rate={n}" for n in range(1, count + 1)]
    before, after = (
        run(name, [row(cell, repeats=5, cv=1, MeanTTFT=value) for cell in ids])
        for name, value in (("a", 43.0), ("b", ttft))
    )
    return compared(before, after, *METRICS).cells


def size(kept: list[ComparedCell]) -> int:
    return sum(len(cell.model_dump_json(by_alias=True, exclude_none=True)) for cell in kept)


def test_a_small_one_is_whole() -> None:
    whole = cells(4)
    assert fitted_cells(whole) == (whole, [])


def test_a_large_comparison_keeps_regressions_and_reports_omissions() -> None:
    kept, notes = fitted_cells(cells(64))
    assert size(kept) <= MAX_COMPARISON_BYTES
    assert {change.word for cell in kept for change in cell.changes} == {"Worse"}
    assert [(note.field, note.total, note.included) for note in notes] == [("comparison.cells[].changes", 448, 64)]


def test_load_points_go_last() -> None:
    kept, notes = fitted_cells(cells(8), max_bytes=400)
    assert 0 < len(kept) < 8
    assert size(kept) <= 400
    assert [note.field for note in notes] == ["comparison.cells", "comparison.cells[].changes"]
