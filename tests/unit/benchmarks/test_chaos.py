"""What the chaos benchmark is made of: the draw of faults, what they allow, what must hold, and how
a failing sequence is made shorter."""

import asyncio
import contextlib
import json
from collections.abc import Iterable
from dataclasses import replace

import pytest
from chaos_kit import faults, invariants, manifests
from chaos_kit.allowances import COMPLETED, GONE, Allowance, allowances, of_attempt
from chaos_kit.faults import Fault, drawn
from chaos_kit.figures import FAULTS, Figures
from chaos_kit.invariants import SeenRun, SeenSweep
from chaos_kit.proxy import FaultyProxy, Spoiling
from chaos_kit.rights import without
from chaos_kit.shrinking import shrinking

CALM = 10.0
KILL = Fault(1, "kill", "restart", "a", "r1-n1", "served", 0.0, 3.0, seed=0)


def fault(kind: str, how: str, *, run: str = "r1-n1", tenant: str = "a") -> Fault:
    return replace(KILL, kind=kind, how=how, run=run, tenant=tenant, seconds=5.0)


# ---- the draw


def test_a_round_is_drawn_from_seed_and_number_alone() -> None:
    assert drawn(7, 3, 24) == drawn(7, 3, 24)
    assert drawn(7, 3, 24) != drawn(8, 3, 24)
    assert drawn(7, 3, 24) != drawn(7, 4, 24)
    assert [each.number for each in drawn(7, 3, 24)] == list(range(1, 25))


def test_every_kind_is_drawn_within_a_run_of_the_benchmark() -> None:
    kinds = {each.kind for number in range(1, 14) for each in drawn(1, number, 24)}
    assert kinds >= faults.OF_ALL | faults.AIMED | {"answers", "quota", "right"}


@pytest.mark.parametrize("number", range(1, 8))
def test_one_tenant_is_a_bystander(number: int) -> None:
    assert (
        len({each.tenant for each in drawn(1, number, 200)})
        == len(faults.TENANTS) - 1
    )


# ---- what faults allow


def test_what_hits_the_operator_changes_no_ending() -> None:
    found = allowances(1, "a", [KILL, fault("api", "500")])
    assert {each.endings for each in found.values()} == {frozenset({COMPLETED})}
    assert found["r1-n1"].late_seconds == 3.0 + 12.0 + 5.0


@pytest.mark.parametrize(
    ("kind", "how", "endings"),
    [
        ("run", "cancel", {COMPLETED, "Cancelled"}),
        ("run", "suspend", {COMPLETED}),
        ("run", "anew", {COMPLETED}),
        ("run", "delete", {COMPLETED, GONE}),
        ("delete", "Job Orphan", {COMPLETED, "ClientGone"}),
        ("delete", "Service Foreground", {COMPLETED}),
        ("client-pod", "evicted", {COMPLETED, "Evicted"}),
        ("pod-clock", "90", {COMPLETED}),
    ],
)
def test_what_hits_one_run_changes_that_one_alone(
    kind: str, how: str, endings: set[str]
) -> None:
    found = allowances(1, "a", [fault(kind, how)])
    assert found["r1-n1"].endings == endings
    assert found["r1-n1"].late_seconds is None
    assert found["r1-n2"] == Allowance(late_seconds=0)
    assert set(allowances(1, "b", [fault(kind, how)]).values()) == {
        Allowance(late_seconds=0),
        Allowance(),
    }


def test_a_killed_operator_may_lose_the_cause_of_an_end_but_makes_none() -> None:
    found = allowances(1, "a", [KILL, fault("client-pod", "evicted")])
    assert found["r1-n1"].endings == {
        COMPLETED,
        "Evicted",
        "ServerGone",
        "ClientGone",
    }
    assert found["r1-n2"].endings == {COMPLETED}


