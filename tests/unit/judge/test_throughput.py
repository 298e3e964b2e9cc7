"""Which throughput a load point is compared, priced and shown by: of the plateau, of the arrivals,
or of the whole stage."""

import pytest
from benchrun.api import KEYS, PER_GPU, THROUGHPUTS, Result, ThroughputOf
from benchrun.api.sweep import essence
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.compare import compare
from benchrun.judge.results import results
from benchrun.judge.rules.rule import StageFacts
from benchrun.judge.rules.steady_state import not_steady_state
from benchrun.judge.status_size import fitted
from benchrun.judge.throughput import throughput_of
from benchrun_client.contract import StageRecord
from kit.every_case import every
from unit.judge.comparison.sides import compared, row, run, words
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.specs import spec
from unit.judge.stages import context, findings, open_loop_load, trace, users
from unit.judge.test_cost import servers
from unit.measure import loads
from unit.measure.records import load_point, record, requests

SECOND = 1_000_000
SERVER = Server(slots=8, prefill_seconds=0.005)


def which(*stages: StageFacts) -> ThroughputOf | None:
    return throughput_of(
        stages,
        [each for stage in stages for each in findings(not_steady_state(stage))],
    )


def long_answers() -> StageRecord:
    """Four requests a second for 60 s, each answered in 30 s with its first token after 3: 240 of
    them, until second 89.75."""
    columns = loads.open_loop(
        240, gap_us=SECOND // 4, duration_us=lambda i: 30 * SECOND
    )
    return record(requests=columns, scalars={"duration": 89.75})


def test_an_open_loop_of_60_s_with_answers_of_30_s_has_its_rate_and_not_a_third_less() -> (
    None
):
    """The plateau is from second 30 to 59.75: 119 answers of 11 tokens, and as many prompts of
    100."""
    [found] = results(
        [load_point()],
        [long_answers()],
        [],
        spec=spec(cost={"perHour": "3600"}),
        servers=servers(2),
    ).results
    assert found.metrics["request_throughput"] == pytest.approx(2.674, rel=1e-3)
    assert found.steady["request_throughput"] == 4.0
    assert found.steady["output_throughput"] == pytest.approx(44.0, rel=1e-3)
    assert found.steady["total_token_throughput"] == pytest.approx(444.0, rel=1e-3)
    assert found.throughput_of == "Arrivals"
    assert [found.figure(key) for key in THROUGHPUTS] == [
        found.steady[key] for key in THROUGHPUTS
    ]
    assert found.figure("mean_ttft_ms") == found.metrics["mean_ttft_ms"]
    assert found.metrics[PER_GPU] == pytest.approx(22.0, rel=1e-3)
    assert found.metrics["cost_per_million_output_tokens"] == pytest.approx(
        1e6 / 44, rel=1e-3
    )
    assert found.metrics["cost_per_million_total_tokens"] == pytest.approx(
        1e6 / 444, rel=1e-3
    )


def test_the_headline_is_that_of_the_plateau() -> None:
    found = results([load_point()], [long_answers()], [], spec=spec())
    assert found.headline is not None
    assert found.headline.throughput.startswith("44")


# ---- what it is of
# ----------------------------------------------------------------------------------------------------


@every("seed", range(8))
@every("times", [0.3, 0.7, 0.9])
def test_below_capacity_it_is_that_of_the_arrivals(times: float, seed: int) -> None:
    assert (
        which(
            open_loop(SERVER, rate=times * SERVER.capacity, count=1000, seed=seed)
        )
        == "Arrivals"
    )


@every("seed", range(8))
@every(("times", "count"), [(1.1, 2000), (1.3, 600), (2.0, 600)])
def test_beyond_capacity_it_is_that_of_the_server(
    times: float, count: int, seed: int
) -> None:
    assert (
        which(
            open_loop(SERVER, rate=times * SERVER.capacity, count=count, seed=seed)
        )
        == "Plateau"
    )


def test_users_have_a_plateau_and_what_has_none_is_taken_whole() -> None:
    stage = closed_loop(SERVER, concurrency=8, count=200, seed=1)
    at_once = context(load=open_loop_load(rate=None, concurrency=None))(
        stage.record
    )
    short = context(load=users(8))(record())
    assert [
        which(stage),
        which(stage, stage),
        which(at_once),
        which(stage, short),
        which(),
    ] == [
        "Plateau",
        "Plateau",
        "Stage",
        "Stage",
        None,
    ]


