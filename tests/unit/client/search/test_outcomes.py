"""Whether the stages of a load meet the objectives of a search: as the operator judges the same
records."""

import random
from dataclasses import replace
from decimal import Decimal

import pytest
from benchrun.judge.result_row import measured_row
from benchrun.judge.results import load_point_context
from benchrun.judge.thresholds import Thresholds
from benchrun.plan import probed_load_points
from benchrun_client.contract import (
    CONFIRMATION_ERROR,
    CONFIRMATIONS,
    ERROR,
    Limit,
    Outcome,
    Probe,
    RequestSample,
    SearchPlan,
    decided,
    open_stage_id,
    stage_shape,
)
from benchrun_client.search.bisection import Position, outcome_of
from benchrun_client.search.load_results import LoadResult, load_result
from benchrun_client.stage_record import RawStage, Thought, record_of
from truth_kit.searches import case_of, simulated
from unit.client.plans import raw_stage
from unit.client.search.searches import search
from unit.judge.specs import spec, workload

LOOK = Position(1, 1, Decimal(1))
CONFIRMATION = Position(2, 1, Decimal(1), confirmation=1)


def limit(metric: str, percentile: str, milliseconds: int) -> Limit:
    return Limit.model_validate(
        {
            "metric": metric,
            "percentile": percentile,
            "max_milliseconds": milliseconds,
        }
    )


def result_at(plan: SearchPlan, here: Position, raw: RawStage) -> LoadResult:
    return load_result(plan.load_at(here.value), plan.metrics, raw)


def stage(
    *ttft_ms: float,
    failed: int = 0,
    apart_seconds: float = 1.0,
    late_seconds: float = 0.0,
) -> RawStage:
    """Answers of three tokens, 10 ms apart, whose first came after so long; requests are so far
    apart, and sent so late. Then some that failed."""
    count = len(ttft_ms) + failed
    sent = [100.0 + apart_seconds * n for n in range(count)]
    ok = [True] * len(ttft_ms) + [False] * failed
    ttfts = [ms / 1000 for ms in ttft_ms] + [0.0] * failed
    return raw_stage(
        due=[at - late_seconds for at in sent],
        sent=sent,
        answered=[at + ttft + 0.02 for at, ttft in zip(sent, ttfts, strict=True)],
        ok=ok,
        ended=ok,
        ttfts=ttfts,
        itls=[[0.01, 0.01]] * len(ttft_ms) + [[]] * failed,
        input_lens=[32] * count,
        output_lens=[3] * len(ttft_ms) + [0] * failed,
        requested_lens=[3] * count,
        errors=[""] * len(ttft_ms) + ["Bad Request"] * failed,
    )


def client_outcome(
    search_spec: SearchPlan, *stages: RawStage, here: Position = LOOK
) -> Outcome:
    return outcome_of(
        search_spec, here, [result_at(search_spec, here, each) for each in stages]
    )


def judged(
    search_spec: SearchPlan, *stages: RawStage, here: Position = LOOK
) -> str:
    """By the operator, in the row of the load point."""
    load = {
        "search": {
            "axis": search_spec.lowest.axis,
            "from": search_spec.lowest.value,
            "to": search_spec.highest,
            "maxRepeats": search_spec.max_repeats,
        }
    }
    objectives = [
        {
            "metric": each.metric,
            "percentile": each.percentile,
            "maxMilliseconds": each.max_milliseconds,
        }
        for each in search_spec.objectives
    ]
    run_spec = spec(
        workloads=[workload(load=load, requests=5000)], objectives=objectives
    )
    probe = Probe(ends_search=False, confirms=here.confirmation > 0)
    records = [
        record_of(
            replace(
                each,
                stage_id=open_stage_id("chat", 1, repeat),
                load=search_spec.load_at(here.value),
                prompts_digest=f"{repeat:064x}",
                probe=probe,
            )
        )
        for repeat, each in enumerate(stages, start=1)
    ]
    (load_point,) = probed_load_points(run_spec, records)
    context = load_point_context(
        load_point, records, (), Thresholds(), spec=run_spec
    )
    return measured_row(context, (), spec=run_spec).objectives_outcome


