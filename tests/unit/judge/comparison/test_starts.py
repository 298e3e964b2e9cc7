"""Time to ready: a figure of servers and not of a load, judged like the others."""

from collections.abc import Sequence
from typing import Any

import pytest
from benchrun.api import KEYS, STARTUP
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.figures import time_to_ready
from benchrun.plan import COMPILE_CLAIM
from unit.judge.comparison.sides import LOAD_POINT, compared, run, words
from unit.plan.specs import spec, spec_body
from unit.sweep.test_table import tabled


def started(
    name: str,
    seconds: float | None,
    *,
    pull: float | None = 0.0,
    restarts: int = 0,
    **more: Any,
) -> MeasuredRun:
    startup = {} if pull is None else {"imagePullSeconds": pull}
    server = {"startup": startup, "secondsToReady": seconds, "restarts": restarts}
    return run(name, server=server, **more)


def side(prefix: str, *seconds: float) -> Sequence[MeasuredRun]:
    return [started(f"{prefix}{n}", each) for n, each in enumerate(seconds)]


SLOW = side("s", 120.0, 122.0, 118.0, 121.0)
FAST = side("f", 60.0, 61.0, 59.0, 60.5)


def test_a_start_in_half_the_time_is_better_and_the_other_way_worse() -> None:
    found = compared(SLOW, FAST, "TimeToReady")
    (point,) = found.load_points
    (change,) = point.changes
    assert (point.load_point, change.metric, change.word) == (
        STARTUP,
        "TimeToReady",
        "Better",
    )
    assert change.baseline == pytest.approx(120.2, abs=0.1)
    assert change.change_percent == pytest.approx(-50, abs=1)
    assert found.scope == "BetweenServers"
    assert words(compared(FAST, SLOW, "TimeToReady"), STARTUP) == {
        "TimeToReady": "Worse"
    }


def test_it_is_asked_once_and_only_where_it_is_named() -> None:
    both = compared(SLOW, FAST, "MeanTTFT", "TimeToReady")
    assert [each.load_point for each in both.load_points] == [LOAD_POINT, STARTUP]
    assert set(words(both)) == {"MeanTTFT"}
    without = compared(SLOW, FAST)
    assert [each.load_point for each in without.load_points] == [LOAD_POINT]


def test_the_pull_of_an_image_is_not_the_configurations() -> None:
    pulled = [started(f"p{n}", 60.0 + n + 300, pull=300.0) for n in range(4)]
    there = [started(f"t{n}", 60.0 + n) for n in range(4)]
    (point,) = compared(pulled, there, "TimeToReady").load_points
    assert point.changes[0].change_percent == 0


@pytest.mark.parametrize(
    ("one", "words_of_reason"),
    [
        pytest.param(started("x", None), "time to ready", id="unknown"),
        pytest.param(started("x", 60.0, pull=None), "image", id="unknown pull"),
        pytest.param(started("x", 9.0, pull=10.0), "time to ready", id="negative"),
        pytest.param(started("x", 60.0, restarts=1), "restarted", id="restarted"),
    ],
)
def test_what_is_not_known_is_not_compared(
    one: MeasuredRun, words_of_reason: str
) -> None:
    (point,) = compared([*SLOW[:3], one], FAST, "TimeToReady").load_points
    (change,) = point.changes
    assert change.word == "NotComparable"
    assert "x" in (change.reason or "")
    assert words_of_reason in (change.reason or "")


def test_one_start_a_side_has_no_known_noise() -> None:
    (point,) = compared(SLOW[0], FAST[0], "TimeToReady").load_points
    (change,) = point.changes
    assert (change.word, change.change_percent) == ("Unknown", -50)
    assert "one start" in (change.reason or "")


def test_instants_of_whole_seconds_are_no_certainty() -> None:
    one, other = side("a", *[3.0] * 3), side("b", *[3.1] * 3)
    assert words(compared(one, other, "TimeToReady"), STARTUP) == {
        "TimeToReady": "NoDetectableDifference"
    }


def test_servers_that_compiled_are_not_compared_with_those_that_did_not() -> None:
    cold, warm = (
        [
            run(
                f"{kind}{n}",
                server={
                    "secondsToReady": 60.0 + n,
                    "startup": {"imagePullSeconds": 0, "compiled": kind},
                },
            )
            for n in range(4)
        ]
        for kind in ("Cold", "Warm")
    )
    (point,) = compared(cold, warm, "TimeToReady").load_points
    assert point.throughput_of is None
    for part in ("compile cache", "Cold", "Warm"):
        assert part in (point.reason or "")
    (alike,) = compared(cold[:2], cold[2:], "TimeToReady").load_points
    assert alike.reason is None


