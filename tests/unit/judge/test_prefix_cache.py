"""Prompts that should be new to the server: hits of the prefix cache are somebody else's doing."""

from __future__ import annotations

import pytest
from benchrun.api.status import Severity
from benchrun.judge.finding import Code, StageFinding
from benchrun.judge.prefix_cache import prefix_cache
from benchrun.judge.rules import StageContext
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import START_TIME, ServerEdge
from unit.measure.records import STAGE, ZERO, edge, record

HITS, QUERIES = "prefix_cache_hits_total", "prefix_cache_queries_total"
CONTEXT = StageContext(Thresholds())


def looked_up(hits: float, queries: float, address: str = "a") -> ServerEdge:
    return edge(address, rises={HITS: hits, QUERIES: queries})


@pytest.mark.parametrize(
    ("severity", "servers"),
    [
        pytest.param(None, (looked_up(0, 1000),), id="no hit"),
        pytest.param(None, (looked_up(10, 1000),), id="1 % is chance"),
        pytest.param("Suspect", (looked_up(11, 1000),), id="above 1 %"),
        pytest.param("Suspect", (looked_up(100, 1000),), id="10 % is still suspect"),
        pytest.param("Invalid", (looked_up(101, 1000),), id="above 10 %"),
        pytest.param("Invalid", (looked_up(960, 1000),), id="the same traffic again"),
        pytest.param(None, (looked_up(0, 0),), id="no look-up: the cache is off"),
        pytest.param(None, (looked_up(0, 9000), looked_up(50, 1000, "b")), id="servers are summed: 0.5 %"),
        pytest.param("Suspect", (looked_up(0, 1000), looked_up(50, 1000, "b")), id="servers are summed: 2.5 %"),
    ],
)
def test_hits(severity: Severity | None, servers: tuple[ServerEdge, ...]) -> None:
    found = prefix_cache(record(servers=servers), CONTEXT)
    expected = [(Code.PREFIX_CACHE_CONTAMINATED, severity)] if severity else []
    assert [(f.code, f.severity) for f in found] == expected


def test_hits_before_the_stage_are_not_its_own() -> None:
    warm = edge(before={HITS: 5000.0, QUERIES: 5000.0}, rises={QUERIES: 1000.0})
    assert prefix_cache(record(servers=(warm,)), CONTEXT) == []


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((), id="no server's page could be read"),
        pytest.param((ServerEdge(address="a", before=ZERO, after=None),), id="the closing edge is missing"),
        pytest.param((ServerEdge(address="a", before={}, after={}),), id="a page without these counters"),
        pytest.param(
            (looked_up(0, 10), ServerEdge(address="b", before=None, after=ZERO)), id="one of two servers unread"
        ),
        pytest.param((edge(after={START_TIME: 5.0}),), id="the server restarted"),
    ],
)
def test_what_cannot_be_checked_is_said(servers: tuple[ServerEdge, ...]) -> None:
    (found,) = prefix_cache(record(servers=servers), CONTEXT)
    assert (found.code, found.severity, found.evidence) == (
        Code.PREFIX_CACHE_UNKNOWN,
        "Note",
        {"servers": len(servers)},
    )


def test_evidence_has_the_figures_and_the_lines() -> None:
    assert prefix_cache(record(servers=(looked_up(30, 1000),)), CONTEXT) == [
        StageFinding(
            Code.PREFIX_CACHE_CONTAMINATED,
            "Suspect",
            STAGE,
            {"hitTokens": 30, "lookedUpTokens": 1000, "hitPercent": 3.0, "suspectPercent": 1.0, "invalidPercent": 10.0},
            weight=3.0,
        )
    ]