def both(search_spec: SearchPlan, *stages: RawStage, here: Position = LOOK) -> str:
    """What the operator says. The client says the same, but for a look at a load that is not
    certain, which steers."""
    outcome = client_outcome(search_spec, *stages, here=here)
    row = judged(search_spec, *stages, here=here)
    assert row == outcome or (row == "Inconclusive" and not here.confirmation)
    return row


@pytest.mark.parametrize("metric", ["TTFT", "E2EL"])
def test_under_a_rate_latencies_count_from_when_requests_were_due(
    metric: str,
) -> None:
    tight = search(objectives=[limit(metric, "90", 100)])
    punctual = stage(*[45] * 400)
    late = stage(*[45] * 400, late_seconds=0.2)
    assert both(tight, punctual, here=CONFIRMATION) == "Met"
    assert both(tight, late, here=CONFIRMATION) == "Missed"


def test_a_search_of_users_counts_from_the_send() -> None:
    users = search(axis="Concurrency", lowest="4")
    late = stage(*[45] * 400, late_seconds=0.2)
    here = replace(CONFIRMATION, value=Decimal(4))
    assert both(users, late, here=here) == "Met"


@pytest.mark.parametrize(
    ("slow", "steers"),
    [(5, "Met"), (6, "Met"), (7, "Missed")],
    ids=["below", "at", "above"],
)
def test_a_look_that_is_not_certain_steers_by_what_it_saw(
    slow: int, steers: str
) -> None:
    stages = [stage(*[50] * (60 - slow), *[150] * slow)]
    assert judged(search(), *stages) == "Inconclusive"
    assert client_outcome(search(), *stages) == steers
    assert client_outcome(search(), *stages, here=CONFIRMATION) == "Inconclusive"


def test_met_missed_and_neither() -> None:
    assert both(search(), stage(*[50] * 60)) == "Met"
    assert both(search(), stage(*[150] * 60)) == "Missed"
    assert both(search(), stage(*[50] * 54, *[150] * 6)) == "Inconclusive"


@pytest.mark.parametrize(
    ("metric", "met", "missed"),
    [("TTFT", 30, 29), ("E2EL", 50, 49), ("TPOT", 10, 9), ("ITL", 10, 9)],
)
def test_each_latency_is_held_against_its_own_limit(
    metric: str, met: int, missed: int
) -> None:
    assert (
        both(search(objectives=(limit(metric, "90", met),)), stage(*[30] * 100))
        == "Met"
    )
    assert (
        both(search(objectives=(limit(metric, "90", missed),)), stage(*[30] * 100))
        == "Missed"
    )


def varied(count: int, seed: int) -> RawStage:
    """First tokens after 30 to 97 ms: their 90th percentile, 90 ms, is not far below the limit."""
    chance = random.Random(seed)
    return stage(*(chance.uniform(30, 97) for _ in range(count)))


def test_repeats_are_judged_together() -> None:
    first = varied(200, 0)
    second = varied(200, 1)
    assert both(search(), first) == "Inconclusive"
    assert both(search(), first, second) == "Met"


def test_a_stage_too_short_for_a_steady_part_is_never_met() -> None:
    assert both(search(), stage(*[10] * 23)) == "Inconclusive"
    assert both(search(), stage(*[10] * 24)) == "Met"


def test_every_objective_counts() -> None:
    search_spec = search(
        objectives=(limit("TTFT", "90", 100), limit("TPOT", "50", 5))
    )
    assert both(search_spec, stage(*[50] * 60)) == "Missed"


@pytest.mark.parametrize(
    ("values", "look", "confirmation"),
    [
        (200, "Inconclusive", "Inconclusive"),
        (400, "Met", "Inconclusive"),
        (800, "Met", "Met"),
    ],
)
def test_a_confirmation_takes_more_than_a_look(
    values: int, look: str, confirmation: str
) -> None:
    assert both(search(), varied(values, 0)) == look
    assert both(search(), varied(values, 0), here=CONFIRMATION) == confirmation


def test_all_confirmations_together_err_as_often_as_one_look() -> None:
    assert ERROR == 0.025
    assert pytest.approx(ERROR) == CONFIRMATIONS * CONFIRMATION_ERROR


