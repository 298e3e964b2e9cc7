"""The truths that bench-truth holds the product against, and what it lets pass."""

import asyncio
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from benchrun.api import Result
from benchrun.plan import load_points
from truth import LIMITS, WORDS, _beyond
from truth_kit import (
    batching,
    certainty,
    doses,
    gates,
    paired,
    pairs,
    product,
    steady,
    timing,
)
from truth_kit.clean import LOAD_POINTS_A_RUN, clean_runs, clean_stages
from truth_kit.doses import MISTAKES, Seen
from truth_kit.lab import Experiment, Outcome
from truth_kit.mistakes import users
from truth_kit.physical import delaying, run_ahead
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
from unit.measure.records import record, requests

CLIENT = next(mistake for mistake in MISTAKES if mistake.cause == "client")
PATH = next(mistake for mistake in MISTAKES if mistake.cause == "path")
SERVER = next(mistake for mistake in MISTAKES if mistake.cause == "server")


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("percent", PERCENTS)
def test_one_exponential_server_keeps_exponential_times(
    load: float, percent: int
) -> None:
    assert percentile(MM1, load, percent) == pytest.approx(
        -math.log(1 - percent / 100) / (1 - load)
    )


@pytest.mark.parametrize(
    ("queue", "load"), [(MM8, 0.5), (MM8, 0.8), (MG32, 0.5), (MG32, 0.8)]
)
def test_true_percentiles_are_those_of_a_long_simulation(
    queue: Any, load: float
) -> None:
    found = simulated(queue, load, 60_000, seed=7)
    for percent in PERCENTS:
        assert found[percent] == pytest.approx(
            percentile(queue, load, percent), rel=0.06
        )


def test_a_stage_has_the_rate_and_the_mean_time_of_its_queue() -> None:
    requests = stage(MM1, 0.5, 20_000, Random(1))
    assert requests[-1].sent == pytest.approx(20_000 / 0.5)
    assert fmean(each.sojourn for each in requests) == pytest.approx(2.0, rel=0.1)


def test_a_simulated_stage_is_judged_as_a_measured_one() -> None:
    served = batching.steady_stage(800, Random(2), rate=3.0)
    limits: list[tuple[Literal["TTFT", "TPOT", "E2EL"], int, int]] = [
        ("TTFT", 50, 1),
        ("TTFT", 50, 100_000),
    ]
    row = product.judged_answers([served], limits=limits, rate=3.0)
    assert row.verdict in ("Valid", "Suspect")
    assert [each.outcome for each in row.objectives] == ["Missed", "Met"]
    low, high = row.intervals["p50_ttft_ms"]
    assert low < 69 < high


def test_one_user_of_a_batching_server_waits_for_nobody() -> None:
    server = batching.Server(200, Random(1), users=1)
    for tokens, each in zip(server._prompts, server.served().answers, strict=True):
        steps = math.ceil(tokens / batching.BUDGET_TOKENS)
        prefill = steps * batching.BASE_MS + tokens * batching.MS_A_PROMPT_TOKEN
        assert each.ttft == pytest.approx(prefill)
        # Every step decodes one token of one sequence.
        decode = (each.tokens - 1) * (batching.BASE_MS + batching.MS_A_SEQUENCE)
        assert each.e2el == pytest.approx(prefill + decode)


def test_a_batching_server_beyond_its_capacity_serves_what_it_can() -> None:
    answers = batching.Server(6000, Random(1), rate=30.0).served().answers
    ended = sorted((each.sent + each.e2el) / 1000 for each in answers)
    # Neither while the queue begins nor while the last ones drain.
    assert 4000 / (ended[5000] - ended[1000]) == pytest.approx(
        batching.CAPACITY, rel=0.05
    )


