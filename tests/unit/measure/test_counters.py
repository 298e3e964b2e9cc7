"""Counters between the edges of a stage: how far they rose, and whether it was one server all
along."""

import pytest
from benchrun.measure import (
    GENERATION_TOKENS,
    PREFIX_HITS,
    PREFIX_QUERIES,
    duration_seconds,
    fallen_counters,
    is_reset,
    is_restarted,
    pod_windows,
    rise,
    rise_at,
)
from benchrun_client.contract import START_TIME, ServerEdge
from unit.measure.records import ZERO, edge, record, sample

UNREAD = ServerEdge(address="b", before=ZERO, after=None)
SILENT = ServerEdge(
    address="b", before={START_TIME: 1000.0}, after={START_TIME: 1000.0}
)
RESTARTED = edge("b", after={START_TIME: 2000.0})
FALLEN = edge("b", before={PREFIX_QUERIES: 500.0}, after={PREFIX_QUERIES: 20.0})


@pytest.mark.parametrize(
    ("expected", "edges"),
    [
        pytest.param(200.0, (edge(),), id="one server"),
        pytest.param(
            500.0,
            (edge(), edge("b", rises={PREFIX_QUERIES: 300.0})),
            id="servers are summed",
        ),
        pytest.param(None, (), id="no server at all says nothing"),
        pytest.param(None, (edge(), UNREAD), id="an edge that was not read"),
        pytest.param(None, (edge(), SILENT), id="a server without log stats"),
        pytest.param(
            None, (edge(), RESTARTED), id="a restart, though the counter rose"
        ),
        pytest.param(None, (edge(), FALLEN), id="a fall is a reset, not 0"),
    ],
)
def test_rise_over_servers(
    expected: float | None, edges: tuple[ServerEdge, ...]
) -> None:
    assert rise(edges, PREFIX_QUERIES) == expected


def test_any_fallen_counter_spoils_the_others() -> None:
    assert rise([FALLEN], PREFIX_HITS) is None


@pytest.mark.parametrize(
    ("restarted", "reset", "fallen", "server"),
    [
        pytest.param(False, False, (), edge(), id="a steady server"),
        pytest.param(True, True, (), RESTARTED, id="another start time"),
        pytest.param(False, True, (PREFIX_QUERIES,), FALLEN, id="a fallen counter"),
        pytest.param(False, False, (), UNREAD, id="unread says nothing"),
        pytest.param(False, False, (), SILENT, id="no counters say nothing"),
        pytest.param(
            True,
            True,
            (),
            edge("b", after={START_TIME: 999.0}),
            id="an earlier start is another process too",
        ),
    ],
)
def test_resets(
    restarted: bool, reset: bool, fallen: tuple[str, ...], server: ServerEdge
) -> None:
    assert (is_restarted(server), is_reset(server), fallen_counters(server)) == (
        restarted,
        reset,
        fallen,
    )


def test_a_fall_at_one_server_is_negative() -> None:
    assert rise_at(FALLEN, PREFIX_QUERIES) == -480.0


WORSE = [1e308, float("inf"), float("-inf"), float("nan"), -1.0, 1.1e15]


@pytest.mark.parametrize("value", WORSE)
def test_a_counter_that_no_server_has_has_not_risen(value: float) -> None:
    honest = edge(before={GENERATION_TOKENS: 0.0})
    forged = honest.model_copy(
        update={"after": {**(honest.after or {}), GENERATION_TOKENS: value}}
    )
    edges = [forged] * 3
    assert rise(edges, GENERATION_TOKENS) is None
    assert not any(map(is_reset, edges))


@pytest.mark.parametrize("value", WORSE)
def test_samples_are_found_without_it(value: float) -> None:
    snapshot = {START_TIME: value, GENERATION_TOKENS: value}
    stage = record(
        servers=(edge().model_copy(update={"before": snapshot, "after": snapshot}),)
    )
    (window,) = pod_windows(stage, [sample(stage.first_send_unix_us / 1e6)])
    assert len(window.samples) == 1


@pytest.mark.parametrize("value", WORSE)
def test_a_duration_that_no_stage_has_is_taken_from_the_clock(value: float) -> None:
    stage = record().model_copy(update={"scalars": {"duration": value}})
    assert (
        duration_seconds(stage)
        == (stage.last_receive_unix_us - stage.first_send_unix_us) / 1e6
    )