def test_a_sweep_answers_for_its_runs() -> None:
    found = allowances(1, "a", [fault("client-pod", "exit", run="r1-s-v1-r1")])
    assert found["r1-s"].endings == {COMPLETED, "RunsFailed", "AllFailed"}
    assert of_attempt(found, "r1-s-v1-r1-a2").endings == {COMPLETED}
    cancelled = allowances(1, "a", [fault("sweep", "cancel", run="r1-s")])
    assert "Cancelled" in cancelled["r1-s"].endings
    assert cancelled["r1-s-v2-r1"].endings == {COMPLETED, "Cancelled", GONE}
    assert cancelled["r1-n1"].endings == {COMPLETED}


# ---- what must hold


def seen(**changes: object) -> SeenRun:
    good = SeenRun(
        "ns/r1-n1",
        COMPLETED,
        stages=2,
        stored=((0, "x"), (1, "y")),
        measured=(("x", "y"),),
        deployments=1,
        jobs=1,
        seconds=CALM,
    )
    return replace(good, **changes)  # type: ignore[arg-type]


def broken(run: SeenRun, allowed: Allowance | None = None) -> list[str]:
    found = allowed or Allowance(late_seconds=0)
    return [each.key for each in invariants.of_run(run, found, calm_seconds=CALM)]


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, []),
        ({"ending": None}, ["wrong"]),
        ({"ending": "ServerGone"}, ["wrong"]),
        ({"ending": GONE}, ["wrong"]),
        ({"stored": ((0, "x"),)}, ["lost"]),
        ({"stored": ((0, "x"), (1, "z"))}, ["lost"]),
        ({"stored": ((0, "x"), (1, "y"), (1, "y"))}, ["doubled"]),
        ({"measured": (("x",), ("y",))}, ["doubled", "doubled"]),
        ({"deployments": 2}, ["doubled"]),
        ({"restarts": ("CountersReset",)}, ["wrong"]),
        ({"jobs": 2}, ["doubled"]),
        ({"seconds": 2 * CALM + invariants.CALM_SECONDS + 1}, ["late"]),
    ],
)
def test_a_run_that_nothing_hit(
    changes: dict[str, object], keys: list[str]
) -> None:
    assert broken(seen(**changes)) == keys


def test_what_was_aimed_at_may_be_made_anew_and_be_late_but_mixes_no_records() -> (
    None
):
    aimed = Allowance(is_aimed_at=True)
    assert broken(seen(deployments=2, jobs=2, seconds=1000.0), aimed) == []
    assert broken(seen(measured=(("x",), ("y",))), aimed) == ["doubled"]
    assert broken(seen(stored=()), replace(aimed, may_lose=True)) == []


def test_another_attempt_needs_a_lost_one() -> None:
    sweep = SeenSweep(
        "ns/r1-s", COMPLETED, runs=("r1-s-v1-r1", "r1-s-v1-r1-a2", "r1-s-v2-r1")
    )
    fine = invariants.of_sweep(sweep, Allowance(), {"r1-s-v1-r1"})
    assert list(fine) == []
    assert [each.key for each in invariants.of_sweep(sweep, Allowance(), ())] == [
        "doubled"
    ]


def test_a_server_is_wanted_by_a_run_that_goes_on() -> None:
    found = invariants.leaks(
        {"ns/Deployment/x": "one", "ns/Deployment/y": "two"}, ["one"]
    )
    assert [str(each) for each in found] == [
        "leaked: ns/Deployment/y: no run wants it"
    ]


def test_limits() -> None:
    good = Figures(FAULTS, 0, 0, 0, 0, 0)
    assert list(good.beyond_limits()) == []
    for key in ("lost", "doubled", "leaked", "wrong", "late"):
        assert len(list(replace(good, **{key: 1}).beyond_limits())) == 1
    assert len(list(replace(good, faults=FAULTS - 1).beyond_limits())) == 1


# ---- shorter


def shrunk(
    failing: Iterable[int], culprits: set[int]
) -> tuple[tuple[int, ...], int]:
    tries = shrinking(tuple(failing))
    count = 0
    try:
        tried = next(tries)
        while True:
            count += 1
            tried = tries.send(culprits <= set(tried))
    except StopIteration as end:
        return end.value, count