def test_nearly_constant_answers_decide_what_is_far_from_fifty_requests_on() -> (
    None
):
    (server,) = (
        each for each in certainty.SERVERS if each.name == "constant 1% 8 users"
    )
    truth = certainty.truth_of(server)
    tally, _ = certainty._chunk(
        certainty._Task(certainty.Setting(server, 50, 1), truth, 0, 5)
    )
    assert tally["obvious", "e2el", 95] > 0
    assert tally["undecided obvious", "e2el", 95] == 0
    assert tally["Met 2.0", "e2el", 50] == tally["Missed 0.5", "e2el", 50] == 5
    for times in certainty.TIMES:
        words = [
            tally[f"{word} {times}", "e2el", 50]
            for word in ("Met", "Missed", "Inconclusive")
        ]
        assert sum(words) == tally["load points", "e2el", 50] == 5


def test_a_stage_that_begins_empty_shows_the_load_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steady, "TRUTH_REQUESTS", 20_000)
    setting = steady.Setting(None, 16, 800, 1)
    truth = steady._long_run(steady._Chain(setting.load, 0))
    ratios, tally = steady._rows(steady._Rows(setting, truth, 0))
    assert tally["Valid"] + tally["Suspect"] == steady.CHUNK
    assert fmean(ratios["mean_ttft_ms"]) == pytest.approx(1, abs=0.2)
    assert fmean(ratios["mean_itl_ms"]) == pytest.approx(1, abs=0.02)


def test_equal_steps_of_a_batching_server_are_one_entry_and_every_token_has_its_gap() -> (
    None
):
    served = batching.Server(500, Random(1), rate=1.0).served()
    gaps = sum(each.sequences * each.steps for each in served.decodes)
    assert gaps == sum(each.tokens - 1 for each in served.answers)
    assert len(served.decodes) < 0.1 * sum(each.steps for each in served.decodes)
    lasted = sum(each.gap * each.sequences * each.steps for each in served.decodes)
    assert lasted == pytest.approx(
        sum(each.e2el - each.ttft for each in served.answers)
    )


def test_part_of_a_stage_has_the_gaps_of_its_time() -> None:
    served = batching.Server(500, Random(1), rate=3.0).served()
    halves = [batching.part_of(served, begin, begin + 250) for begin in (0, 250)]
    ended = [
        served.answers[place].sent - served.answers[place - 249].sent
        for place in (249, 499)
    ]
    for half, seconds in zip(halves, ended, strict=True):
        assert half.answers[0].sent == 0
        assert 0.9 * seconds < half.decodes[-1].end <= seconds


def test_a_percentile_is_right_if_as_many_rows_show_more_as_less() -> None:
    """It lies at the edge of a step: of a hundred rows a fifth shows the next step."""
    steps = [1.0] * 80 + [1.3] * 20
    assert steady._typical("p95_ttft_ms", steps).error == 0
    assert steady._typical("mean_ttft_ms", steps).error == pytest.approx(0.06)


def test_a_percentile_is_right_if_rows_show_it_on_average() -> None:
    """Three fifths show the step below, the others more: the median is a step too low."""
    steps = [0.9] * 60 + [1.15] * 40
    assert steady._typical("p99_ttft_ms", steps).error == pytest.approx(0)


def test_what_moves_all_rows_is_an_error_of_a_percentile() -> None:
    ramp = [1.2 * each for each in [0.9] * 60 + [1.15] * 40]
    assert steady._typical("p99_ttft_ms", ramp).error == pytest.approx(0.08)


def test_the_standard_error_is_that_of_independent_rows() -> None:
    random = Random(1)
    rows = [random.gauss(1.0, 0.1) for _ in range(400)]
    assert steady._on_average(rows).standard_error == pytest.approx(0.005, rel=0.1)
    assert steady._in_the_middle(rows).standard_error == pytest.approx(
        0.0063, rel=0.3
    )


def test_more_load_points_are_asked_for_near_the_limit_alone() -> None:
    random = Random(1)

    def shown(error: float, count: int) -> steady.Shown:
        rows = [random.gauss(1.0 + error, 0.1) for _ in range(count)]
        return {"p95_ttft_ms": rows}

    assert steady._is_decided(shown(0.0, 64))
    assert steady._is_decided(shown(0.2, 64))
    assert not steady._is_decided(shown(0.04, 64))


