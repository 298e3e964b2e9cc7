"""What a million tokens cost in the table of a sweep: runs together, and who did best."""

import pytest
from benchrun.api import OUTPUT_COST, TOTAL_COST
from benchrun.api.sweep import essence
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.sweep.best import Side
from benchrun.judge.sweep.judged_sweep import costs, table
from benchrun.plan import planned_variants
from benchrun.report.sweep_rows import best_rows, front_rows, variant_rows
from unit.judge.comparison.sides import LOAD_POINT, row, run
from unit.plan.specs import spec_body
from unit.sweep.sweeps import (
    TWO,
    a_run,
    decided,
    ended,
    sweep_body,
    sweep_spec,
    variant,
)

NAMES = ("seqs-v1-r1", "seqs-v2-r1")


def one(name: str, **figures: float | None) -> MeasuredRun:
    """A run as memory keeps it, with these costs."""
    found = row()
    measured = run(
        name, [found.model_copy(update={"metrics": found.metrics | figures})]
    )
    return MeasuredRun(name, measured.uid, measured.spec, essence(measured.status))


def side(*runs: MeasuredRun) -> Side:
    [made] = planned_variants(sweep_spec([variant("base")]))
    return Side(made, runs)


def test_the_geometric_mean_of_the_runs() -> None:
    found = costs(
        side(one("a", **{OUTPUT_COST: 1.0}), one("b", **{OUTPUT_COST: 4.0})),
        LOAD_POINT,
    )
    assert found == {OUTPUT_COST: 2.0}


@pytest.mark.parametrize("other", [one("b"), one("b", **{OUTPUT_COST: None})])
def test_a_cost_that_one_run_lacks_is_not_made_up_of_the_others(
    other: MeasuredRun,
) -> None:
    assert costs(side(one("a", **{OUTPUT_COST: 1.0}), other), LOAD_POINT) == {}


def test_the_table_has_them_beside_the_throughput() -> None:
    priced = side(one("a", **{OUTPUT_COST: 0.51, TOTAL_COST: 0.06}))
    [found] = table(
        [priced], baseline="base", planned=[LOAD_POINT], replications=1, missing={}
    ).results
    assert (found.metrics[OUTPUT_COST], found.metrics[TOTAL_COST]) == (0.51, 0.06)


def test_a_sweep_with_a_price_tells_costs_in_every_table_where_throughput_per_gpu_stands() -> (
    None
):
    dear = one(
        NAMES[0], **{OUTPUT_COST: 0.5, TOTAL_COST: 0.06, "output_throughput": 600.0}
    )
    cheap = one(NAMES[1], **{OUTPUT_COST: 0.25, TOTAL_COST: 0.03})
    figures = {f"uid-of-{run.name}": run.status for run in (dear, cheap)}
    spec = sweep_body(
        TWO,
        template={**spec_body(), "cost": {"perGPUHour": "2.49", "currency": "EUR"}},
    )
    status = decided(
        spec, [a_run(name, status=ended()) for name in NAMES], figures=figures
    ).status
    assert status.currency == "EUR"
    shown = variant_rows(status)
    place = shown.headers.index("EUR/Mtok")
    assert [load_points[place] for load_points in shown.rows] == ["0.5", "0.25"]
    assert "EUR/total Mtok" not in shown.headers
    assert "EUR/total Mtok" in variant_rows(status, wide=True).headers
    for rows in (best_rows(status), front_rows(status)):
        assert [
            load_points[rows.headers.index("EUR/Mtok")] for load_points in rows.rows
        ] == ["0.25"], "that of the best, which is the second"


def test_a_sweep_without_a_price_has_no_such_column() -> None:
    status = decided(
        sweep_body(TWO), [a_run(name, status=ended()) for name in NAMES]
    ).status
    assert status.currency is None
    for rows in (
        variant_rows(status, wide=True),
        best_rows(status),
        front_rows(status),
    ):
        assert rows.rows
        assert not any("Mtok" in header for header in rows.headers)
