"""What servers ran, kept waiting and found in their caches, variant by variant."""

import pytest
from benchrun.api import SHOWN_FIGURES, RoleFigures
from benchrun.api.sweep import essence
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.sweep.best import Side
from benchrun.judge.sweep.judged_sweep import server_figures, table
from benchrun.plan import planned_variants
from unit.judge.comparison.sides import LOAD_POINT, row, run
from unit.sweep.sweeps import sweep_spec, variant


def read(name: str, *, verdict: str = "Valid", **figures: float) -> MeasuredRun:
    """A run whose server said so; of no figures, one whose server was not read."""
    found = row(verdict=verdict)
    roles = [RoleFigures(role="server", **figures)] if figures else []
    measured = run(name, [found.model_copy(update={"roles": roles})])
    return MeasuredRun(name, measured.uid, measured.spec, essence(measured.status))


def side(*runs: MeasuredRun) -> Side:
    [made] = planned_variants(sweep_spec([variant("base")]))
    return Side(made, runs)


def test_means_over_the_runs_and_of_the_cache_the_most() -> None:
    first = read(
        "a",
        running_mean=33,
        waiting_mean=0,
        kv_cache_max_percent=9.4,
        prefix_hit_percent=46,
    )
    second = read(
        "b",
        running_mean=35,
        waiting_mean=2,
        kv_cache_max_percent=99,
        prefix_hit_percent=48,
    )
    assert server_figures(side(first, second), LOAD_POINT) == {
        "running_mean": 34,
        "waiting_mean": 1,
        "kv_cache_max_percent": 99,
        "prefix_hit_percent": 47,
    }


def test_a_figure_that_one_run_lacks_is_not_made_up_of_the_others() -> None:
    first = read("a", running_mean=33, kv_cache_max_percent=9.4)
    assert server_figures(side(first, read("b", running_mean=35)), LOAD_POINT) == {
        "running_mean": 34
    }
    assert server_figures(side(first, read("c")), LOAD_POINT) == {}


def test_a_run_that_is_left_out_does_not_count_here_either() -> None:
    trusted = read("a", waiting_mean=1.5)
    other = read("b", verdict="Invalid", waiting_mean=700)
    assert server_figures(side(trusted, other), LOAD_POINT) == {"waiting_mean": 1.5}


def test_the_table_has_them_beside_the_figures_of_the_client() -> None:
    one = side(
        read(
            "a",
            running_mean=12.345678,
            waiting_mean=0,
            kv_cache_max_percent=3,
            prefix_hit_percent=0,
        )
    )
    [found] = table(
        [one], baseline="base", planned=[LOAD_POINT], replications=1, missing={}
    ).results
    assert {
        name: found.metrics[name] for name in SHOWN_FIGURES if name in found.metrics
    } == {
        "running_mean": 12.346,
        "waiting_mean": 0,
        "kv_cache_max_percent": 3,
        "prefix_hit_percent": 0,
    }
    assert found.metrics["output_throughput"] == pytest.approx(1200)