@pytest.mark.parametrize("queue", CLOSED, ids=lambda queue: queue.name)
def test_users_see_the_percentiles_of_a_long_simulation(queue: Any) -> None:
    times = sorted(
        each.sojourn for each in closed_stage(queue, 40_000, Random(3))[2000:]
    )
    for percent in PERCENTS:
        assert times[len(times) * percent // 100] == pytest.approx(
            percentile(queue, 1.0, percent), rel=0.05
        )


def test_both_sides_differ_by_what_was_put_between_them() -> None:
    baseline, candidate = gates.Sides(200, 5, 0.6, 10.0).draw(Random(1))
    means = [
        fmean(run.status.results[0].metrics[key] or 0.0 for run in side)
        for key in ("output_throughput", "mean_ttft_ms")
        for side in (baseline, candidate)
    ]
    assert means[1] / means[0] == pytest.approx(0.9, rel=0.01)
    assert means[3] / means[2] == pytest.approx(1.1, rel=0.01)
    candidate = gates.Sides(200, 10, 0.6, 0.0, first_percent=10.0).draw(Random(1))[
        1
    ]
    assert (
        fmean(
            run.status.results[0].metrics["output_throughput"] or 0.0
            for run in candidate
        )
        > 1300
    )
    assert (
        fmean(
            run.status.results[1].metrics["output_throughput"] or 0.0
            for run in candidate
        )
        < 1220
    )


def seen(harm: float, *codes: str, shared: str = "") -> Seen:
    return Seen(harm, "mean_ttft_ms", frozenset(codes), frozenset({shared} - {""}))


@pytest.mark.parametrize(
    ("mistake", "load_point", "named"),
    [
        (CLIENT, seen(20, "ClientSaturated", "ClientThrottled"), "rightly"),
        (CLIENT, seen(20, "ClientSaturated", "PathSlow"), "wrongly"),
        (CLIENT, seen(20, "NotSteadyState"), "nobody"),
        (CLIENT, seen(20, "ClientServerGap"), "wrongly"),
        (CLIENT, seen(20), None),
        (CLIENT, seen(4, "PathSlow"), None),
        (CLIENT, seen(20, "NotSteadyState", shared="ClientSaturated"), None),
        (CLIENT, seen(20, "NotSteadyState", shared="PathSlow"), "nobody"),
        (PATH, seen(20, "ClientSaturated", shared="ClientServerGap"), None),
        (PATH, seen(20, "ClientServerGap"), "unknown"),
        (PATH, seen(20, "PathSlow", "ClientServerGap"), "rightly"),
        (SERVER, seen(20, "NotSteadyState"), "rightly"),
        (SERVER, seen(20, "NotSteadyState", "ClientSaturated"), "wrongly"),
    ],
)
def test_each_mistake_is_named(
    mistake: doses.Mistake, load_point: Seen, named: str | None
) -> None:
    assert load_point.named(mistake) == named


def test_doses_in_a_few_figures() -> None:
    found = {
        (CLIENT.name, 0.5): [seen(4.9), seen(4.9)],
        (CLIENT.name, 0.3): [seen(9), seen(9, "ClientSaturated")],
        (CLIENT.name, 0.1): [
            seen(50, "ClientSaturated"),
            seen(50, "PathSlow", "Drift"),
        ],
        (PATH.name, 8.0): [seen(90, "ClientServerGap"), seen(90, "NotSteadyState")],
        (CLIENT.name, 0.2): [seen(9, shared="Drift"), seen(4, shared="Drift")],
        (SERVER.name, 1.0): [
            seen(9, *SERVER.expected),
            seen(9, *SERVER.expected, "PathSlow"),
        ],
    }
    tally = doses.tally(found, say=lambda _: None)
    assert tally.harmful_unnoticed_percent == 50
    assert tally.harmful_unnoticed_mean_percent == pytest.approx(100 / 9)
    assert (tally.harmed, tally.undecided, tally.extra_findings, tally.named) == (
        9,
        1,
        4,
        5,
    )
    shares = (
        tally.named_rightly_percent,
        tally.named_unknown_percent,
        tally.nobody_named_percent,
    )
    assert shares == (50, 20, 20)
    assert tally.server_blames_others_percent == 50