def test_a_trace_that_the_server_keeps_up_with_is_that_of_the_arrivals() -> None:
    stage = open_loop(SERVER, rate=0.5 * SERVER.capacity, count=1000, seed=1)
    slow = open_loop(SERVER, rate=2 * SERVER.capacity, count=400, seed=1)
    assert [
        which(context(load=trace())(each.record)) for each in (stage, slow)
    ] == [
        "Arrivals",
        "Stage",
    ]


def test_requests_that_fail_are_not_served() -> None:
    """One in ten, below capacity."""
    stage = open_loop(SERVER, rate=0.5 * SERVER.capacity, count=1000, seed=1).record
    ok = tuple(int(i % 10 != 0) for i in range(1000))
    failing = stage.model_copy(
        update={"requests": stage.requests.model_copy(update={"ok": ok})}
    )
    assert (
        which(context(load=open_loop_load(rate=0.5 * SERVER.capacity))(failing))
        == "Plateau"
    )


def test_the_scatter_is_that_of_the_same_throughput() -> None:
    """Of two repeats with the same pace, the second drains for long: whole stages differ, plateaus
    do not."""
    first = closed_loop_record(1, last_us=SECOND)
    second = closed_loop_record(2, last_us=40 * SECOND)
    [found] = results(
        [load_point(axis="Concurrency", repeats=2)],
        [first, second],
        [],
        spec=spec(
            workloads=[
                {
                    "name": "chat",
                    "dataset": {"random": {}},
                    "load": {"concurrencies": [4]},
                    "requests": 200,
                }
            ]
        ),
    ).results
    assert found.throughput_of == "Plateau"
    assert found.repeat_cv_percent["request_throughput"] < 2
    assert found.steady["request_throughput"] == pytest.approx(4.0, rel=0.03)


def closed_loop_record(repeat: int, *, last_us: int) -> StageRecord:
    columns = loads.closed_loop(
        200, 4, duration_us=lambda i: last_us if i == 199 else SECOND
    )
    duration = (
        max(a + b for a, b in zip(columns.start_us, columns.e2el_us, strict=True))
        / 1e6
    )
    return record(
        f"chat/concurrency=4/r{repeat}",
        requests=columns,
        scalars={"duration": duration},
    )


# ---- comparisons
# ------------------------------------------------------------------------------------------------------


def row_with(
    which: ThroughputOf | None, value: float = 100.0, *, steady: float | None = None
) -> Result:
    """A row with five repeats; `value` is that of the whole stage."""
    found = row(repeats=5, cv=0.1, OutputThroughput=value)
    of_plateau = dict.fromkeys(THROUGHPUTS, steady) if steady is not None else {}
    return found.model_copy(update={"throughput_of": which, "steady": of_plateau})


def test_arrivals_on_both_sides_are_no_question() -> None:
    """A whole stage that is 20 % shorter is a last answer that came sooner."""
    found = compared(
        run("a", [row_with("Arrivals", 100, steady=100)]),
        run("b", [row_with("Arrivals", 80, steady=99)]),
        limit=5,
    )
    assert words(found) == {
        "OutputThroughput": "NotComparable",
        "MeanTTFT": "Equivalent",
    }
    change = found.load_points[0].changes[0]
    assert (
        change.baseline,
        change.value,
        change.change_percent,
        change.low_percent,
    ) == (
        100,
        99,
        None,
        None,
    )
    assert "the load limited the throughput" in (change.reason or "")
    assert (found.gate, found.outcome) == ("NotRegressedHere", "Equivalent")
    assert found.load_points[0].throughput_of == "Arrivals"


def test_a_gate_of_nothing_but_arrivals_stays_open() -> None:
    sides = [run(name, [row_with("Arrivals", 100, steady=100)]) for name in "ab"]
    found = compared(sides[0], sides[1], "OutputThroughput", limit=5)
    assert (found.gate, found.outcome) == ("Inconclusive", "NotComparable")


