"""Better, Worse, no detectable difference, or not to be told; and an interval that says the
same."""

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import fmean, stdev
from typing import Any

import pytest
from benchrun.api import DEFAULT_METRICS, Change, ComparedLoadPoint, ComparedMetric
from benchrun.judge.comparison.comparability import (
    MeasuredRun,
    measured_run,
    results_digest,
)
from benchrun.judge.comparison.compare import compare
from benchrun.judge.comparison.figures import FEW_SERVERS, NO_CV, ONE_REPEAT
from benchrun.judge.status_size import MAX_COMPARISON_BYTES, fitted_load_points
from benchrun.observe import Run
from hypothesis import example, given, strategies as st
from unit.judge.comparison.sides import (
    ENDED,
    LATENCIES,
    TYPICAL,
    changes,
    compared,
    repeated,
    row,
    run,
    servers,
    words,
)
from unit.plan.specs import spec_body


def ends(change: Change) -> list[float]:
    """Lower end, estimate, upper end."""
    found = (change.low_percent, change.change_percent, change.high_percent)
    return [end for end in found if end is not None]


@pytest.mark.parametrize(
    ("expected", "metric", "factor"),
    [
        ("Better", "OutputThroughput", 1.2),
        ("Worse", "OutputThroughput", 0.8),
        ("Better", "RequestThroughput", 1.2),
        ("Better", "TotalTokenThroughput", 1.2),
        ("Better", "MeanTTFT", 0.8),
        ("Worse", "MeanTTFT", 1.2),
        ("Worse", "MeanTPOT", 1.2),
        ("Worse", "MeanITL", 1.2),
        ("Worse", "MeanE2EL", 1.2),
        ("NoDetectableDifference", "MeanTTFT", 1.005),
        ("NoDetectableDifference", "OutputThroughput", 1.0),
    ],
)
def test_more_throughput_is_better_and_more_latency_is_worse(
    expected: str, metric: ComparedMetric, factor: float
) -> None:
    changed: dict[str, Any] = {metric: TYPICAL[metric] * factor}
    found = compared(repeated("a"), repeated("b", **changed), metric)
    assert words(found) == {metric: expected}
    assert found.outcome == expected


def test_the_interval_of_one_server_a_side_by_hand() -> None:
    """CV 2 % over 4 repeats on both sides: a standard error of 0.01414 in logarithms, and t is
    2.447 at 6 degrees."""
    before = repeated("a", repeats=4, cv=2, MeanTTFT=100)
    after = repeated("b", repeats=4, cv=2, MeanTTFT=110)
    change = changes(compared(before, after, "MeanTTFT"))["MeanTTFT"]
    assert (change.baseline, change.value) == (100.0, 110.0)
    assert ends(change) == pytest.approx(
        [100 * math.expm1(0.09531 + t * 0.014141) for t in (-2.4469, 0, 2.4469)],
        abs=0.01,
    )


def test_the_interval_of_several_servers_by_hand() -> None:
    """Welch's t-test of the logarithms, as SciPy computes it."""
    before = [
        run(f"a{n}", MeanTTFT=value)
        for n, value in enumerate((100.0, 102.0, 104.0))
    ]
    after = [
        run(f"b{n}", MeanTTFT=value)
        for n, value in enumerate((110.0, 112.0, 114.0))
    ]
    change = changes(compared(before, after, "MeanTTFT"))["MeanTTFT"]
    assert ends(change) == pytest.approx([5.2201, 9.8063, 14.5925], abs=0.005)
    assert (change.baseline, change.value) == (101.99, 111.99)


@pytest.mark.parametrize(
    ("reason", "after"),
    [
        pytest.param(
            ONE_REPEAT, repeated("b", repeats=1, MeanTTFT=200.0), id="one repeat"
        ),
        pytest.param(
            NO_CV,
            run("b", repeats=3, MeanTTFT=200.0),
            id="an older operator did not say",
        ),
    ],
)
def test_without_an_idea_of_the_noise_a_change_is_only_a_number(
    reason: str, after: object
) -> None:
    found = compared(repeated("a", MeanTTFT=100.0), after, "MeanTTFT")  # type: ignore[arg-type]
    change = changes(found)["MeanTTFT"]
    assert (change.word, change.reason, found.outcome) == (
        "Unknown",
        reason,
        "Unknown",
    )
    assert (change.change_percent, change.low_percent, change.high_percent) == (
        100.0,
        None,
        None,
    )
    assert "95 %" not in found.message