def row(*findings: str, throughput: float = 480.0, ttft: float = 15.0) -> Result:
    return Result.model_validate(
        {
            "loadPoint": "w0/rate=60",
            "workload": "w0",
            "axis": "RequestRate",
            "value": "60",
            "repeats": 1,
            "repeatsPlanned": 1,
            "metrics": {"mean_ttft_ms": ttft, "output_throughput": 400.0},
            "steady": {"request_throughput": 60.0, "output_throughput": throughput},
            "throughputOf": "Arrivals",
            "verdict": "Valid",
            "findings": findings,
        }
    )


def judged(of: Result, **severities: str) -> Any:
    """An outcome with one load point."""
    findings = [
        SimpleNamespace(code=code, severity=each)
        for code, each in severities.items()
    ]
    return SimpleNamespace(judged=SimpleNamespace(findings=findings, results=[of]))


@pytest.mark.parametrize(
    ("of", "figure", "percent"),
    [
        (row(), "output_throughput", 0.0),
        (row(ttft=16.5), "mean_ttft_ms", 10.0),
        (row(ttft=16.5, throughput=360.0), "output_throughput", 25.0),
    ],
)
def test_harm_is_the_largest_difference_from_the_clean_twin(
    of: Result, figure: str, percent: float
) -> None:
    (found,) = doses.seen(judged(of), judged(row()))
    assert found.figure == figure
    assert found.harm_percent == pytest.approx(percent)


@pytest.mark.parametrize(
    ("of_twin", "codes"),
    [
        ({}, {"ClientSaturated", "PathSlow"}),
        ({"ClientSaturated": "Suspect"}, {"PathSlow"}),
        ({"ClientSaturated": "Invalid"}, {"PathSlow"}),
        ({"ClientSaturated": "Note"}, {"ClientSaturated", "PathSlow"}),
        ({"PathSlow": "Suspect"}, {"ClientSaturated", "PathSlow"}),
    ],
)
def test_what_the_clean_twin_has_as_severely_does_not_count(
    of_twin: dict[str, str], codes: set[str]
) -> None:
    severities = {
        "ClientSaturated": "Suspect",
        "PathSlow": "Invalid",
        "TooFewSamples": "Note",
    }
    outcome = judged(row(*severities), **severities)
    (found,) = doses.seen(outcome, judged(row(*of_twin), **of_twin))
    assert found.codes == codes
    assert found.shared == {"ClientSaturated", "PathSlow"} - codes
    (found,) = doses.seen(
        outcome, judged(row()), [judged(row(*of_twin), **of_twin)]
    )
    assert found.codes == codes, "of another mistake's twin"


def test_what_a_twin_has_too_is_not_unnoticed_and_nothing_named_is_not_named_wrongly() -> (
    None
):
    assert seen(9).unnoticed
    assert not seen(9, shared="Drift").unnoticed
    nothing = doses.tally(
        {(CLIENT.name, 0.2): [seen(9, shared="Drift")]}, say=lambda _: None
    )
    assert (nothing.named, nothing.named_rightly_percent) == (0, 100.0)


def line(
    arrived: float, *, ttft: float = 0.020, gap: float = 0.005
) -> Mapping[str, Any]:
    """A request of three tokens in the server's log."""
    return {
        "arrived_at": arrived,
        "first_sent_at": arrived + ttft,
        "last_sent_at": arrived + ttft + 2 * gap,
        "output_tokens": 3,
        "gaps_us": [1e6 * gap] * 2,
    }


