"""Several servers: alike or not, evenly loaded or not."""

import random
from collections import Counter
from typing import Any

import pytest
from benchrun.judge.rules.replicas import load_uneven, replicas_unequal
from benchrun.judge.rules.rule import Code, StageFinding
from benchrun_client.contract import ServerEdge
from unit.judge.stages import (
    context,
    findings,
    one_finding,
    open_loop_load,
    unchecked,
)
from unit.measure.records import ZERO, edge, record, requests

FINISHED = "request_success_total"


def server(address: str, finished: float = 10.0, **changes: Any) -> ServerEdge:
    """A server that tells version and settings."""
    identity = {"version": "0.32.0", "settings": "f" * 64}
    return edge(address, rises={FINISHED: finished}).model_copy(
        update=identity | changes
    )


def unequal(*servers: ServerEdge) -> list[StageFinding]:
    return findings(replicas_unequal(context()(record(servers=servers))))


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((server("a"),), id="one server"),
        pytest.param(
            (server("a", version=None),), id="one server that tells nothing"
        ),
        pytest.param((server("a"), server("b")), id="two alike"),
    ],
)
def test_equal_replicas(servers: tuple[ServerEdge, ...]) -> None:
    assert replicas_unequal(context()(record(servers=servers))) == []


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param(
            (server("a"), server("b", version="0.31.0")), id="another version"
        ),
        pytest.param(
            (server("a"), server("b", settings="e" * 64)), id="other settings"
        ),
        pytest.param(
            (
                server("a", models="id=m max_model_len=4096"),
                server("b", models="id=m"),
            ),
            id="other models",
        ),
        pytest.param((server("a"), server("b", after=None)), id="gone at the end"),
        pytest.param((server("a"), server("b", before=None)), id="new at the end"),
        pytest.param(
            (server("a", version="0.31.0"), server("b", version=None), server("c")),
            id="one tells nothing",
        ),
    ],
)
def test_unequal_replicas(servers: tuple[ServerEdge, ...]) -> None:
    assert [(f.code, f.severity) for f in unequal(*servers)] == [
        (Code.REPLICAS_UNEQUAL, "Invalid")
    ]


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((), id="no server's page could be read"),
        pytest.param(
            (server("a"), server("b", version=None)), id="a version is not told"
        ),
        pytest.param(
            (server("a"), server("b", settings=None)), id="settings are not told"
        ),
        pytest.param(
            (server("a", after=None), server("b", after=None)),
            id="no page was read at the end",
        ),
        pytest.param(
            (server("a", models="id=m"), server("b")),
            id="models are told by one only",
        ),
    ],
)
def test_equality_that_cannot_be_checked_is_reported(
    servers: tuple[ServerEdge, ...],
) -> None:
    found = replicas_unequal(context()(record(servers=servers)))
    assert findings(found) == []
    assert [missed.code for missed in unchecked(found)] == [Code.REPLICAS_UNEQUAL]


def test_evidence_of_unequal_replicas() -> None:
    assert unequal(
        server("a"), server("b", version="0.31.0"), server("c", after=None)
    ) == one_finding(
        Code.REPLICAS_UNEQUAL,
        "Invalid",
        2.0,
        servers=3,
        versions=2,
        settings=1,
        models=0,
        readAtOneEndOnly=1,
        server="c",
        versionsNamed="0.31.0; 0.32.0",
        byUnknownServersPercent=0.0,
        invalidPercent=1.0,
    )


def test_long_names_have_equal_room() -> None:
    (found,) = unequal(server("a", models="a" * 300), server("b", models="b" * 300))
    assert found.evidence["modelsNamed"] == f"{'a' * 100}; {'b' * 100}"


SERVICE = open_loop_load(through_service=True)


def behind_service(answered: int, *counted: float) -> list[StageFinding]:
    columns = requests(
        ttft_us=[1] * answered, e2el_us=[2] * answered, output_tokens=[2] * answered
    )
    servers = tuple(server(f"s{n}", each) for n, each in enumerate(counted))
    return findings(
        replicas_unequal(
            context(load=SERVICE)(record(requests=columns, servers=servers))
        )
    )