def kept(
    prefix: str, compiled: str | None, *, claim: str = "", **server: Any
) -> Sequence[MeasuredRun]:
    """Return fresh servers whose log says this of a compile cache that their spec names."""
    startup = {"imagePullSeconds": 0} | (
        {} if compiled is None else {"compiled": compiled}
    )
    body = spec_body()
    body["server"]["compileCacheClaim"] = claim
    return [
        run(
            f"{prefix}{n}",
            run_spec=spec(**body),
            server={"secondsToReady": 60.0 + n, "startup": startup} | server,
        )
        for n in range(4)
    ]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        pytest.param(kept("w", "Warm"), kept("n", None), "none in n", id="warm"),
        pytest.param(kept("c", "Cold"), kept("n", None), None, id="cold"),
        pytest.param(kept("m", None), kept("n", None), None, id="neither"),
        pytest.param(
            kept("w", "Warm"),
            kept("u", None, claim="kept"),
            "not known in u",
            id="unknown",
        ),
        pytest.param(
            kept("c", "Cold"),
            kept("p", None, defaults={COMPILE_CLAIM: "kept"}),
            "not known in p",
            id="unknown, of the platform",
        ),
    ],
)
def test_a_warm_start_is_not_compared_with_one_that_compiled(
    one: Sequence[MeasuredRun], other: Sequence[MeasuredRun], said: str | None
) -> None:
    """Without a claim a server compiles as a cold one does."""
    for sides in ((one, other), (other, one)):
        (point,) = compared(*sides, "TimeToReady").load_points
        assert (point.reason is None) == (said is None), point.reason
        assert (said or "") in (point.reason or "")


def test_an_endpoint_has_no_start() -> None:
    endpoint = spec(server=None, endpoint={"url": "http://llm"})
    outside = started("e", 5.0, run_spec=endpoint)
    (point,) = compared(outside, outside_of(outside), "TimeToReady").load_points
    assert "endpoint" in (point.reason or "")


def outside_of(other: MeasuredRun) -> MeasuredRun:
    return started("o", 5.0, run_spec=other.spec)


def test_a_gate_on_it_fails_where_it_regressed() -> None:
    assert compared(FAST, SLOW, "TimeToReady", limit=5).gate == "Regressed"
    assert compared(SLOW, FAST, "TimeToReady", limit=5).gate == "NotRegressed"


def test_the_time_of_several_roles_is_that_of_the_last_one() -> None:
    one, other = (started("x", seconds).status.servers[0] for seconds in (5.0, 9.0))
    assert time_to_ready([one, other]) == 9.0


def test_what_one_role_pulled_is_not_taken_from_the_time_of_another() -> None:
    slow = started("x", 100.0).status.servers[0]
    pulled = started("x", 100.0, pull=80.0).status.servers[0]
    assert isinstance(time_to_ready([slow, pulled]), str)
    assert time_to_ready([pulled, pulled]) == 20.0


def test_of_several_pods_the_pull_of_the_first_is_not_that_of_all() -> None:
    two = started("x", 360.0).status.servers[0].model_copy(update={"replicas": 2})
    assert isinstance(time_to_ready([two]), str)
    body = {**spec_body()["server"], "nodesPerReplica": 2}
    several = spec(server=body)
    spread = [started(f"y{n}", 60.0 + n, run_spec=several) for n in range(4)]
    (point,) = compared(spread[:2], spread[2:], "TimeToReady").load_points
    assert point.changes[0].word == "NotComparable"
    assert "first" in (point.changes[0].reason or "")


def test_a_sweep_has_a_row_for_the_start_of_each_variant() -> None:
    found = tabled({"base": SLOW, "fast": FAST}, replications=4, starts=True)
    rows = {row.variant: row for row in found.results if row.load_point == STARTUP}
    key = KEYS["TimeToReady"]
    assert rows["base"].metrics[key] == pytest.approx(120.2, abs=0.1)
    assert (rows["base"].changes, rows["fast"].verdict) == ([], "Valid")
    (change,) = rows["fast"].changes
    assert (change.word, change.value) == ("Better", None)
    assert found.outcomes["fast"] == "Better"
    plain = tabled({"base": SLOW, "fast": FAST}, replications=4)
    assert {row.load_point for row in plain.results} == {LOAD_POINT}


def test_a_variant_without_a_measured_run_has_a_row_that_says_so() -> None:
    found = tabled(
        {"base": SLOW, "none": []},
        replications=4,
        starts=True,
        missing={"none": "it failed"},
    )
    (row,) = (
        row
        for row in found.results
        if (row.variant, row.load_point) == ("none", STARTUP)
    )
    assert (row.verdict, row.reason, row.metrics) == ("Unknown", "it failed", {})
