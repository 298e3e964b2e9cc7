"""The two figures of the printer columns."""

import pytest
from benchrun.api import Headline, ObjectiveResult, Result, Verdict
from benchrun.judge.results import P99TTFT, headline, p99_ttft, shown
from benchrun.judge.rules.rule import LoadPointContext, StageFacts
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import StageRecord
from unit.judge.stages import OPEN_LOOP, context, open_loop_load, users
from unit.measure.records import load_point, record, requests


def measured(stage: StageRecord, load: ExpectedStage) -> StageFacts:
    return context(load=load)(stage)


P99 = P99TTFT(143.0, "143 ms")


def row(
    value: str,
    verdict: Verdict = "Valid",
    workload: str = "chat",
    throughput: float | None = 812.3,
    objectives: str = "",
) -> Result:
    """A load point; `objectives`: their outcomes."""
    outcomes = [
        ObjectiveResult.model_validate(
            {
                "metric": "TTFT",
                "percentile": "99",
                "maxMilliseconds": 500,
                "outcome": outcome,
            }
        )
        for outcome in objectives.split()
    ]
    return Result(
        load_point=f"{workload}/rate={value}",
        workload=workload,
        axis="RequestRate",
        value=value,
        repeats=1,
        repeats_planned=1,
        metrics={"output_throughput": throughput},
        objectives=outcomes,
        verdict=verdict,
    )


def best(rows: list[Result], ttft: dict[str, float] | None = None) -> str | None:
    """Which load is the best; `ttft`: p99 TTFT by load, unknown for others."""
    known = {
        f"chat/rate={load}": P99TTFT(each, f"{each} ms")
        for load, each in (ttft or {}).items()
    }
    found = headline(
        rows, lambda load_point: known.get(load_point, P99TTFT(None, "-"))
    )
    return found.load_point if found else None


@pytest.mark.parametrize(
    ("load_point", "rows"),
    [
        pytest.param(
            "chat/rate=4",
            [row("4", throughput=900), row("10", throughput=800)],
            id="the highest throughput, not the highest load",
        ),
        pytest.param(
            "chat/rate=9",
            [row("9"), row("10", "Suspect", throughput=2000), row("11", "Invalid")],
            id="a Valid one before a better Suspect one",
        ),
        pytest.param(
            "chat/rate=1",
            [row("1"), row("50", workload="other", throughput=2000)],
            id="the first workload only",
        ),
        pytest.param(
            None,
            [row("1", "Invalid"), row("50", workload="other")],
            id="none if the first has none",
        ),
        pytest.param(
            "chat/rate=2",
            [
                row("1", "Suspect"),
                row("2", "Suspect", throughput=900),
                row("3", "Invalid"),
            ],
            id="Suspect where none is Valid",
        ),
        pytest.param(
            "chat/rate=2",
            [row("1", throughput=None), row("2", throughput=1)],
            id="a throughput that is not known is the least",
        ),
        pytest.param(
            "chat/rate=1",
            [
                row("1", objectives="Met Met"),
                row("2", throughput=2000, objectives="Met Missed"),
            ],
            id="one that meets every objective before a faster one that does not",
        ),
        pytest.param(
            "chat/rate=1",
            [
                row("1", objectives="Met"),
                row("2", throughput=2000, objectives="Inconclusive"),
            ],
            id="with certainty",
        ),
        pytest.param(
            "chat/rate=2",
            [
                row("1", objectives="Missed"),
                row("2", throughput=2000, objectives="Missed"),
            ],
            id="the highest throughput where none meets them",
        ),
        pytest.param(
            "chat/rate=2",
            [row("1", "Suspect", objectives="Met"), row("2", objectives="Missed")],
            id="a Valid one that misses them before a Suspect one that meets them",
        ),
        pytest.param(None, [], id="no rows"),
    ],
)
def test_which_load_point(load_point: str | None, rows: list[Result]) -> None:
    assert best(rows) == load_point