@pytest.mark.parametrize(
    ("percent", "answered", "counted"),
    [
        pytest.param(None, 200, (100.0, 100.0), id="each answer is counted"),
        pytest.param(
            None, 200, (150.0, 100.0), id="more than that is somebody else's"
        ),
        pytest.param(None, 200, (100.0, 98.0), id="1 %"),
        pytest.param(1.5, 200, (100.0, 97.0), id="more than 1 %"),
        pytest.param(
            50.0,
            200,
            (100.0,),
            id="a single pod was listed, and a second one joined",
        ),
    ],
)
def test_answers_of_a_pod_that_joined_the_service(
    percent: float | None, answered: int, counted: tuple[float, ...]
) -> None:
    found = behind_service(answered, *counted)
    assert [(f.severity, f.evidence["byUnknownServersPercent"]) for f in found] == (
        [("Invalid", percent)] if percent else []
    )


def test_servers_that_are_pinned_are_all_there_are() -> None:
    columns = requests(
        ttft_us=[1] * 200, e2el_us=[2] * 200, output_tokens=[2] * 200
    )
    assert (
        findings(
            replicas_unequal(
                context()(record(requests=columns, servers=(server("a", 100),)))
            )
        )
        == []
    )


def uneven(*finished: float) -> list[StageFinding]:
    servers = tuple(server(f"s{n}", each) for n, each in enumerate(finished))
    return findings(load_uneven(context()(record(servers=servers))))


@pytest.mark.parametrize(
    ("found", "finished"),
    [
        pytest.param(False, (1000,), id="one server"),
        pytest.param(False, (0, 0), id="nothing finished"),
        pytest.param(False, (5000, 5000), id="even"),
        pytest.param(False, (5500, 4500), id="10 % off an equal share"),
        pytest.param(True, (5501, 4499), id="more than 10 % off"),
        pytest.param(True, (400, 0), id="one server idles"),
        pytest.param(True, (16, 0), id="16 in a row are no chance"),
        pytest.param(False, (10, 6), id="few requests: chance"),
        pytest.param(False, (2, 1), id="an odd number, in turns"),
        pytest.param(
            True, (2000, 1000, 1000, 1000), id="one of four has twice as many"
        ),
        pytest.param(
            True, (1000, 1000, 1000, 500), id="one of four has half as many"
        ),
    ],
)
def test_shares(found: bool, finished: tuple[float, ...]) -> None:
    assert [(f.code, f.severity) for f in uneven(*finished)] == (
        [(Code.LOAD_UNEVEN, "Suspect")] if found else []
    )


@pytest.mark.parametrize("servers", [2, 3, 8])
@pytest.mark.parametrize("requests", [16, 100, 1000])
def test_requests_spread_at_random_are_not_uneven(
    servers: int, requests: int
) -> None:
    draw = random.Random(f"{servers}/{requests}")
    for _ in range(300):
        counts = Counter(draw.randrange(servers) for _ in range(requests))
        assert uneven(*(float(counts[n]) for n in range(servers))) == []


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((), id="no server's page could be read"),
        pytest.param(
            (server("a"), ServerEdge(address="b", before=ZERO, after=None)),
            id="one of two servers unread",
        ),
    ],
)
def test_shares_that_cannot_be_checked_are_reported(
    servers: tuple[ServerEdge, ...],
) -> None:
    (missed,) = unchecked(load_uneven(context()(record(servers=servers))))
    assert missed.code is Code.LOAD_UNEVEN


def test_evidence_of_uneven_load() -> None:
    assert uneven(300, 500, 400) == one_finding(
        Code.LOAD_UNEVEN,
        "Suspect",
        25.0,
        servers=3,
        requests=1200.0,
        smallestSharePercent=25.0,
        largestSharePercent=41.667,
        offPercent=25.0,
        suspectPercent=10.0,
        chance=1.6692e-08,
        suspectChance=1e-4,
        server="s0",
    )