def test_true_figures_are_those_of_the_log() -> None:
    lines = [line(10.5), line(11.0, ttft=0.030), line(11.5, ttft=0.070, gap=0.010)]
    true = timing.true_figures(lines, rate=2.0)
    assert true["mean_ttft_ms"] == pytest.approx(40)
    assert true["median_ttft_ms"] == pytest.approx(30)
    assert true["mean_e2el_ms"] == pytest.approx((30 + 40 + 90) / 3)
    assert [true["mean_tpot_ms"], true["mean_itl_ms"]] == pytest.approx(
        [20 / 3] * 2
    )
    assert true["median_itl_ms"] == pytest.approx(5)
    # The first of three arrivals at 2 a second comes after a gap: the load began at 10.0.
    assert true["output_throughput"] == pytest.approx(9 / 1.59)
    assert timing.true_figures(lines, rate=None)[
        "output_throughput"
    ] == pytest.approx(9 / 1.09)


@pytest.mark.parametrize(
    ("requests", "last_sent", "arrivals"),
    [
        (3, 10.99, [10.0, 10.5, 11.0]),
        (3, 10.0, [10.0, 10.5, 11.0]),
        (2, 10.99, [10.0, 10.5]),
        (2, 11.0, None),
        (5, 12.0, None),
    ],
    ids=[
        "the next ones",
        "however late",
        "the last comes later",
        "others' too",
        "some missing",
    ],
)
def test_the_lines_of_a_stage_are_those_that_follow_its_first_sending(
    requests: int, last_sent: float, arrivals: list[float] | None
) -> None:
    log = [line(at) for at in (12.0, 10.5, 11.0, 10.0, 9.0)]
    lines = timing.stage_lines(
        log, first_sent=9.99, last_sent=last_sent, requests=requests
    )
    found = None if lines is None else [each["arrived_at"] for each in lines]
    assert found == arrivals


SIX: Mapping[str, Any] = {
    "ttft_us": (21_000,) * 6, "e2el_us": (31_000,) * 6, "output_tokens": (3,) * 6,
    "start_us": tuple(1_000_000 * number for number in range(6)),
}  # fmt: skip
"""A request a second."""


def test_ttft_is_held_against_the_log_of_its_own_stage() -> None:
    of = record("chat/concurrency=2/r1", requests=requests(**SIX))
    began = of.first_send_unix_us / 1e6 - (time.time() - time.monotonic())
    log = tuple(line(began + number) for number in range(-3, 6))
    spec = Experiment(name="one", workloads=[users(2, 6)]).spec(
        "http://127.0.0.1:1"
    )
    outcome = Outcome(spec, (of,), (), (), log, 0.0)
    assert timing.ttft_error(outcome, of.stage_id) == pytest.approx(5.0, abs=0.01)
    assert timing.ttft_error(outcome, "chat/concurrency=2/r2") is None
    assert timing.ttft_error(replace(outcome, truth=log[:5]), of.stage_id) is None


def paired_stages(
    ours: Mapping[str, float], vllm: Mapping[str, float]
) -> list[paired.Stage]:
    """Six rounds, whose errors are those of quiet minutes and of four times as busy ones; errors of
    a figure that is not named are 1 %."""
    return [
        paired.Stage(
            client,
            number,
            "load",
            {name: factor * named.get(name, 1.0) for name in paired.FIGURES},
            dict.fromkeys(paired.FIGURES, 0.1),
        )
        for number, factor in enumerate((1, 4, 1, 1, 4, 1))
        for client, named in (
            (paired.OURS, ours),
            (paired.FIRST, vllm),
            (paired.SECOND, vllm),
        )
    ]