def test_a_figure_that_one_side_lacks_is_not_comparable_and_the_others_are() -> (
    None
):
    found = compared(
        repeated("a"), repeated("b", MeanTTFT=None), "OutputThroughput", "MeanTTFT"
    )
    assert words(found) == {
        "OutputThroughput": "NoDetectableDifference",
        "MeanTTFT": "NotComparable",
    }
    assert changes(found)["MeanTTFT"].reason == "b has no mean_ttft_ms"
    assert found.outcome == "NoDetectableDifference"


def test_a_throughput_of_zero_has_no_ratio() -> None:
    assert words(
        compared(
            repeated("a", OutputThroughput=0.0), repeated("b"), "OutputThroughput"
        )
    ) == {"OutputThroughput": "NotComparable"}


def test_better_and_worse_together_are_mixed() -> None:
    found = compared(
        repeated("a"), repeated("b", OutputThroughput=1500.0, MeanTTFT=60.0)
    )
    assert (found.outcome, words(found)) == (
        "Mixed",
        {"OutputThroughput": "Better", "MeanTTFT": "Worse"},
    )


def test_values_equal_to_their_last_digit_are_not_exact() -> None:
    """Results carry five digits: the last one may come from rounding."""
    before, after = (
        [run(f"{side}{n}", RequestThroughput=value) for n in range(3)]
        for side, value in (("a", 3.9999), ("b", 4.0))
    )
    assert words(compared(before, after, "RequestThroughput")) == {
        "RequestThroughput": "Equivalent"
    }


def test_more_figures_widen_every_interval() -> None:
    before = repeated("a")
    after = repeated("b", MeanTTFT=43.9)
    alone = changes(compared(before, after, "MeanTTFT"))["MeanTTFT"]
    among = changes(
        compared(before, after, "MeanTTFT", "MeanTPOT", "MeanITL", "MeanE2EL")
    )["MeanTTFT"]
    assert ends(among)[2] > ends(alone)[2]


def test_two_values_a_side_leave_an_end_that_can_be_written() -> None:
    load_points = [f"chat/rate={n}" for n in range(1, 65)]
    wild = [
        [
            run(f"{side}{n}", [row(c, MeanTTFT=43.0 * 9**n) for c in load_points])
            for n in range(2)
        ]
        for side in "ab"
    ]
    found = compared(wild[0], wild[1])
    ends = [
        change.high_percent
        for load_point in found.load_points
        for change in load_point.changes
    ]
    assert all(end is not None and end < 1e6 for end in ends)


@given(
    seed=st.integers(0, 10_000),
    effect=st.sampled_from((1.0, 1.01, 1.03, 1.1)),
    count=st.integers(2, 6),
)
@example(seed=1249, effect=1.0, count=2)
def test_the_interval_leaves_zero_out_exactly_where_the_word_says_so(
    seed: int, effect: float, count: int
) -> None:
    """A change of 0.2 to 0.8 % is Equivalent, though its interval leaves zero out."""
    random = Random(seed)
    load_points = ("chat/rate=1", "chat/rate=4")
    before = servers("a", random, count=count, load_points=load_points)
    after = servers(
        "b", random, count=count, load_points=load_points, effect=effect
    )
    for load_point in compared(before, after).load_points:
        for change in load_point.changes:
            low, middle, high = ends(change)
            assert low <= middle <= high
            leaves_out = low >= 0 or high <= 0
            if change.word == "Equivalent":
                assert -1 <= low <= high <= 1
            else:
                assert leaves_out == (change.word in ("Better", "Worse"))


def test_correlated_figures_are_found_beyond_their_intervals() -> None:
    """A change of 3.3 times its error is too little for one of ten figures, and enough where all
    ten moved."""
    shift = 3.3 * 0.01
    figures: dict[str, Any] = {
        metric: (1 + shift) * TYPICAL[metric]
        if metric in LATENCIES
        else TYPICAL[metric] / (1 + shift)
        for metric in TYPICAL
    }
    found = changes(
        compared(
            repeated("a", cv=1.58), repeated("b", cv=1.58, **figures), *TYPICAL
        )
    )
    before = changes(
        compared(
            repeated("a", cv=1.58),
            repeated("b", cv=1.58, MeanTTFT=43.0 * (1 + shift)),
            *TYPICAL,
        )
    )
    assert (found["MeanTTFT"].word, before["MeanTTFT"].word) == (
        "Worse",
        "NoDetectableDifference",
    )
    assert found["MeanTTFT"].low_percent == 0
    assert ends(before["MeanTTFT"])[0] < 0