@pytest.mark.parametrize("culprits", [{5}, {0, 23}, {3, 11, 17}, set(range(24))])
def test_what_does_not_matter_is_left_out(culprits: set[int]) -> None:
    found, tries = shrunk(range(24), culprits)
    assert set(found) == culprits
    assert tries <= 24 * 24


def test_a_single_culprit_is_found_by_halves() -> None:
    assert shrunk(range(24), {5})[1] <= 12


# ---- what is written and answered


def test_clocks_move_what_a_kubelet_says_and_not_what_the_scheduler_says() -> None:
    body = manifests.running("server", "127.0.0.1")
    ahead = manifests.by_clock(body, 3600.0)
    conditions = {c["type"]: c for c in ahead["status"]["conditions"]}
    before = {c["type"]: c for c in body["status"]["conditions"]}
    assert conditions["PodScheduled"] == before["PodScheduled"]
    assert conditions["Ready"] != before["Ready"]
    assert ahead["status"]["startTime"] > body["status"]["startTime"]
    assert manifests.by_clock(body, 0.0) == body


def test_one_verb_on_one_resource_is_taken() -> None:
    rules = [
        {
            "apiGroups": ["batch", "apps"],
            "resources": ["jobs", "deployments"],
            "verbs": ["create"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    ]
    assert without(rules, "jobs", "create") == [
        {
            "apiGroups": ["batch", "apps"],
            "resources": ["deployments"],
            "verbs": ["create"],
        },
        rules[1],
    ]
    assert without(rules, "pods", "list")[1]["verbs"] == ["watch"]
    assert without(rules, "pods", "delete") == rules


def test_what_is_spoilt() -> None:
    writes = Spoiling("500", "team", writes_only=True, left=1)
    assert not writes.takes("GET", "/api/v1/namespaces/team/pods")
    assert not writes.takes("POST", "/api/v1/namespaces/teams/pods")
    assert not writes.takes("POST", "/api/v1/namespaces/team/events")
    assert writes.takes("POST", "/api/v1/namespaces/team/pods")
    assert not writes.takes("POST", "/api/v1/namespaces/team/pods")


class Upstream:
    """An API server that takes everything."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.asked.append(head.decode().split("\r\n")[0])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await _closed(writer)


async def _answer(proxy: FaultyProxy, request: str) -> str:
    """Its first line and body; empty when the connection was closed."""
    host, port = proxy.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{request} HTTP/1.1\r\n\r\n".encode())
    data = await reader.read(4096)
    await _closed(writer)
    return data.decode()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_proxy_spoils_loses_and_strikes() -> None:
    upstream = Upstream()
    struck = list[str]()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    proxy = FaultyProxy(
        f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", tls=None
    )
    await proxy.start()
    create = "POST /api/v1/namespaces/team/pods"
    try:
        assert "200 OK" in await _answer(proxy, create)
        proxy.spoilings.append(Spoiling("409"))
        told = await _answer(proxy, create)
        assert "409 Conflict" in told
        assert json.loads(told.split("\r\n\r\n")[1])["reason"] == "AlreadyExists"
        proxy.heal()
        assert len(upstream.asked) == 1
        proxy.spoilings.append(Spoiling("lost"))
        assert await _answer(proxy, create) == ""
        proxy.heal()
        assert len(upstream.asked) == 2
        proxy.at_write = (2, "before", lambda: struck.append("before"))
        assert "200 OK" in await _answer(proxy, create)
        assert await _answer(proxy, create) == ""
        assert (struck, len(upstream.asked)) == (["before"], 3)
        proxy.at_write = (1, "after", lambda: struck.append("after"))
        assert await _answer(proxy, create) == ""
        assert (struck, len(upstream.asked)) == (["before", "after"], 4)
        proxy.watches_gone = True
        assert "410 Gone" in await _answer(
            proxy, "GET /api/v1/namespaces/team/pods?watch=true"
        )
    finally:
        proxy.stop()
        server.close()
        await asyncio.gather(proxy.closed(), server.wait_closed())