@pytest.mark.parametrize(
    ("ours", "vllm", "ratio"),
    [
        ({}, {}, 1.0),
        ({"mean_ttft_ms": 1.2}, {}, 1.2),
        ({"mean_ttft_ms": 1.2, "median_itl_ms": 2.0}, {}, 2.0),
        (dict.fromkeys(paired.FIGURES, 0.5), {}, 0.5),
        ({"mean_tpot_ms": 0.04}, {"mean_tpot_ms": 0.0}, 1.0),
        ({"mean_tpot_ms": 0.10}, {"mean_tpot_ms": 0.0}, 2.0),
    ],
    ids=[
        "equal",
        "one worse",
        "the worst",
        "better",
        "both below the floor",
        "above the floor",
    ],
)
def test_our_errors_are_held_against_those_of_vllms_client(
    ours: Mapping[str, float], vllm: Mapping[str, float], ratio: float
) -> None:
    found = paired.compared(paired_stages(ours, vllm), say=lambda _: None)
    assert found["paired_error_ratio"] == pytest.approx(ratio)
    if "mean_tpot_ms" not in ours or ratio <= 1:
        # Both meet the same minutes: how busy those were is no part of the ratio.
        assert found["paired_error_ratio_at_least"] == pytest.approx(ratio)
    assert found["paired_aa_ratio"] == 1.0
    assert found["paired_stages"] == 6


def test_a_ratio_that_chance_may_have_made_is_no_worse_than_its_lower_end() -> None:
    stages = paired_stages({}, {})
    late = [
        replace(stage, errors={**stage.errors, "mean_ttft_ms": 20.0})
        if (stage.client, stage.round) == (paired.OURS, 3)
        else stage
        for stage in stages
    ]
    found = paired.compared(late, say=lambda _: None)
    assert found["paired_error_ratio"] == pytest.approx(31 / 12)
    assert found["paired_error_ratio_at_least"] == pytest.approx(1.0)
    assert found["paired_found_from_ratio"] == pytest.approx(1.1 * 31 / 12)


def test_errors_below_the_clock_or_the_rounding_count_as_none() -> None:
    true = dict.fromkeys(paired.FIGURES, 100.0) | {"mean_tpot_ms": 5.0}
    off, floors = paired.errors(
        dict.fromkeys(paired.FIGURES, 99.0) | {"mean_tpot_ms": 5.1}, true
    )
    assert [off["mean_ttft_ms"], off["mean_tpot_ms"]] == pytest.approx([1, 2])
    assert (floors["mean_ttft_ms"], floors["output_throughput"]) == (0.1, 0.1)
    assert floors["mean_tpot_ms"] == pytest.approx(1.0)


def test_both_clients_send_the_same_load() -> None:
    experiment = paired._experiment(1)
    of_load_points = load_points(experiment.spec("http://127.0.0.1:1"))
    assert [load_point.workload for load_point in of_load_points] == [
        load.name for load in paired.LOADS
    ]
    for load, workload in zip(paired.LOADS, experiment.workloads, strict=True):
        words = dict(
            zip(
                arguments := load.arguments("http://x", 7),
                arguments[1:],
                strict=False,
            )
        )
        assert words["--num-prompts"] == str(workload["requests"])
        assert words["--seed"] == "7"
        lengths = workload["dataset"]["random"]
        assert words["--random-input-len"] == str(lengths["inputTokens"])
        assert words["--random-output-len"] == str(lengths["outputTokens"])
        sent = words.get("--max-concurrency"), words["--request-rate"]
        if load.rate is None:
            assert sent == (str(workload["load"]["concurrencies"][0]), "inf")
        else:
            assert sent == (None, workload["load"]["requestRates"][0])


def test_halves_of_a_block_share_half_of_each_side() -> None:
    found = [(set(first), set(second)) for first, second in pairs.halves()]
    assert len(found) == 7
    for number, (first, second) in enumerate(found):
        assert (len(first), len(second), first & second) == (4, 4, set())
        assert all(
            len(first & other) == len(second & other) == 2
            for other, _ in found[:number]
        )