def test_all_intervals_hold_at_once_in_95_percent() -> None:
    """Half of the figures did not change, half by 5 %; 20 in all. As 20 intervals of 95 % each, all
    would hold in 36 %."""
    random = Random(41)
    rounds = 150
    held = 0
    load_points = [f"chat/rate={n}" for n in range(1, 5)]
    for _ in range(rounds):
        before = servers("a", random, load_points=load_points)
        after = [
            run(s.name, [*s.status.results[:2], *o.status.results[2:]])
            for s, o in zip(
                servers("b", random, load_points=load_points),
                servers("b", random, load_points=load_points, effect=1.05),
                strict=True,
            )
        ]
        found = compared(
            before,
            after,
            "MeanTTFT",
            "MeanTPOT",
            "MeanITL",
            "MeanE2EL",
            "OutputThroughput",
        )
        held += all(
            low
            <= (
                0.0
                if load_point.load_point in load_points[:2]
                else -100 / 21
                if change.metric == "OutputThroughput"
                else 5.0
            )
            <= high
            for load_point in found.load_points
            for change in load_point.changes
            for low, _, high in [ends(change)]
        )
    assert held / rounds >= 0.92


@pytest.mark.parametrize(
    ("word", "factor", "cv", "least"),
    [
        pytest.param("Equivalent", 1.0, 0.2, 1.0, id="nothing changed"),
        pytest.param(
            "Equivalent", 1.004, 0.05, 1.0, id="changed, by less than matters"
        ),
        pytest.param("Worse", 1.004, 0.05, 0.2, id="where less matters"),
        pytest.param(
            "NoDetectableDifference", 1.0, 2.0, 1.0, id="too noisy to tell"
        ),
        pytest.param("Equivalent", 1.0, 2.0, 5.0, id="where only more matters"),
        pytest.param("Worse", 1.0095, 0.05, 0.9, id="by more than matters"),
    ],
)
def test_equivalent_is_shown_to_be_less_than_matters(
    word: str, factor: float, cv: float, least: float
) -> None:
    before = repeated("a", cv=cv)
    after = repeated("b", cv=cv, MeanTTFT=43.0 * factor)
    found = compare(
        [before], [after], metrics=["MeanTTFT"], equivalence_percent=least
    )
    assert (words(found), found.outcome) == ({"MeanTTFT": word}, word)
    low, _, high = ends(changes(found)["MeanTTFT"])
    assert (word == "Equivalent") == (-least <= low and high <= least)


def test_a_change_at_the_limit_of_what_matters_is_rarely_equivalent() -> None:
    random = Random(43)
    rounds = 300
    sides = [
        (
            servers("a", random, cv=0.002),
            servers("b", random, cv=0.002, effect=1.01),
        )
        for _ in range(rounds)
    ]
    outcomes = [
        compared(before, after, "MeanTTFT").outcome for before, after in sides
    ]
    assert outcomes.count("Equivalent") <= 0.05 * rounds


def test_an_unknown_value_is_not_called_unchanged() -> None:
    load_points = [
        row("chat/rate=1", repeats=5, cv=1.0),
        row("chat/rate=4", repeats=1),
    ]
    assert (
        compared(run("a", load_points), run("b", load_points)).outcome == "Unknown"
    )
    same = [
        row("chat/rate=1", repeats=5, cv=0.1),
        row("chat/rate=4", repeats=5, cv=3.0),
    ]
    assert (
        compared(run("a", same), run("b", same)).outcome == "NoDetectableDifference"
    )


def test_a_percentile_takes_five_servers_a_side() -> None:
    random = Random(47)
    sides = [
        [run(f"{s}{n}", P99TTFT=random.gauss(at, 4.0)) for n in range(5)]
        for s, at in (("a", 100), ("b", 130))
    ]
    assert words(compared(sides[0], sides[1], "P99TTFT")) == {"P99TTFT": "Worse"}
    few = compared(sides[0][:4], sides[1], "P99TTFT")
    assert (words(few), changes(few)["P99TTFT"].reason) == (
        {"P99TTFT": "Unknown"},
        FEW_SERVERS,
    )
    assert words(
        compared(
            repeated("a", P99TTFT=100.0), repeated("b", P99TTFT=130.0), "P99TTFT"
        )
    ) == {"P99TTFT": "Unknown"}
    rare = row(P99TTFT=100.0).model_copy(update={"uncertain": ["p99_ttft_ms"]})
    unsure = compared(sides[0], [*sides[1][:4], run("c", [rare])], "P99TTFT")
    assert words(unsure) == {"P99TTFT": "NotComparable"}