@pytest.mark.parametrize(
    ("baseline", "candidate", "values", "expected"),
    [
        pytest.param(
            "Arrivals",
            "Plateau",
            (100, 70),
            "Plateau",
            id="the candidate no longer keeps up",
        ),
        pytest.param("Plateau", "Plateau", (100, 70), "Plateau", id="two plateaus"),
        pytest.param("Plateau", "Stage", (200, 200), "Stage", id="one has none"),
        pytest.param(
            None, "Plateau", (200, 200), None, id="one is of an older version"
        ),
        pytest.param(None, None, (200, 200), None, id="both are"),
    ],
)
def test_both_sides_are_compared_by_the_same(
    baseline: ThroughputOf | None,
    candidate: ThroughputOf | None,
    values: tuple[float, float],
    expected: ThroughputOf | None,
) -> None:
    before = row_with(baseline, 200, steady=100)
    after = row_with(candidate, 200, steady=70)
    found = compared(run("a", [before]), run("b", [after]))
    change = found.load_points[0].changes[0]
    assert (change.baseline, change.value, found.load_points[0].throughput_of) == (
        *values,
        expected,
    )
    assert change.word == ("Worse" if expected == "Plateau" else "Equivalent")


@pytest.mark.parametrize(
    ("requests_sent", "values"),
    [
        ((90, 80), (50, 60)),
        ((None, None), (50, 60)),
        ((90, None), (43, 43)),
        ((None, 80), (43, 43)),
    ],
    ids=["both steady", "none is", "the baseline is", "the candidate is"],
)
def test_a_steady_part_is_not_compared_with_a_whole_stage(
    requests_sent: tuple[int | None, int | None], values: tuple[float, float]
) -> None:
    """Rows that have no steady part may have latencies from when requests were due."""

    def side(name: str, sent: int | None, ttft: float) -> MeasuredRun:
        steady = {KEYS["MeanTTFT"]: ttft} | ({} if sent is None else {"sent": sent})
        found = row(repeats=5, cv=0.1).model_copy(update={"steady": steady})
        measured = run(name, [found])
        [kept] = essence(measured.status).results
        assert kept.is_steady == found.is_steady
        return measured

    baseline = side("a", requests_sent[0], 50.0)
    candidate = side("b", requests_sent[1], 60.0)
    change = compared(baseline, candidate, "MeanTTFT").load_points[0].changes[0]
    assert (change.baseline, change.value) == values


def test_fresh_servers_are_compared_by_it_too() -> None:
    kept = [
        run(f"a{i}", [row_with("Arrivals", 100, steady=value)])
        for i, value in enumerate((100, 100.1, 99.9))
    ]
    lost = [
        run(f"b{i}", [row_with("Plateau", 100, steady=value)])
        for i, value in enumerate((80, 80.1, 79.9))
    ]
    assert words(compare(kept, lost, metrics=["OutputThroughput"])) == {
        "OutputThroughput": "Worse"
    }
    same = [
        run(f"c{i}", [row_with("Arrivals", 100, steady=value)])
        for i, value in enumerate((98, 98.1, 97.9))
    ]
    assert words(compare(kept, same, metrics=["OutputThroughput"])) == {
        "OutputThroughput": "NotComparable"
    }


def test_what_sweeps_and_small_statuses_keep_of_it() -> None:
    found = row_with("Plateau", 100, steady=70)
    found = found.model_copy(
        update={"steady": {**found.steady, "p99_ttft_ms": 9.0}}
    )
    [kept] = essence(run("a", [found]).status).results
    assert (kept.throughput_of, kept.figure(KEYS["OutputThroughput"])) == (
        "Plateau",
        70,
    )
    assert kept.figure(KEYS["P99TTFT"]) == 9.0
    size = len(found.model_dump_json(by_alias=True))
    [cut], _ = fitted([found], max_bytes=size - 100)
    assert {key: cut.steady[key] for key in THROUGHPUTS} == dict.fromkeys(
        THROUGHPUTS, 70
    )


def test_requests_of_no_stage_are_of_nothing() -> None:
    [found] = results(
        [load_point()], [record(requests=requests(ok=(0, 0)))], [], spec=spec()
    ).results
    assert found.throughput_of == "Stage"
