"""A name that is taken: what is ours is returned as it is, what somebody else controls is never
touched."""

from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun.child_kinds import EXTENSION_KINDS
from benchrun.decide import Event
from benchrun.effects import CHILD_KINDS, Conflict, Exists, NotFound, Occupied
from benchrun.observe import Run
from unit.effects.scripted_api import Json, answering, gives, refuses

RUN = Run(namespace="lab", name="chat", uid="uid-1", generation=1)
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CHILDREN = [kind for kind in (*CHILD_KINDS, *EXTENSION_KINDS) if kind != "Pod"]
OURS = [{"uid": "uid-1", "controller": True}]
ANOTHERS = [{"uid": "uid-2", "controller": True}]


def manifest(kind: str = "Service", **more: Any) -> Json:
    meta = {"name": "chat-server", "namespace": "lab", "ownerReferences": OURS}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **more}


def there(**metadata: Any) -> Json:
    return {"metadata": {"name": "chat-server", "uid": "uid-7", **metadata}}


TAKEN = refuses(409, "AlreadyExists")


@pytest.mark.parametrize("kind", CHILDREN)
async def test_a_child_is_created_once_and_never_patched(kind: str) -> None:
    found = there(ownerReferences=OURS)
    async with answering(TAKEN, gives(found)) as exchange:
        assert await exchange.api.apply(manifest(kind)) == found
    assert [request.method for request in exchange.requests] == ["POST", "GET"]
    assert [verb for verb, _, _ in exchange.writes] == ["POST"]


@pytest.mark.parametrize(
    "references",
    [
        pytest.param([], id="nobodys"),
        pytest.param(ANOTHERS, id="another-runs"),
        pytest.param([{"uid": "uid-1"}], id="ours-but-not-controlled"),
        pytest.param(
            [{"uid": "uid-1", "controller": False}, *ANOTHERS],
            id="owned-by-us-controlled-by-another",
        ),
    ],
)
@pytest.mark.parametrize("immutable", [False, True])
async def test_what_somebody_else_controls_is_never_touched(
    references: list[Json], immutable: bool
) -> None:
    found = there(ownerReferences=references)
    async with answering(TAKEN, gives(found)) as exchange:
        with pytest.raises(
            Occupied, match="Service chat-server exists and has another owner"
        ) as refused:
            await exchange.api.apply(manifest(immutable=immutable))
    assert (refused.value.found, refused.value.code) == (found, 409)
    assert [request.method for request in exchange.requests] == ["POST", "GET"]


async def test_a_manifest_without_a_controller_takes_nothing_over() -> None:
    bare = {
        "kind": "Service",
        "metadata": {"name": "chat-server", "namespace": "lab"},
    }
    async with answering(TAKEN, gives(there())) as exchange:
        with pytest.raises(Occupied):
            await exchange.api.apply(bare)


async def test_one_that_is_gone_before_it_was_looked_at_is_re_requested_later() -> (
    None
):
    async with answering(TAKEN, refuses(404, "NotFound")) as exchange:
        with pytest.raises(NotFound):
            await exchange.api.apply(manifest())
    assert [request.method for request in exchange.requests] == ["POST", "GET"]


async def test_a_run_of_the_sweep_that_exists_is_given_back_whole_and_left_alone() -> (
    None
):
    found = {**there(ownerReferences=OURS), "spec": {"repeats": 3}}
    async with answering(TAKEN, gives(found)) as exchange:
        assert await exchange.api.apply(manifest("BenchmarkRun")) == found
    assert [(request.method, request.accept) for request in exchange.requests] == [
        ("POST", "application/json"),
        ("GET", "application/json"),
    ]


async def test_a_run_of_that_name_that_is_not_the_sweeps_is_distinguished() -> None:
    found = there(ownerReferences=ANOTHERS)
    async with answering(TAKEN, gives(found)) as exchange:
        with pytest.raises(
            Occupied, match="BenchmarkRun chat-server exists and has another owner"
        ):
            await exchange.api.apply(manifest("BenchmarkRun"))


async def test_an_event_that_was_posted_before_is_no_trouble() -> None:
    async with answering(TAKEN) as exchange:
        await exchange.api.create_event(RUN, Event("Failed", "why"), now=NOW)
    assert exchange.writes == [("POST", "events", "409")]


async def test_another_conflict_over_an_event_is_reported() -> None:
    async with answering(refuses(409, "Conflict")) as exchange:
        with pytest.raises(Conflict) as refused:
            await exchange.api.create_event(RUN, Event("Failed", "why"), now=NOW)
    assert not isinstance(refused.value, Exists)