@pytest.mark.parametrize("axis", ["RequestRate", "Concurrency"])
def test_a_load_is_judged_by_its_steady_part(axis: str) -> None:
    search_spec = search(axis=axis, objectives=(limit("TTFT", "99", 100),))
    first_slow = stage(900, *[50] * 59)
    found = result_at(search_spec, LOOK, first_slow)
    assert (found.requests, found.failed, found.shape.is_steady) == (60, 0, True)
    assert 0 not in found.shape.order
    assert both(search_spec, first_slow) == "Met"
    assert both(search_spec, stage(*[50] * 30, 900, *[50] * 29)) != "Met"


def test_failed_requests_are_counted_in_the_whole_stage() -> None:
    found = result_at(search(), LOOK, stage(*[50] * 60, failed=3))
    assert (found.requests, found.failed) == (63, 3)


def test_where_too_many_fail_the_load_is_too_much_however_fast_the_others_were() -> (
    None
):
    search_spec = search(
        objectives=(limit("TTFT", "50", 100),), max_failed_percent="2"
    )
    assert client_outcome(search_spec, stage(*[50] * 98, failed=2)) != "Missed"
    assert client_outcome(search_spec, stage(*[50] * 97, failed=3)) == "Missed"
    assert client_outcome(search_spec, stage(failed=40)) == "Missed"


def test_a_failed_request_is_above_every_limit() -> None:
    search_spec = search(
        objectives=(limit("TTFT", "99", 100),), max_failed_percent="100"
    )
    assert both(search_spec, stage(*[50] * 990)) == "Met"
    assert both(search_spec, stage(*[50] * 990, failed=10)) != "Met"


def waits(chance: random.Random) -> list[float]:
    """Times to the first token of a queue, milliseconds."""
    wait = 0.0
    found = []
    for _ in range(chance.choice((60, 200, 800))):
        service = chance.expovariate(1 / 50)
        found.append(round(wait + service, 3))
        wait = max(0.0, wait + service - chance.expovariate(1 / 90))
    return found


@pytest.mark.parametrize("here", [LOOK, CONFIRMATION])
@pytest.mark.parametrize("axis", ["RequestRate", "Concurrency"])
def test_every_stage_is_judged_as_the_operator_judges_it(
    here: Position, axis: str
) -> None:
    seen = set()
    for seed in range(8):
        chance = random.Random(seed)
        metric = chance.choice(("TTFT", "E2EL", "TPOT", "ITL"))
        percentile = chance.choice(("50", "90", "95", "99"))
        search_spec = search(
            axis=axis,
            objectives=(
                limit(
                    metric, percentile, chance.choice((9, 10, 60, 120, 300, 900))
                ),
            ),
            max_failed_percent="100",
        )
        stages = [
            stage(
                *waits(chance), apart_seconds=0.09, failed=chance.choice((0, 0, 1))
            )
            for _ in range(chance.choice((1, 3)))
        ]
        seen.add(both(search_spec, *stages, here=here))
    assert len(seen) >= 2


def test_a_few_late_requests_close_together_do_not_hide_that_the_limit_is_kept() -> (
    None
):
    # Far below the limit's load, two stages are enough.
    case = case_of(1, None, 0.6, 90, 1000)
    outcomes = []
    for seed in range(12):
        stages = [
            simulated(
                case, 0.6 * case.truth, 1000, random.Random(seed * 10 + repeat)
            )
            for repeat in range(2)
        ]
        times = [
            [end - begin for begin, end in zip(*each, strict=True)]
            for each in stages
        ]
        sample = RequestSample([stage_shape(*each) for each in stages], times)
        outcomes.append(
            decided(sample, 90, case.limit_ms, one_stretch=False).outcome
        )
    assert outcomes.count("Met") == 12


@pytest.mark.parametrize(
    ("metric", "values"),
    [("TTFRT", [0.1, None]), ("TTFAT", [0.15, 0.2]), ("TTFT", [0.1, 0.2])],
)
def test_reasoning_and_answers_are_held_against_their_own_limits(
    metric: str, values: list[float | None]
) -> None:
    raw = stage(100, 200)
    sent = raw.instants.sent[0]
    raw.instants.thoughts[0] = Thought(sent + 0.1, sent + 0.15, 3)
    plan = search(objectives=(limit(metric, "50", 1000),))
    found = result_at(plan, LOOK, raw).values[metric]
    assert found == [value and value * 1e6 for value in values]