def blocked(
    side: str, random: Random, luck: Sequence[float], *, effect: float = 1.0
) -> list[MeasuredRun]:
    """A server a block, whose luck all sides share."""
    figures = (
        (block, 43.0 * effect * each * random.gauss(1, 0.005))
        for block, each in enumerate(luck, 1)
    )
    return [
        replace(run(f"{side}{block}", MeanTTFT=figure), block=block)
        for block, figure in figures
    ]


def test_blocks_are_compared_block_by_block() -> None:
    random = Random(53)
    luck = [0.9, 0.95, 1.0, 1.05, 1.1, 1.15]
    before = blocked("a", random, luck)
    after = blocked("b", random, luck, effect=1.03)
    assert words(compared(before, after, "MeanTTFT")) == {"MeanTTFT": "Worse"}
    change = changes(compared(before, after, "MeanTTFT"))["MeanTTFT"]
    logs = [
        math.log(
            float(b.status.results[0].metrics["mean_ttft_ms"] or 0)
            / float(a.status.results[0].metrics["mean_ttft_ms"] or 1)
        )
        for a, b in zip(before, after, strict=True)
    ]
    mean = fmean(logs)
    noise = stdev(logs) / math.sqrt(6)
    assert ends(change) == pytest.approx(
        [100 * math.expm1(mean + t * noise) for t in (-2.5706, 0, 2.5706)], abs=0.01
    )


@pytest.mark.parametrize(
    "left", [slice(0, 4), slice(1, 6)], ids=["too few", "not the same blocks"]
)
def test_without_the_same_blocks_on_both_sides_welch(left: slice) -> None:
    random = Random(59)
    luck = [0.9, 0.95, 1.0, 1.05, 1.1, 1.15]
    before = blocked("a", random, luck)
    after = blocked("b", random, luck, effect=1.03)
    other = before[left] if left.stop == 4 else before[:5]
    assert words(compared(other, after[left], "MeanTTFT")) == {
        "MeanTTFT": "NoDetectableDifference"
    }


def test_blocks_of_equals_are_called_different_in_at_most_5_percent() -> None:
    random = Random(61)
    rounds = 200
    luck = [[random.gauss(1, 0.05) for _ in range(5)] for _ in range(rounds)]
    outcomes = [
        compared(
            blocked("a", random, each), blocked("b", random, each), "MeanTTFT"
        ).outcome
        for each in luck
    ]
    assert sum(each in ("Better", "Worse") for each in outcomes) <= 0.075 * rounds


@given(seed=st.integers(0, 10_000))
def test_the_other_way_round_better_is_worse(seed: int) -> None:
    random = Random(seed)
    before = servers("a", random)
    after = servers("b", random, effect=1.03)
    turned = {"Better": "Worse", "Worse": "Better"}
    there = words(compared(before, after))
    back = words(compared(after, before))
    assert back == {
        metric: turned.get(word, word) for metric, word in there.items()
    }


# How often the words are wrong: 5 fresh servers a side, each figure with a CV of 1.5 %.

DIFFERENT = ("Better", "Worse", "Mixed")


def test_equals_are_called_different_in_at_most_5_percent_of_500_pairs() -> None:
    random = Random(20260101)
    outcomes = [
        compared(
            servers("a", random), servers("b", random), *DEFAULT_METRICS
        ).outcome
        for _ in range(500)
    ]
    assert sum(outcome in DIFFERENT for outcome in outcomes) <= 25


def test_a_true_effect_of_5_percent_is_found_in_at_least_90_percent() -> None:
    random = Random(20260102)
    found = [
        compared(
            servers("a", random),
            servers("b", random, effect=1.05),
            *DEFAULT_METRICS,
        )
        for _ in range(150)
    ]
    assert sum(each.outcome == "Worse" for each in found) >= 0.9 * len(found)
    figures = [word for each in found for word in words(each).values()]
    assert figures.count("Worse") >= 0.9 * len(figures)
    assert "Better" not in figures


# What is said of a comparison: counts, the most marked change, and no more than was measured.


