"""The truths that bench-truth holds the product against, and what it lets pass."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from types import SimpleNamespace
from typing import Any, cast

import pytest
from benchrun.api import Result
from benchrun.measure import Plateau, duration_seconds
from benchrun.plan import cells
from benchrun_client.contract import StageRecord
from truth import LIMITS, WORDS, _beyond, _blamed
from truth_kit import coverage, doses, gates, pairs, product, timing
from truth_kit.clean import CELLS_A_RUN, clean_runs
from truth_kit.doses import FAST, MISTAKES, SLOW, Seen
from truth_kit.lab import Experiment, Outcome
from truth_kit.machine import LONG_IN_ALL_SECONDS, LONG_STOP_SECONDS, LOST_SHARE, Machine
from truth_kit.mistakes import users
from truth_kit.physical import delaying
from truth_kit.processes import free_port
from truth_kit.queues import (
    CLOSED,
    LOADS,
    MG32,
    MM1,
    MM8,
    PERCENTS,
    closed_stage,
    percentile,
    simulated,
    stage,
)
from unit.measure.records import client, record, requests

CLIENT = next(mistake for mistake in MISTAKES if mistake.cause == "client")
PATH = next(mistake for mistake in MISTAKES if mistake.cause == "path")
SERVER = next(mistake for mistake in MISTAKES if mistake.cause == "server")


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("percent", PERCENTS)
def test_one_exponential_server_keeps_exponential_times(load: float, percent: int) -> None:
    assert percentile(MM1, load, percent) == pytest.approx(
        -math.log(1 - percent / 100) / (1 - load)
    )


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


@pytest.mark.parametrize("queue", CLOSED, ids=lambda queue: queue.name)
def test_users_see_the_percentiles_of_a_long_simulation(queue: Any) -> None:
    times = sorted(each.sojourn for each in closed_stage(queue, 40_000, Random(3))[2000:])
    for percent in PERCENTS:
        assert times[len(times) * percent // 100] == pytest.approx(
            percentile(queue, 1.0, percent), rel=0.05
        )


def test_users_are_all_under_way_and_judged_as_a_closed_loop() -> None:
    queue = CLOSED[0]
    requests = closed_stage(queue, 400, Random(2))
    assert [each.sent for each in requests[:17]].count(0.0) == queue.users == 16
    row = product.judged_stage(requests, users=queue.users, limits=[(50, 1e-3), (50, 1e3)])
    assert (row.axis, row.value) == ("concurrency", "16")
    assert [each.outcome for each in row.objectives] == ["Missed", "Met"]


def test_settings_with_few_intervals_are_counted_for_themselves() -> None:
    setting = coverage.Setting(0, 0.5, 400)
    words = {"stages": 100, "Met": 4, "Missed": 2}
    given = {50: (100, 96), 90: (10, 7), 95: (10, 9), 99: (0, 0)}
    tally = coverage.Tally(
        {(word, percent): n for word, n in words.items() for percent in PERCENTS}
    )
    for percent, (some, covered) in given.items():
        tally |= coverage.Tally({("given", percent): some, ("covered", percent): covered})
    found = coverage._shares({setting: tally})
    assert (found.coverage, found.sparse_worst, found.sparse_coverage) == (96, 70, 80)
    assert (found.sparse_settings, found.without_intervals) == (2, 1)
    assert (found.false_met, found.false_missed, found.intervals_given) == (4, 2, 30)


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
    assert (
        fmean(run.status.results[0].metrics["output_throughput"] or 0.0 for run in candidate) > 1300
    )
    assert (
        fmean(run.status.results[1].metrics["output_throughput"] or 0.0 for run in candidate) < 1220
    )


def seen(harm: float, verdict: str, *blamed: doses.Cause, **more: Any) -> Seen:
    return Seen(harm, "mean_ttft_ms", verdict, frozenset(blamed), **({"extra": frozenset()} | more))


@pytest.mark.parametrize(
    ("mistake", "cell", "named"),
    [
        (CLIENT, seen(20, "Suspect", "client"), "rightly"),
        (CLIENT, seen(20, "Suspect", "client", "path"), "wrongly"),
        (CLIENT, seen(20, "Suspect"), "nobody"),
        (CLIENT, seen(20, "Suspect", unknown=True), "wrongly"),
        (CLIENT, seen(20, "Valid"), None),
        (CLIENT, seen(4, "Suspect", "path"), None),
        (PATH, seen(20, "Suspect", unknown=True), "unknown"),
        (PATH, seen(20, "Suspect", "path", unknown=True), "rightly"),
        (SERVER, seen(20, "Invalid"), "rightly"),
        (SERVER, seen(20, "Invalid", "client"), "wrongly"),
    ],
)
def test_each_mistake_is_named(mistake: doses.Mistake, cell: Seen, named: str | None) -> None:
    assert cell.named(mistake) == named


def test_doses_in_a_few_figures() -> None:
    found = {
        (CLIENT.name, "slow", 0.5): [seen(4.9, "Valid"), seen(4.9, "Valid", bounded=True)],
        (CLIENT.name, "slow", 0.3): [seen(9, "Valid"), seen(9, "Suspect", "client")],
        (CLIENT.name, "fast", 0.1): [
            seen(50, "Invalid", "client", slowed=True),
            seen(50, "Invalid", "path", extra=frozenset({"PathSlow", "Drift"})),
        ],
        (PATH.name, "fast", 1.0): [
            seen(0, "Valid", floor_percent=13.0),
            seen(0, "Suspect", floor_percent=20.0),
        ],
        (PATH.name, "fast", 8.0): [seen(90, "Suspect", unknown=True), seen(90, "Suspect")],
        (SERVER.name, "slow", 1.0): [seen(9, "Invalid"), seen(9, "Invalid", "client")],
    }
    tally = doses.tally(found, say=lambda _: None)
    assert tally.harmful_unnoticed_percent == 50
    assert tally.harmful_unnoticed_mean_percent == pytest.approx(100 / 8)
    assert (tally.harmed, tally.p99_bounded, tally.extra_findings) == (8, 1, 2)
    assert (tally.within_floor, tally.within_floor_unnoticed) == (2, 1)
    assert tally.p99_bounded_or_slowed == 2
    assert tally.named == 5
    shares = tally.named_rightly_percent, tally.named_unknown_percent, tally.nobody_named_percent
    assert shares == (50, 20, 20)
    assert tally.server_blames_others_percent == 50


def row(**figures: float) -> Result:
    steady = {"request_throughput": 60.0, "output_throughput": 480.0}
    values = {"metrics": {"mean_ttft_ms": 16.5, "output_throughput": 400.0}, "steady": steady}
    values["metrics"] |= figures
    same = {
        "cell": "w0/rate=60",
        "workload": "w0",
        "axis": "rate",
        "value": "60",
        "repeats": 1,
        "repeatsPlanned": 1,
    }
    return Result.model_validate({**same, **values, "throughputOf": "Arrivals", "verdict": "Valid"})


@pytest.mark.parametrize(
    ("figures", "harm", "floor"),
    [
        ({}, 0.0, 10.0),
        ({"mean_ttft_ms": 15.9}, 0.0, 0.0),
        ({"mean_ttft_ms": 21.0}, 40.0, 0.0),
        ({"p99_ttft_ms": 23.0, "mean_ttft_ms": 15.0}, 53.3, 0.0),
    ],
)
def test_harm_is_that_of_the_plateau_and_what_the_rules_let_pass_is_told_apart(
    figures: dict[str, float], harm: float, floor: float
) -> None:
    truth = doses.Truth(
        {"output_throughput": 1.0, "mean_ttft_ms": 15.0, "p99_ttft_ms": 15.0},
        {"w0/rate=60": 480.0, "w1/rate=60": 1.0},
    )
    outcome = SimpleNamespace(
        judged=SimpleNamespace(findings=[], results=[row(**figures)]), records=()
    )
    (found,) = doses.seen(PATH, cast("Any", outcome), truth, lambda _: False)
    assert (round(found.harm_percent, 1), round(found.floor_percent, 1)) == (harm, floor)


def test_tokens_between_the_edges_of_a_plateau_are_counted() -> None:
    lines = [
        {"first_sent_at": 10.5, "gaps_us": [500_000, 500_000]},  # 10.5, 11.0, 11.5
        {"first_sent_at": 11.9, "gaps_us": [200_000]},  # 11.9, 12.1
    ]
    where = Plateau(start_us=1_000_000, end_us=2_000_000, started=())
    assert timing._steady(lines, 10.0, where) == 2.0


def test_halves_of_a_block_share_half_of_each_side() -> None:
    found = [(set(first), set(second)) for first, second in pairs.halves()]
    assert len(found) == 7
    for number, (first, second) in enumerate(found):
        assert (len(first), len(second), first & second) == (4, 4, set())
        assert all(len(first & other) == len(second & other) == 2 for other, _ in found[:number])


def test_servers_are_halved_block_by_block() -> None:
    def outcome(tokens: float) -> Any:
        run = product.server_run(
            "s", [{"OutputThroughput": tokens, "MeanTTFT": 1e5 / tokens, "MeanTPOT": 1e4 / tokens}]
        )
        return SimpleNamespace(spec=run.spec, judged=SimpleNamespace(results=run.status.results))

    noise = (0.0, 0.3, -0.2, 0.1, 0.2, -0.3, 0.1, -0.1)
    equal = [outcome(1000 + each) for each in noise]
    late = [outcome((1000 if number < 4 else 1200) + each) for number, each in enumerate(noise)]
    words = pairs.words_of_halves([*equal, *late])
    assert len(words) == 14
    # Of the second block the last four servers are faster, and only one halving has them on one
    # side.
    assert [
        number for number, word in enumerate(words) if word in ("Better", "Worse", "Mixed")
    ] == [7 + 3]


def test_every_mistake_has_five_doses_and_a_spec() -> None:
    names = []
    for mistake in (*MISTAKES, *doses.REFERENCES):
        assert len(mistake.doses) in (1, 5)
        for place, dose in mistake.tried:
            experiment = mistake.experiment(place, dose)
            names.append(experiment.name)
            assert len(cells(experiment.spec("http://127.0.0.1:1"))) == mistake.cells
    assert len(set(names)) == len(names)


def test_client_path_and_front_end_have_doses_at_the_fast_server() -> None:
    assert all(len(mistake.fast) >= 2 for mistake in MISTAKES if mistake.cause not in ("server",))
    assert float(FAST.rate) * FAST.seconds > 369 > float(SLOW.rate) * SLOW.seconds, (
        "a p99 takes 369 at least"
    )


def test_doses_send_what_the_references_send() -> None:
    loads = {
        (
            place.name,
            mistake.prompt_tokens,
            tuple(map(str, experiment.workloads[:1])),
            experiment.traffic,
        )
        for mistake in (*MISTAKES, *doses.REFERENCES)
        for place, dose in mistake.tried
        for experiment in [mistake.experiment(place, dose)]
    }
    assert len(loads) == 3
    assert {traffic for *_, traffic in loads} == {"doses"}


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
def test_values_beyond_the_limit_are_counted(
    changed: dict[str, float | str | None], beyond: int
) -> None:
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


@pytest.mark.parametrize(
    ("stolen", "counts"),
    [(0.0, True), (LONG_IN_ALL_SECONDS - 0.01, True), (LONG_IN_ALL_SECONDS, False)],
)
def test_a_stage_of_which_the_host_took_much_does_not_count(stolen: float, counts: bool) -> None:
    assert Machine([]).disturbed(record(client=client(stolen_seconds=stolen))) is not counts


def test_a_stage_that_met_a_long_stop_or_many_does_not_count(tmp_path: Path) -> None:
    of, log = record(), tmp_path / "core-0"
    began, ended = of.first_send_unix_us / 1e6, of.first_send_unix_us / 1e6 + duration_seconds(of)

    def disturbed(*stops: tuple[float, float]) -> bool:
        spans = ",".join(f"{begin:.4f}-{begin + length:.4f}" for begin, length in stops)
        log.write_text(f"{ended + 0.8:.3f} 0.001 0.3 0 . {spans}\n")
        return Machine([log]).disturbed(of)

    assert disturbed((began, LONG_STOP_SECONDS + 0.001))
    assert not disturbed((began, LONG_STOP_SECONDS - 0.001))
    assert disturbed(*((began, LONG_STOP_SECONDS - 0.001) for _ in range(4))), "in all it is long"
    assert not disturbed((began - 9, 8.0), (ended + 0.5, 0.3)), "before it, and after it"


def test_how_fast_the_cores_were_is_read_from_the_time_of_the_stage(tmp_path: Path) -> None:
    of, log = record(), tmp_path / "core-0"
    began = of.first_send_unix_us / 1e6
    rows = ((began - 1, 9), (began, 0.00003), (began + 0.001, 0.00005), (began + 1e6, 9))
    log.write_text("".join(f"{at:.3f} {usual:.9f} 0.3 0 . .\n" for at, usual in rows))
    assert Machine([log]).work_seconds(of) == pytest.approx(0.00004)
    assert not Machine([log]).disturbed(of)
    assert Machine([]).work_seconds(of) is None


def test_a_stage_is_slowed_in_which_the_cores_lost_much_that_no_kernel_tells(
    tmp_path: Path,
) -> None:
    of = record()
    began, lost = of.first_send_unix_us / 1e6, 1.5 * LOST_SHARE * 0.3
    logs = [tmp_path / "core-0", tmp_path / "core-1"]
    for log, seconds in zip(logs, (lost, 0.0), strict=True):
        log.write_text(f"{began:.3f} 0.00005 0.3 {seconds:.9f} . .\n")
    assert Machine(logs[:1]).slowed(of)
    assert not Machine(logs).slowed(of), "of both cores it is less"
    assert not Machine(logs[:1]).disturbed(of)
    assert not Machine([]).slowed(of)


SIX: Mapping[str, Any] = {
    "ttft_us": (20_000,) * 6, "e2el_us": (120_000,) * 6, "output_tokens": (11,) * 6,
    "start_us": tuple(1_000_000 * number for number in range(6)),
}  # fmt: skip
"""A request a second."""


def lines_of(of: StageRecord, late_seconds: Mapping[int, float]) -> tuple[Mapping[str, Any], ...]:
    """The server's log, last request first, if the client was so late at these requests' first
    tokens."""
    began, columns = of.first_send_unix_us / 1e6 - (time.time() - time.monotonic()), of.requests
    rows = zip(columns.start_us, columns.ttft_us, columns.e2el_us, strict=True)
    lines = [
        {
            "arrived_at": began + start_us / 1e6,
            "first_sent_at": began + (start_us + ttft_us) / 1e6 - late_seconds.get(number, 0.0),
            "last_sent_at": began + (start_us + e2el_us) / 1e6,
            "output_tokens": 11,
            "gaps_us": [10_000] * 10,
        }
        for number, (start_us, ttft_us, e2el_us) in enumerate(rows)
    ]
    return tuple(reversed(lines))


def test_requests_that_met_a_slow_core_are_left_out_of_the_timings(tmp_path: Path) -> None:
    of = record("chat/concurrency=2/r1", requests=requests(**SIX))
    began = of.first_send_unix_us / 1e6
    log = tmp_path / "core-0"
    # What a slow core did is told after the stage; a stop between two requests harms none.
    told = began + duration_seconds(of) + 0.9
    slow, stop = (
        f"{began + 1.100:.4f}-{began + 1.115:.4f}",
        f"{began + 2.5:.4f}-{began + 2.504:.4f}",
    )
    log.write_text(f"{told:.3f} 0.00005 0.3 0.01 {slow} {stop}\n")
    machine = Machine([log])
    assert timing.undisturbed(of, machine.slow(of)) == [True, False, True, True, True, True]
    assert all(timing.undisturbed(of, ()))
    spec = Experiment(name="late", workloads=[users(2, 6)]).spec("http://127.0.0.1:1")
    outcome = Outcome(spec, (of,), (), (), lines_of(of, {1: 0.012}), 0.0)

    def mean_ttft(slow: timing.Slow) -> Sequence[tuple[float, float]]:
        found = timing.errors(outcome, slow=slow)
        return [(round(e.truth, 3), round(e.measured, 3)) for e in found if e.figure == "mean ttft"]

    assert mean_ttft(lambda _: ()) == [(18.0, 20.0)]
    assert mean_ttft(machine.slow) == [(20.0, 20.0)]
    assert mean_ttft(lambda _: [(began, began + 1.1)]) == [], "of four requests nothing is told"


def test_a_late_client_is_excused_only_where_the_host_slowed_the_cores() -> None:
    other = Result.model_validate(
        {**row().model_dump(by_alias=True), "findings": ["ClientSaturated", "PathSlow"]}
    )
    alone = Result.model_validate(
        {**row().model_dump(by_alias=True), "findings": ["ClientSaturated"]}
    )
    truth = doses.Truth({"output_throughput": 480.0, "mean_ttft_ms": 10.0}, {})
    severe = [
        SimpleNamespace(code=code, severity="Suspect") for code in ("ClientSaturated", "PathSlow")
    ]

    def blamed(
        mistake: doses.Mistake, of: Result, *, slowed: bool
    ) -> tuple[set[str], set[str], bool]:
        judged = SimpleNamespace(findings=severe, results=[of])
        outcome = SimpleNamespace(judged=judged, records=[record(f"{of.cell}/r1")])
        (found,) = doses.seen(mistake, cast("Any", outcome), truth, lambda _: slowed)
        return set(found.blamed), set(found.extra), found.slowed

    assert blamed(PATH, other, slowed=False) == ({"client", "path"}, {"ClientSaturated"}, False)
    assert blamed(PATH, other, slowed=True) == ({"path"}, set(), True)
    assert blamed(PATH, alone, slowed=True) == ({"client"}, {"ClientSaturated"}, True)
    assert blamed(CLIENT, other, slowed=True) == ({"client", "path"}, {"PathSlow"}, True)


def test_in_clean_stages_only_a_late_client_is_excused_by_a_slow_host() -> None:
    def outcome(codes: Mapping[str, Sequence[str]]) -> Any:
        """Findings of each stage."""
        found = [
            SimpleNamespace(code=code, severity="Suspect", worst_stage=stage, count=1, evidence={})
            for stage, of in codes.items()
            for code in of
        ]

        def only(kept: Any) -> Any:
            return outcome({stage: of for stage, of in codes.items() if kept(stage)})

        return SimpleNamespace(
            records=list(codes), judged=SimpleNamespace(findings=found), only=only
        )

    clean = [outcome({"a": ["ClientSaturated"], "b": ["ClientSaturated", "Drift"]})]
    for slowed, blamed in (("", 3), ("b", 2), ("ab", 1)):
        slow = set(slowed)
        assert sum(_blamed(clean, "Suspect", slow.__contains__)) == blamed
    assert sum(_blamed(clean, "Invalid", lambda _: False)) == 0


def test_what_is_forgiven_of_a_request_follows_the_speed_of_the_cores() -> None:
    """Alone, a client measures 2 ms more than the server, at 40 ms of work."""
    of = record("chat/concurrency=2/r1", requests=requests(**SIX))
    lines = lines_of(of, dict.fromkeys(range(6), 0.002))
    spec = Experiment(name="alone", workloads=[users(2, 6)]).spec("http://127.0.0.1:1")
    works = {id(of): 0.040}
    alone, slowed = Outcome(spec, (of,), (), (), lines, 0.0), set[int]()
    forgiven = timing.forgiven_ms(
        alone, lambda stage: works.get(id(stage)), slowed=lambda stage: id(stage) in slowed
    )
    slow, fast, unknown = record(), record(), record()
    works |= {id(slow): 0.060, id(fast): 0.010}
    assert [forgiven(each)["ttft"] for each in (of, slow, fast, unknown)] == pytest.approx(
        [3.0, 4.5, 1.0, 1.0], rel=0.01
    )
    assert forgiven(slow) == {
        **timing.FORGIVEN_MS,
        "ttft": forgiven(slow)["ttft"],
        "e2el": forgiven(slow)["ttft"],
    }
    slowed.add(id(slow))
    assert forgiven(slow)["ttft"] == pytest.approx(6.0, rel=0.01)
