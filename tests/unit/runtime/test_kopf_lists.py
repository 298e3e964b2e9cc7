"""The list that a watch begins with: it survives its own expiry, and its pages fit the objects. What
a watch delivers is told of, and Kopf learns only how far it has come."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from benchrun.runtime import kopf_lists, watching
from kopf._cogs.clients import auth, watching as kopf_watching
from kopf._cogs.structs import credentials, references

RUNS = references.Resource(
    "benchrun.dev",
    "v1alpha1",
    "benchmarkruns",
    namespaced=True,
    verbs=frozenset({"list", "watch"}),
)


Watched = tuple[int, int]
ERROR = {"type": "ERROR", "object": {"code": 410}}


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_lists, "PAUSE_SECONDS", 0.0)


class Listed:
    """An API server with so many objects of so many bytes, that keeps what it was asked for."""

    def __init__(
        self,
        count: int,
        size: int = 10,
        *,
        expires: int = 0,
        watched: Watched = (200, 410),
    ) -> None:
        self.count = count
        self.size = size
        # status of a watch, and code of the error that ends it
        self.watched = watched
        self.refuses: list[int] = []  # statuses of the first lists
        self.expires = expires  # so many tokens, the first ones
        self.limits: list[int] = []
        self.events: list[dict[str, Any]] = []
        """Of a watch, in the place of an error."""
        self.given: list[Any] = []
        """What Kopf was given."""
        self.told: list[tuple[str, str | None]] = []
        """Plural and type of the events that were told of."""
        self.reached: list[str] = []
        """Versions of the operator's own lists, which are handed to Kopf one after the other."""
        self.asked: list[str | None] = []
        """Versions from which watches were asked for."""

    async def answer(self, request: web.Request) -> web.Response:
        if "watch" in request.query:
            self.asked.append(request.query.get("resourceVersion"))
        if "watch" in request.query and self.events:
            lines = b"".join(
                json.dumps(event).encode() + b"\n" for event in self.events
            )
            return web.Response(body=lines)
        if "watch" in request.query:
            status, code = self.watched
            return web.json_response(
                {"type": "ERROR", "object": {"code": code}}, status=status
            )
        if self.refuses:
            return web.json_response({"kind": "Status"}, status=self.refuses.pop())
        first = int(request.query.get("continue", 0))
        limit = int(request.query["limit"])
        self.limits.append(limit)
        if first and self.expires:
            self.expires -= 1
            gone = {"kind": "Status", "code": 410, "reason": "Expired"}
            return web.json_response(gone, status=410)
        last = min(first + limit, self.count)
        items = [self.object(number) for number in range(first, last)]
        meta = {
            "resourceVersion": "7",
            "continue": str(last) if last < self.count else "",
        }
        return web.json_response(
            {"kind": "BenchmarkRunList", "metadata": meta, "items": items}
        )

    def object(self, number: int) -> dict[str, Any]:
        return {
            "metadata": {"name": str(number), "uid": str(number)},
            "spec": "x" * self.size,
        }

    async def heard(self, lists: int = 1) -> list[str]:
        """Names of the objects that a watch tells of which is begun so often."""
        names: list[str] = []

        def heard(plural: str, event: str | None, body: Any) -> None:
            self.told.append((plural, event))
            names.append(body["metadata"]["name"])

        async with self._served() as url:
            vault = credentials.Vault(
                {credentials.VaultKey("k"): credentials.ConnectionInfo(server=url)}
            )
            auth.vault_var.set(vault)
            stream = kopf_watching.infinite_watch(
                settings=watching.kopf_settings(
                    namespaces=0, heard=heard, reached=self._reached
                ),
                resource=RUNS,
                namespace=None,
                _iterations=lists,
            )
            self.given = [event async for event in stream]
            await vault.close()
        return names

    def _reached(self, kind: str, namespace: str | None) -> str | None:
        assert (kind, namespace) == ("BenchmarkRun", None)
        return self.reached.pop(0) if self.reached else None

    @asynccontextmanager
    async def _served(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        await runner.cleanup()


async def test_a_list_whose_token_expires_begins_anew() -> None:
    server = Listed(5, expires=1)
    assert await server.heard(lists=2) == ["0", "1", "2", *"01234"]


async def test_of_small_objects_a_page_has_many() -> None:
    server = Listed(1000)
    assert len(await server.heard()) == 1000
    assert len(server.limits) < 12
    assert max(server.limits) == kopf_lists.LARGEST_PAGE


async def test_of_large_objects_a_page_has_few() -> None:
    server = Listed(20, size=kopf_lists.PAGE_BYTES // 2)
    assert await server.heard() == [str(number) for number in range(20)]
    assert set(server.limits) == {kopf_lists.SAFE_PAGE, 2 * kopf_lists.SAFE_PAGE}


@pytest.mark.parametrize(
    "watched", [(410, 410), (400, 400), (404, 404), (422, 422), (200, 500)]
)
async def test_a_watch_that_is_refused_or_broken_off_begins_anew(
    watched: Watched,
) -> None:
    assert await Listed(2, watched=watched).heard(lists=2) == ["0", "1", "0", "1"]


@pytest.mark.parametrize("status", [400, 404, 409, 422])
async def test_a_list_that_is_refused_begins_anew(status: int) -> None:
    server = Listed(2)
    server.refuses = [status]
    assert await server.heard(lists=2) == ["0", "1"]


async def test_kopf_is_given_no_objects() -> None:
    """It makes a task for each, copies it, and looks for handlers: three times our own work."""
    server = Listed(3)
    changed = {
        "metadata": {"name": "0", "uid": "0", "resourceVersion": "9"},
        "spec": "y",
    }
    server.events = [{"type": "MODIFIED", "object": changed}, ERROR]
    assert await server.heard() == ["0", "1", "2", "0"]
    assert server.told == [
        *[("benchmarkruns", None)] * 3,
        ("benchmarkruns", "MODIFIED"),
    ]
    version = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    assert [event for event in server.given if isinstance(event, dict)] == [version]


async def test_what_nobody_can_make_use_of_ends_no_watch() -> None:
    server = Listed(1)
    server.events = [{"type": "ADDED", "object": {"metadata": None}}, ERROR]
    assert await server.heard(lists=2) == ["0", "0"]


async def test_a_watch_goes_on_from_the_list_that_the_operator_has_just_made() -> (
    None
):
    """All objects would be read and parsed twice at a start."""
    server = Listed(3)
    server.reached = ["5"]
    changed = {"metadata": {"name": "1", "uid": "1", "resourceVersion": "6"}}
    server.events = [{"type": "MODIFIED", "object": changed}, ERROR]
    assert await server.heard() == ["1"]
    assert (server.limits, server.asked) == ([], ["5"])


async def test_a_watch_whose_list_is_too_old_begins_with_one_of_its_own() -> None:
    server = Listed(2)
    server.reached = ["5"]
    assert await server.heard(lists=2) == ["0", "1"]
    assert server.asked == ["5", "7"]