def test_of_equal_throughputs_the_one_with_the_lowest_ttft_is_best() -> None:
    """A load beyond capacity has the same throughput, and requests that wait for a minute."""
    rows = [
        row("4", throughput=500),
        row("8", throughput=980),
        row("16", throughput=1000),
    ]
    assert best(rows, {"4": 50, "8": 180, "16": 82_000}) == "chat/rate=8"
    rows[1] = row("8", throughput=969)
    assert best(rows, {"4": 50, "8": 180, "16": 82_000}) == "chat/rate=16", (
        "3.1 % less"
    )


def test_of_equals_without_a_ttft_the_highest_throughput_is_best() -> None:
    rows = [row("4", throughput=990), row("8", throughput=1000)]
    assert best(rows) == "chat/rate=8"
    assert best(rows, {"4": 50}) == "chat/rate=4", "what is not known is the worst"


def test_figures() -> None:
    assert headline([row("4")], {"chat/rate=4": P99}.__getitem__) == Headline(
        load_point="chat/rate=4", throughput="812", p99_ttft="143 ms"
    )


@pytest.mark.parametrize(
    ("ttft", "marked"),
    [
        ("143 ms", "143? ms"),
        ("143? ms", "143? ms"),
        ("143 ms with queue", "143? ms with queue"),
        ("-", "-"),
    ],
)
def test_figures_of_a_suspect_load_point_are_marked(ttft: str, marked: str) -> None:
    assert headline(
        [row("4", "Suspect")], lambda _: P99TTFT(143.0, ttft)
    ) == Headline(load_point="chat/rate=4", throughput="812?", p99_ttft=marked)


def test_a_figure_that_is_not_known_is_a_dash() -> None:
    assert headline(
        [row("4", throughput=None)], lambda _: P99TTFT(None, "-")
    ) == Headline(load_point="chat/rate=4", throughput="-", p99_ttft="-")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("0.00", 0.0, id="zero"),
        pytest.param("8.12", 8.123, id="three digits"),
        pytest.param("10.0", 9.996, id="rounded up a place"),
        pytest.param("81.2", 81.23, id="of tens"),
        pytest.param("100", 99.96, id="rounded up to hundreds"),
        pytest.param("812", 812.4, id="of hundreds"),
        pytest.param("12345", 12345.4, id="the whole part is never cut"),
        pytest.param("-", None, id="nothing"),
    ],
)
def test_short_numbers(text: str, value: float | None) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("text", "count", "load"),
    [
        pytest.param("25.0 ms", 570, OPEN_LOOP, id="enough requests to bound it"),
        pytest.param("25.0? ms", 550, OPEN_LOOP, id="one too few"),
        pytest.param(
            "25.0 ms with queue",
            570,
            open_loop_load(concurrency=2),
            id="a cap under a rate: since it was due",
        ),
        pytest.param(
            "20.0 ms", 570, users(2), id="users have no queue in the client"
        ),
    ],
)
def test_the_p99_of_a_load_point(
    text: str, count: int, load: ExpectedStage
) -> None:
    columns = requests(
        start_us=[250_000 * i for i in range(count)],
        ttft_us=[20_000] * count,
        e2el_us=[90_000] * count,
        output_tokens=[9] * count,
        queue_us=[5000] * count,
    )
    stage = record(requests=columns, load=load.load)
    context = LoadPointContext(
        load_point(), Thresholds(), load, ["99"], (measured(stage, load),)
    )
    found = p99_ttft(context)
    assert found.text == text
    assert found.milliseconds == float(text.split()[0].rstrip("?"))


def test_nothing_answered_has_no_p99() -> None:
    nothing = record(requests=requests(ok=(0, 0)))
    failed = LoadPointContext(
        load_point(),
        Thresholds(),
        OPEN_LOOP,
        ["99"],
        (measured(nothing, OPEN_LOOP),),
    )
    assert p99_ttft(failed) == (None, "-")
