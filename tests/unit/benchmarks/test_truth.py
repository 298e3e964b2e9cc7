"""The truths that bench-truth holds the product against, and what it lets pass."""

import asyncio
import math
import time
from random import Random
from statistics import fmean
from typing import Any

import pytest
from benchrun.plan import cells
from truth import LIMITS, WORDS, _beyond
from truth_kit import doses, gates, product
from truth_kit.clean import CELLS_A_RUN, clean_runs
from truth_kit.doses import MISTAKES, Seen
from truth_kit.physical import delaying
from truth_kit.processes import free_port
from truth_kit.queues import LOADS, MG32, MM1, MM8, PERCENTS, percentile, simulated, stage

CLIENT = next(mistake for mistake in MISTAKES if mistake.cause == "client")
SERVER = next(mistake for mistake in MISTAKES if mistake.cause == "server")


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("percent", PERCENTS)
def test_one_exponential_server_keeps_exponential_times(load: float, percent: int) -> None:
    assert percentile(MM1, load, percent) == pytest.approx(-math.log(1 - percent / 100) / (1 - load))


@pytest.mark.parametrize(("queue", "load"), [(MM8, 0.5), (MM8, 0.8), (MG32, 0.5), (MG32, 0.8)])
def test_true_percentiles_are_those_of_a_long_simulation(queue: Any, load: float) -> None:
    found = simulated(queue, load, 60_000, seed=7)
    for percent in PERCENTS:
        assert found[percent] == pytest.approx(percentile(queue, load, percent), rel=0.06)


def test_a_stage_has_the_rate_and_the_mean_time_of_its_queue() -> None:
    requests = stage(MM1, 0.5, 20_000, Random(1))
    assert requests[-1].sent == pytest.approx(20_000 / 0.5)
    assert fmean(each.sojourn for each in requests) == pytest.approx(2.0, rel=0.1)


def test_a_simulated_stage_is_judged_as_a_measured_one() -> None:
    requests = stage(MM8, 0.5, 400, Random(2))
    row = product.judged_stage(requests, rate=4.0, limits=[(50, 1e-3), (50, 1e3)])
    assert row.verdict in ("Valid", "Suspect")
    assert [each.outcome for each in row.objectives] == ["Missed", "Met"]
    interval = product.interval_ms(row, 50)
    assert interval is not None
    assert interval[0] < 2000 * percentile(MM8, 0.5, 50) < interval[1]


def test_both_sides_differ_by_what_was_put_between_them() -> None:
    baseline, candidate = gates.Sides(200, 5, 0.6, 10.0).draw(Random(1))
    means = [
        fmean(run.status.results[0].metrics[key] or 0.0 for run in side)
        for key in ("output_throughput", "mean_ttft_ms")
        for side in (baseline, candidate)
    ]
    assert means[1] / means[0] == pytest.approx(0.9, rel=0.01)
    assert means[3] / means[2] == pytest.approx(1.1, rel=0.01)
    candidate = gates.Sides(200, 10, 0.6, 0.0, first_percent=10.0).draw(Random(1))[1]
    assert fmean(run.status.results[0].metrics["output_throughput"] or 0.0 for run in candidate) > 1300
    assert fmean(run.status.results[1].metrics["output_throughput"] or 0.0 for run in candidate) < 1220


def seen(harm: float, verdict: str, *blamed: doses.Cause, extra: tuple[str, ...] = ()) -> Seen:
    return Seen(harm, "mean_ttft_ms", verdict, frozenset(blamed), frozenset(extra))


@pytest.mark.parametrize(
    ("mistake", "cell", "named"),
    [
        (CLIENT, seen(20, "Suspect", "client"), "rightly"),
        (CLIENT, seen(20, "Suspect", "client", "path"), "wrongly"),
        (CLIENT, seen(20, "Suspect"), "nobody"),
        (CLIENT, seen(20, "Valid"), None),
        (CLIENT, seen(4, "Suspect", "path"), None),
        (SERVER, seen(20, "Invalid"), "rightly"),
        (SERVER, seen(20, "Invalid", "client"), "wrongly"),
    ],
)
def test_each_mistake_is_named(mistake: doses.Mistake, cell: Seen, named: str | None) -> None:
    assert cell.named(mistake) == named


def test_doses_in_a_few_figures() -> None:
    found = {
        (CLIENT.name, 0.5): [seen(4.9, "Valid"), seen(4.9, "Valid")],
        (CLIENT.name, 0.3): [seen(9, "Valid"), seen(9, "Suspect", "client")],
        (CLIENT.name, 0.1): [seen(50, "Invalid", "client"), seen(50, "Invalid", "path", extra=("PathSlow", "Drift"))],
    }
    tally = doses.tally(found, say=lambda _: None)
    assert (tally.harmful_unnoticed_percent, tally.harmful_unnoticed_mean_percent) == (50, 25)
    assert (tally.harmed, tally.extra_findings) == (4, 2)
    assert tally.named_rightly_percent == pytest.approx(100 * 2 / 3)


def test_every_mistake_has_five_doses_and_a_spec() -> None:
    for mistake in (*MISTAKES, *doses.REFERENCES):
        assert len(mistake.doses) in (1, 5)
        for dose in mistake.doses:
            assert len(cells(mistake.experiment(dose).spec("http://127.0.0.1:1"))) == mistake.cells
    assert len({mistake.experiment(dose).name for mistake in MISTAKES for dose in mistake.doses}) == 5 * len(MISTAKES)


def test_a_third_of_clean_runs_queue() -> None:
    runs = list(clean_runs(300))
    assert sum("queue" in run.name for run in runs) == len(runs) // 3
    assert sum(CELLS_A_RUN * run.repeats for run in runs) >= 300
    assert all(len(cells(run.spec("http://127.0.0.1:1"))) == CELLS_A_RUN for run in runs)


GOOD: dict[str, float | str | None] = {
    **{name: most for name, (_, most) in LIMITS.items()},
    **{name: words[0] for name, words in WORDS.items()},
}


@pytest.mark.parametrize(
    ("changed", "beyond"),
    [
        ({}, 0),
        ({"coverage_percent": 89.9}, 1),
        ({"false_met_percent": 5.1, "real_ab": "Mixed"}, 2),
        ({"power_told_error_points": None}, 1),
        ({"real_aa": "Equivalent"}, 0),
        ({"false_suspect": 1}, 1),
    ],
)
def test_values_beyond_the_limit_are_counted(changed: dict[str, float | str | None], beyond: int) -> None:
    assert len(list(_beyond(GOOD | changed))) == beyond


def test_parts_that_were_not_run_are_not_limited() -> None:
    assert list(_beyond({"coverage_percent": 95.0})) == []


async def test_a_delayed_way_adds_to_every_round_trip() -> None:
    target, port = free_port(), free_port()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(echo, "127.0.0.1", target), delaying(port, target, 30.0):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sent = time.monotonic()
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        assert time.monotonic() - sent >= 0.060
        writer.close()
        await writer.wait_closed()