def test_regressions_are_named_first() -> None:
    after = repeated("b", OutputThroughput=1500.0, MeanTTFT=60.0, MeanTPOT=20.0)
    found = compared(
        repeated("a"), after, "OutputThroughput", "MeanTTFT", "MeanTPOT"
    )
    assert found.message.startswith(
        "3 figures: 1 better, 2 worse. The worst: MeanTPOT at chat/rate=4 +81.8 % ("
    )


def test_the_sentence_names_the_best_improvement() -> None:
    found = compared(
        repeated("a"), repeated("b", OutputThroughput=1500.0, MeanTTFT=20.0)
    )
    assert "The best: MeanTTFT at chat/rate=4 -53.5 % (" in found.message


def test_a_throughput_that_fell_is_worse_than_a_latency_that_rose_less() -> None:
    found = compared(
        repeated("a"), repeated("b", OutputThroughput=600.0, MeanTTFT=60.0)
    )
    assert "The worst: OutputThroughput at chat/rate=4 -50.0 % (" in found.message


def test_the_level_and_the_scope_are_stated() -> None:
    message = compared(repeated("a"), repeated("b")).message
    assert "2 figures: 2 without a detectable difference" in message
    assert "95 % confidence" in message
    assert message.endswith("Another start of the same server may differ by more")


def test_each_statement_is_a_sentence_of_its_own() -> None:
    message = compared(repeated("a"), repeated("b", MeanTTFT=60.0)).message
    assert ";" not in message
    assert max(len(each.split()) for each in message.split(". ")) <= 20


def test_runs_without_results_have_nothing_to_compare() -> None:
    assert (
        compared(run("a", []), run("b", [])).message
        == "no load point is comparable: neither side has results"
    )


# A comparison keeps to its share of the status: what got worse stays.

METRICS: tuple[ComparedMetric, ...] = tuple(TYPICAL)


def load_points(count: int, *, ttft: float = 60.0) -> list[ComparedLoadPoint]:
    ids = [f"chat/rate={n}" for n in range(1, count + 1)]
    before, after = (
        run(
            name,
            [
                row(load_point, repeats=5, cv=1, MeanTTFT=value)
                for load_point in ids
            ],
        )
        for name, value in (("a", 43.0), ("b", ttft))
    )
    return compared(before, after, *METRICS).load_points


def size(kept: list[ComparedLoadPoint]) -> int:
    return sum(
        len(load_point.model_dump_json(by_alias=True, exclude_none=True))
        for load_point in kept
    )


def test_a_small_one_is_whole() -> None:
    whole = load_points(4)
    assert fitted_load_points(whole) == (whole, [])


def test_a_large_comparison_keeps_regressions_and_reports_omissions() -> None:
    kept, notes = fitted_load_points(load_points(64))
    assert size(kept) <= MAX_COMPARISON_BYTES
    assert {
        change.word for load_point in kept for change in load_point.changes
    } == {"Worse"}
    assert [(note.field, note.total, note.included) for note in notes] == [
        ("comparison.loadPoints[].changes", 448, 64)
    ]


def test_load_points_go_last() -> None:
    kept, notes = fitted_load_points(load_points(8), max_bytes=400)
    assert 0 < len(kept) < 8
    assert size(kept) <= 400
    assert [note.field for note in notes] == [
        "comparison.loadPoints",
        "comparison.loadPoints[].changes",
    ]


# A run as it stands in the cluster, made into a side of a comparison.

RESULTS = [row().model_dump(mode="json", by_alias=True, exclude_none=True)]


def stored(**status: object) -> Run:
    return Run(
        "lab",
        "before",
        "uid-1",
        1,
        spec=spec_body(),
        status={"completionTime": ENDED, **status},
    )


def test_what_it_measured_is_found_by_load_point() -> None:
    found = measured_run(stored(results=RESULTS))
    assert (found.name, found.uid) == ("before", "uid-1")
    assert found.row("chat/rate=4") == row()
    assert (found.row("chat/rate=8"), found.workload("bulk")) == (None, None)


def test_the_digest_is_of_the_results_alone_and_of_all_of_them() -> None:
    def digest_of(**status: Any) -> str:
        return results_digest(measured_run(stored(**status)))

    digest = digest_of(results=RESULTS)
    assert digest.startswith("sha256:")
    assert digest_of(results=RESULTS, message="other") == digest
    assert digest_of(results=[{**RESULTS[0], "repeats": 2}]) != digest


def test_a_spec_of_another_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="fieldOfANewerOperator"):
        measured_run(
            Run(
                "lab", "a", "u", 1, spec={**spec_body(), "fieldOfANewerOperator": 1}
            )
        )
