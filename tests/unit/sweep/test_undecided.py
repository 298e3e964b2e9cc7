"""Who would be better if it were decided, what that takes, and sweeps of servers without GPUs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.api import PER_GPU, THROUGHPUTS, Objective, Result
from benchrun.api.sweep import (
    MAX_UNDECIDED,
    BenchmarkSweepStatus,
    BestVariant,
    SweepTable,
    UndecidedVariant,
    essence,
)
from benchrun.judge.sweep.best import Side, best_variants, contenders
from benchrun.judge.sweep.judged_sweep import fitted
from benchrun.plan import planned_variants
from unit.golden_messages import golden
from unit.judge.comparison.sides import LOAD_POINT, row, run
from unit.plan.specs import Json, spec_body
from unit.sweep.sweeps import a_run, decided, ended, sweep_body, sweep_spec, variant

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "sweep-simulator.yaml"
TTFT = Objective(metric="TTFT", percentile="99", max_milliseconds=500)
TPOT = Objective(metric="TPOT", percentile="99", max_milliseconds=20)
NEITHER = "Inconclusive"


def meeting(
    outcome: str,
    tokens: float,
    *,
    requests: int | None = None,
    load_point: str = LOAD_POINT,
    tpot: str | None = None,
    **fields: Any,
) -> Result:
    """A row of so many tokens a second, with the outcome of TTFT, and of TPOT where it is given."""
    outcomes = [("TTFT", 500, 468.25, outcome)]
    outcomes += [("TPOT", 20, 19.5, tpot)] if tpot is not None else []
    objectives = [
        {
            "metric": metric,
            "percentile": "99",
            "maxMilliseconds": limit,
            "measuredMilliseconds": measured,
            "outcome": word,
            "price": {"requests": requests}
            if word == NEITHER and requests
            else None,
        }
        for metric, limit, measured, word in outcomes
    ]
    found = row(load_point, repeats=5, cv=1.0, OutputThroughput=tokens)
    return Result.model_validate(
        found.model_dump() | {"objectives": objectives} | fields
    )


def best_of(
    given: Mapping[str, Sequence[Result]],
    *objectives: Objective,
    load_points: Sequence[str] = (LOAD_POINT,),
    **settings: Mapping[str, Any],
) -> dict[str, BestVariant]:
    """By objective. Each row is a run of its own."""
    spec = sweep_spec([variant(name, **settings.get(name, {})) for name in given])
    sides = [
        Side(
            each,
            tuple(
                run(f"{each.name}{n}", [r]) for n, r in enumerate(given[each.name])
            ),
        )
        for each in planned_variants(spec)
    ]
    found = best_variants(contenders(sides, load_points), objectives or [TTFT])
    return {each.objective.partition(" p99")[0]: each for each in found}


def told(best: BestVariant) -> list[tuple[str, float, int | None]]:
    return [
        (each.variant, each.throughput, each.price.requests if each.price else None)
        for each in best.undecided
    ]


# ---- undecided
# ----------------------------------------------------------------------------------------------------------


def test_the_better_variant_that_is_not_decided_stands_beside_the_best() -> None:
    found = best_of(
        {
            "base": [meeting("Met", 343.0)],
            "half": [meeting("Met", 686.0)],
            "all": [meeting(NEITHER, 1370.0, requests=2400)],
            "missed": [meeting("Missed", 2000.0)],
            "less": [meeting(NEITHER, 600.0, requests=100)],
        }
    )
    assert (found["TTFT"].variant, found["TTFT"].throughput) == ("half", 686)
    assert told(found["TTFT"]) == [("all", 1370, 2400)]
    assert found["TTFT"].undecided[0].load_point == LOAD_POINT
    assert found["TTFT"].undecided[0].throughput_per_gpu == 1370
    assert (found["throughput"].variant, found["throughput"].undecided) == (
        "missed",
        [],
    )
    golden(found["TTFT"].undecided[0].why, found["TTFT"].undecided_text)


def test_where_none_is_certain_the_entry_has_no_variant_and_lists_all() -> None:
    found = best_of(
        {
            "base": [meeting(NEITHER, 343.0)],
            "wide": [meeting(NEITHER, 686.0, requests=900)],
        }
    )
    best = found["TTFT"]
    assert (
        best.variant,
        best.load_point,
        best.throughput,
        best.throughput_per_gpu,
    ) == (None,) * 4
    assert told(best) == [("wide", 686, 900), ("base", 343, None)]
    golden(best.undecided_text)


def test_where_all_missed_there_is_no_entry() -> None:
    assert list(best_of({"base": [meeting("Missed", 343.0)]})) == ["throughput"]


@pytest.mark.parametrize(
    ("runs", "requests"),
    [
        pytest.param(
            [("Met", None), (NEITHER, 900)],
            900,
            id="of the run that is not certain",
        ),
        pytest.param(
            [(NEITHER, 900), (NEITHER, 1600)], 1600, id="the most that a run needs"
        ),
        pytest.param(
            [(NEITHER, 900), (NEITHER, None)], None, id="not known of one"
        ),
    ],
)
def test_what_it_takes_is_what_every_run_needs(
    runs: list[tuple[str, int | None]], requests: int | None
) -> None:
    rows = [meeting(outcome, 1370.0, requests=each) for outcome, each in runs]
    best = best_of({"base": [meeting("Met", 343.0)] * 2, "wide": rows})["TTFT"]
    assert told(best) == [("wide", 1370, requests)]
    golden(best.undecided[0].why)


def test_one_run_that_missed_decides_it() -> None:
    rows = [meeting(NEITHER, 1370.0), meeting("Missed", 1370.0)]
    assert (
        best_of({"base": [meeting("Met", 343.0)], "wide": rows})["TTFT"].undecided
        == []
    )


def test_of_several_objectives_only_what_is_open_counts() -> None:
    wide = meeting("Met", 1370.0, tpot=NEITHER, requests=700)
    late = meeting("Missed", 2000.0, tpot=NEITHER)
    found = best_of(
        {
            "base": [meeting("Met", 343.0, tpot="Met")],
            "wide": [wide],
            "late": [late],
        },
        TTFT,
        TPOT,
    )
    assert (found["TTFT"].variant, found["TTFT"].undecided) == ("wide", [])
    assert [each.variant for each in found["TPOT"].undecided] == ["late", "wide"]
    assert found["every objective"].variant == "base"
    assert told(found["every objective"]) == [("wide", 1370, 700)]
    golden(found["every objective"].undecided[0].why)


def test_a_higher_load_point_of_the_best_itself_may_be_better() -> None:
    load_points = [
        "chat/concurrency=8",
        "chat/concurrency=16",
        "chat/concurrency=32",
    ]
    outcomes = (("Met", 300.0), (NEITHER, 500.0), (NEITHER, 400.0))
    rows = [
        meeting(outcome, tokens, load_point=load_point)
        for load_point, (outcome, tokens) in zip(load_points, outcomes, strict=True)
    ]
    best = best_of({"base": rows}, load_points=load_points)["TTFT"]
    assert (best.variant, best.load_point) == ("base", load_points[0])
    assert [(each.variant, each.load_point) for each in best.undecided] == [
        ("base", load_points[1])
    ]


def test_the_same_arrivals_are_not_better() -> None:
    steady = dict.fromkeys(THROUGHPUTS, 1000.0)
    luck = dict.fromkeys(THROUGHPUTS, 1004.0)
    found = best_of(
        {
            "base": [
                meeting("Met", 900.0, throughput_of="Arrivals", steady=steady)
            ],
            "luck": [
                meeting(NEITHER, 900.0, throughput_of="Arrivals", steady=luck)
            ],
        }
    )
    assert (found["TTFT"].variant, found["TTFT"].undecided) == ("base", [])


@pytest.mark.parametrize("outcome", [NEITHER, "Met"])
def test_an_invalid_load_point_is_named_with_its_reason(outcome: str) -> None:
    invalid = meeting(
        outcome, 9e6, requests=5, verdict="Invalid", findings=["ServerRestarted"]
    )
    found = best_of({"base": [meeting("Met", 343.0)], "wide": [invalid, invalid]})
    for best in found.values():
        assert (best.variant, told(best)) == ("base", [("wide", 9e6, None)])
        assert "Invalid" in best.undecided[0].why
        assert "ServerRestarted" in best.undecided[0].why
    golden(found["TTFT"].undecided_text)


def test_where_every_load_point_is_invalid_none_is_certain() -> None:
    best = best_of({"base": [meeting(NEITHER, 343.0, verdict="Invalid")]})[
        "throughput"
    ]
    assert (best.variant, told(best)) == (None, [("base", 343, None)])


def test_an_outcome_that_was_cut_from_the_status_of_a_run_is_not_known() -> None:
    cut = meeting(NEITHER, 1370.0).model_copy(update={"objectives": []})
    best = best_of({"base": [meeting("Met", 343.0)], "wide": [cut]})["TTFT"]
    assert told(best) == [("wide", 1370, None)]
    golden(best.undecided[0].why)


def test_a_latency_that_was_not_measured_is_not_known() -> None:
    without = meeting(NEITHER, 1370.0)
    bare = [
        each.model_copy(update={"measured_milliseconds": None})
        for each in without.objectives
    ]
    rows = [without.model_copy(update={"objectives": bare})]
    golden(best_of({"wide": rows})["TTFT"].undecided[0].why)


def test_the_list_is_bounded_and_the_others_are_counted() -> None:
    given = {
        f"v{n}": [meeting(NEITHER, 1000.0 + n)] for n in range(MAX_UNDECIDED + 3)
    }
    best = best_of(given)["TTFT"]
    assert [each.variant for each in best.undecided] == [
        f"v{n}" for n in range(10, 2, -1)
    ]
    assert best.more_undecided == 3
    golden(best.undecided_text)


def test_what_does_not_fit_into_the_status_is_counted() -> None:
    """First the highest of each stays, then none."""
    each = UndecidedVariant(
        variant="v" * 200, load_point="c" * 100, throughput=1.0, why="w" * 200
    )
    best = BestVariant(
        workload="w", objective="o", undecided=[each] * 4, more_undecided=2
    )
    whole = SweepTable(best=[best] * 10)
    for max_bytes, kept, truncated in (
        (30_000, 4, []),
        (10_000, 1, [40, 10]),
        (2000, 0, [40, 0]),
    ):
        found = fitted(whole, max_bytes=max_bytes)
        assert [(len(b.undecided), b.more_undecided) for b in found.best] == [
            (kept, 6 - kept)
        ] * 10
        assert [
            n
            for t in found.truncated
            if t.field == "best[].undecided"
            for n in (t.total, t.included)
        ] == truncated


# ---- the example
# --------------------------------------------------------------------------------------------------------

POINT = "users/concurrency=16"
FIGURES = {
    "4": (343.0, 9.9971, 850.0),
    "8": (686.0, 9.9994, 290.0),
    "16": (1370.0, 10.0, 51.0),
}


def example(outcomes: Mapping[str, str], **server: Any) -> BenchmarkSweepStatus:
    """The sweep of the example after its runs, with these outcomes of its objective."""
    spec: Json = yaml.safe_load(EXAMPLE.read_text())["spec"]
    spec["template"]["server"] |= server
    runs = []
    figures = {}
    for number, (name, (tokens, tpot, ttft)) in enumerate(FIGURES.items(), start=1):
        for replication, by in enumerate((0.999, 1.001), start=1):
            objective = {
                "metric": "TTFT",
                "percentile": "95",
                "maxMilliseconds": 500,
                "measuredMilliseconds": ttft,
                "outcome": outcomes[name],
                "price": {"requests": 2400} if outcomes[name] == NEITHER else None,
            }
            found = row(POINT, OutputThroughput=tokens * by, MeanTPOT=tpot * by)
            measured = Result.model_validate(
                found.model_dump() | {"objectives": [objective]}
            )
            one = a_run(f"seqs-v{number}-r{replication}", status=ended())
            runs.append(one)
            figures[one.uid] = essence(
                run(one.name, [measured], server={"gpus": 0}).status
            )
    return decided(spec, runs, figures=figures).status


DECIDED = {"4": "Missed", "8": "Met", "16": "Met"}


def test_the_example_names_the_variant_that_lets_nobody_wait_and_has_a_front_of_one_point() -> (
    None
):
    status = example(DECIDED)
    assert [
        (each.objective, each.variant, each.tied_with) for each in status.best
    ] == [
        ("throughput", "seqs=16", []),
        ("TTFT p95 <= 500 ms", "seqs=16", []),
    ]
    assert [(each.variant, each.mean_tpot_ms) for each in status.front] == [
        ("seqs=16", 10.0)
    ]
    assert not any(each.undecided for each in status.best)
    golden(status.message)


def test_a_variant_of_the_example_that_is_not_decided_is_in_the_message() -> None:
    status = example(DECIDED | {"16": NEITHER})
    [by_throughput, by_ttft] = status.best
    assert (by_throughput.variant, by_ttft.variant) == ("seqs=16", "seqs=8")
    assert [
        (each.variant, each.price.requests if each.price else None)
        for each in by_ttft.undecided
    ] == [("seqs=16", 2400)]
    golden(status.message)


def test_what_nobody_decided_is_in_the_message_too() -> None:
    status = example(dict.fromkeys(FIGURES, NEITHER))
    assert [each.variant for each in status.best] == ["seqs=16", None]
    assert len(status.best[1].undecided) == 3
    golden(status.message)


# ---- without GPUs
# -------------------------------------------------------------------------------------------------------

WITHOUT = {"resources": {"limits": {"nvidia.com/gpu": 0}}}


def test_without_gpus_no_figure_is_per_gpu() -> None:
    status = example(DECIDED | {"16": NEITHER})
    assert "perGPU" not in status.model_dump_json(by_alias=True, exclude_none=True)
    assert [
        (each.throughput, each.throughput_per_gpu) for each in status.front
    ] == [(1370, None)]
    assert not any(PER_GPU in each.metrics for each in status.results)


def test_with_gpus_both_figures_are_there() -> None:
    status = example(DECIDED, resources={"limits": {"nvidia.com/gpu": 4}})
    [best, _] = status.best
    [point] = status.front
    assert (best.throughput, best.throughput_per_gpu) == (1370, 342.5)
    assert (point.throughput, point.throughput_per_gpu) == (1370, 342.5)
    assert [each.metrics[PER_GPU] for each in status.results] == [
        85.75,
        171.5,
        342.5,
    ]


def test_variants_with_and_without_gpus_are_compared_by_server() -> None:
    """Twice the throughput on four GPUs is less per GPU, and more by server."""
    rows = {"base": [meeting("Met", 1000.0)], "four": [meeting("Met", 2000.0)]}
    four = {"resources": {"limits": {"nvidia.com/gpu": 4}}}
    assert best_of(rows, four=four)["TTFT"].variant == "base"
    mixed = best_of(rows, base=WITHOUT, four=four)["TTFT"]
    assert (mixed.variant, mixed.throughput, mixed.throughput_per_gpu) == (
        "four",
        2000,
        None,
    )


def test_a_status_of_the_version_before_is_read() -> None:
    best = {
        "workload": "w",
        "objective": "throughput",
        "variant": "v",
        "loadPoint": "w/rate=1",
        "throughputPerGPU": 5.0,
        "tiedWith": [],
    }
    point = {
        key: best[key]
        for key in ("workload", "variant", "loadPoint", "throughputPerGPU")
    }
    status = BenchmarkSweepStatus.model_validate(
        {"best": [best], "front": [point | {"meanTPOTMs": 1.0, "isDistinct": True}]}
    )
    assert (status.best[0].throughput_per_gpu, status.best[0].throughput) == (
        5.0,
        None,
    )
    assert (status.front[0].throughput_per_gpu, status.best[0].undecided) == (
        5.0,
        [],
    )


def test_a_spec_of_a_sweep_without_gpus_is_that_of_its_variants() -> None:
    """The template has a GPU; a variant without one makes all figures those of servers."""
    spec = sweep_body(
        [variant("base"), variant("cpu", **WITHOUT)], template=spec_body()
    )
    runs = [a_run(f"seqs-v{n}-r1", status=ended()) for n in (1, 2)]
    status = decided(spec, runs).status
    assert [each.gpus for each in status.variants] == [1, 0]
    assert [(each.throughput, each.throughput_per_gpu) for each in status.best] == [
        (1200, None)
    ]