def test_servers_are_halved_block_by_block() -> None:
    def outcome(tokens: float) -> Any:
        run = product.server_run(
            "s",
            [
                {
                    "OutputThroughput": tokens,
                    "MeanTTFT": 1e5 / tokens,
                    "MeanTPOT": 1e4 / tokens,
                }
            ],
        )
        return SimpleNamespace(
            spec=run.spec, judged=SimpleNamespace(results=run.status.results)
        )

    noise = (0.0, 0.3, -0.2, 0.1, 0.2, -0.3, 0.1, -0.1)
    equal = [outcome(1000 + each) for each in noise]
    late = [
        outcome((1000 if number < 4 else 1200) + each)
        for number, each in enumerate(noise)
    ]
    words = pairs.words_of_halves([*equal, *late])
    assert len(words) == 14
    # Of the second block the last four servers are faster, and only one halving has them on one
    # side.
    assert [
        number
        for number, word in enumerate(words)
        if word in ("Better", "Worse", "Mixed")
    ] == [7 + 3]


def test_every_mistake_has_two_doses_and_a_twin_with_the_same_load() -> None:
    names = []
    for mistake in MISTAKES:
        assert len(mistake.doses) == 2
        twin = mistake.twin()
        assert all(
            getattr(twin, name) == value for name, value in mistake.also.items()
        )
        # A control group weighs more than the rest, whatever its limit: the twin needs one, too.
        limited = [mistake.dosed(dose) for dose in mistake.doses]
        assert (twin.client_cpu_share is None) == (
            limited[0].client_cpu_share is None
        )
        assert (twin.server_cpu_share is None) == (
            limited[0].server_cpu_share is None
        )
        for experiment in (twin, *map(mistake.dosed, mistake.doses)):
            names.append(experiment.name)
            same = (
                "workloads",
                "traffic",
                "measurement",
                "client_ahead",
                "servers_ahead",
            )
            assert all(
                getattr(experiment, name) == getattr(twin, name) for name in same
            )
            assert (
                len(load_points(experiment.spec("http://127.0.0.1:1")))
                == mistake.load_points
            )
    assert len(set(names)) == len(names)


def test_a_third_of_clean_runs_queue() -> None:
    runs = list(clean_runs(300))
    assert sum("queue" in run.name for run in runs) == len(runs) // 3
    assert sum(clean_stages(run) for run in runs) >= 300
    assert all(
        len(load_points(run.spec("http://127.0.0.1:1"))) == LOAD_POINTS_A_RUN
        for run in runs
    )


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
        ({"false_suspect_percent": 5.1}, 1),
        ({"paired_error_ratio_at_least": 1.11}, 1),
    ],
)
def test_values_beyond_the_limit_are_counted(
    changed: dict[str, float | str | None], beyond: int
) -> None:
    assert len(list(_beyond(GOOD | changed))) == beyond


def test_parts_that_were_not_run_are_not_limited() -> None:
    assert list(_beyond({"coverage_percent": 95.0})) == []


async def test_a_delayed_way_adds_to_every_round_trip() -> None:
    target = free_port()
    port = free_port()

    async def echo(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(await reader.read(100))
        writer.close()
        await writer.wait_closed()

    async with (
        await asyncio.start_server(echo, "127.0.0.1", target),
        delaying(port, target, 30.0),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sent = time.monotonic()
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        assert time.monotonic() - sent >= 0.060
        writer.close()
        await writer.wait_closed()


def threads_of(pid: int) -> set[int]:
    return {int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()}


@pytest.mark.parametrize("with_threads", [False, True])
async def test_threads_run_ahead_only_where_asked_for(with_threads: bool) -> None:
    program = (
        "import threading, sys\n"
        "threading.Thread(target=sys.stdin.read, daemon=True).start()\n"
        "print(flush=True)\n"
        "threading.Event().wait()"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        run_ahead(process, with_threads=with_threads)
        (other,) = threads_of(process.pid) - {process.pid}
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == -20
        later_ones_do_not = bool(
            os.sched_getscheduler(process.pid) & os.SCHED_RESET_ON_FORK
        )
        assert later_ones_do_not is not with_threads
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, other) == (
            -20 if with_threads else usual
        )
    finally:
        process.kill()
        await process.communicate()
