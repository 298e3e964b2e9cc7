"""Every operation against every refusal of the API server: what is an error, what is an answer, and
what is counted."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun.decide import Compilations, Event, LogTail, Ref, ServerStart
from benchrun.effects import (
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    KubernetesApi,
    NotFound,
    Throttled,
    Unavailable,
)
from benchrun.observe import Run
from benchrun_client.engines import ENGINES
from unit.effects.raw_server import BROKEN, sending
from unit.effects.scripted_api import (
    Answer,
    Json,
    answering,
    connected,
    gives,
    refuses,
)

VLLM = ENGINES["VLLM"]

RUN = Run(namespace="lab", name="chat", uid="uid-1", generation=1)
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REF = Ref("Job", "lab", "j", "uid-9")


def manifest(kind: str = "Service", **more: Any) -> Json:
    meta = {
        "name": "chat-server",
        "namespace": "lab",
        "ownerReferences": [{"uid": "uid-1", "controller": True}],
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **more}


async def listed(api: KubernetesApi) -> list[Json]:
    return [each async for each in api.list("Pod", namespace="lab")]


Operation = Callable[[KubernetesApi], Awaitable[Any]]
WRITES: dict[str, tuple[str, str, Operation]] = {
    "create": ("POST", "services", lambda api: api.apply(manifest())),
    "create-run": (
        "POST",
        "benchmarkruns",
        lambda api: api.apply(manifest("BenchmarkRun")),
    ),
    "cancel-run": (
        "PATCH",
        "benchmarkruns",
        lambda api: api.cancel_run(Ref("BenchmarkRun", "lab", "r", "u")),
    ),
    "delete": ("DELETE", "jobs", lambda api: api.delete(REF)),
    "status": (
        "PATCH",
        "benchmarkruns",
        lambda api: api.patch_status(RUN, resource_version="1", changes={"a": 1}),
    ),
    "event": (
        "POST",
        "events",
        lambda api: api.create_event(RUN, Event("Failed", "why"), now=NOW),
    ),
}
READS: dict[str, Operation] = {
    "get": lambda api: api.get("Pod", namespace="lab", name="p"),
    "list": listed,
    "log-tail": lambda api: api.log_tail(
        "lab", LogTail("p", "server", previous=False)
    ),
    "log-since": lambda api: api.log_since(
        "lab",
        Compilations("p", "server", since="2026-11-21T12:00:00Z", engine=VLLM),
    ),
    "log-head": lambda api: api.log_head(
        "lab", ServerStart("p", "u", "server", engine=VLLM)
    ),
    "image-events": lambda api: api.image_events(
        "lab", ServerStart("p", "u", "server", engine=VLLM)
    ),
    "addresses": lambda api: api.endpoint_addresses("lab", "vllm", 80),
}
EVERYTHING = {name: operation for name, (_, _, operation) in WRITES.items()} | READS
REFUSALS: list[tuple[type[ClusterError], Answer]] = [
    (Invalid, refuses(400, "BadRequest")),
    (Forbidden, refuses(401, "Unauthorized")),
    (Forbidden, refuses(403, "Forbidden")),
    (NotFound, refuses(404, "NotFound")),
    (Conflict, refuses(409, "Conflict")),
    (Invalid, refuses(410, "Expired")),
    (Invalid, refuses(422, "Invalid")),
    (Throttled, refuses(429, "TooManyRequests", Retry_After="7")),
    (Unavailable, refuses(500, "InternalError")),
    (Unavailable, Answer(502, b"<html>bad gateway</html>")),
    (Unavailable, refuses(503, "ServiceUnavailable")),
    (Unavailable, Answer(504)),
]
SWALLOWED = {
    ("cancel-run", 404),
    ("cancel-run", 409),
    ("delete", 404),
    ("delete", 409),
}
"""Gone, or replaced by a namesake: just what was wanted."""


@pytest.mark.parametrize("name", EVERYTHING)
async def test_every_refusal_is_the_error_that_says_what_to_do(name: str) -> None:
    async with answering(*(answer for _, answer in REFUSALS)) as exchange:
        for expected, answer in REFUSALS:
            if (name, answer.status) in SWALLOWED:
                assert await EVERYTHING[name](exchange.api) is None
                continue
            with pytest.raises(ClusterError) as refused:
                await EVERYTHING[name](exchange.api)
            assert (type(refused.value), refused.value.code) == (
                expected,
                answer.status,
            )
    assert len(exchange.requests) == len(REFUSALS), (
        "the queue asks again, with its own back-off"
    )
    counted = (
        [(*WRITES[name][:2], str(answer.status)) for _, answer in REFUSALS]
        if name in WRITES
        else []
    )
    assert exchange.writes == counted


@pytest.mark.parametrize("seconds", ["0", "7"])
async def test_throttling_says_when_to_come_back(seconds: str) -> None:
    async with answering(refuses(429, Retry_After=seconds)) as exchange:
        with pytest.raises(Throttled, match="it said no") as refused:
            await exchange.api.delete(REF)
    assert refused.value.retry_after_seconds == float(seconds)


async def test_without_a_connection_nothing_is_known_of_the_outcome(
    unused_port: int,
) -> None:
    async with connected(f"http://127.0.0.1:{unused_port}") as exchange:
        for operation in EVERYTHING.values():
            with pytest.raises(Unavailable, match="Connect") as refused:
                await operation(exchange.api)
            assert refused.value.code is None
    assert exchange.writes == [
        (verb, resource, "none") for verb, resource, _ in WRITES.values()
    ]


@pytest.mark.parametrize(
    "parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()]
)
@pytest.mark.parametrize("reset", [False, True])
async def test_half_an_answer_is_none(
    reset: bool, parts: tuple[bytes, ...]
) -> None:
    async with sending(*parts, reset=reset) as url, connected(url) as exchange:
        for name, verb in (
            ("get", "GET"),
            ("status", "PATCH"),
            ("log-tail", "GET"),
        ):
            with pytest.raises(Unavailable, match=rf"^{verb} /api") as refused:
                await EVERYTHING[name](exchange.api)
            assert refused.value.code is None


async def test_an_answer_that_is_no_object_is_no_answer() -> None:
    """A proxy between us and the API server says 200 to anything."""
    bodies = (
        b"",
        b"<html>signed out</html>",
        b"[]",
        b"null",
        b'{"metadata": ',
        b"\xff\xfe",
        b"[" * 5000,
    )
    async with answering(*(Answer(200, body) for body in bodies)) as exchange:
        for _ in bodies:
            with pytest.raises(
                Unavailable, match=r"GET /api/v1/namespaces/lab/pods/p: "
            ):
                await exchange.api.get("Pod", namespace="lab", name="p")
    assert len(exchange.requests) == len(bodies)


async def test_a_redirect_is_not_followed_with_our_credentials() -> None:
    async with answering(
        Answer(307, headers={"Location": "/elsewhere"}), gives({})
    ) as exchange:
        with pytest.raises(Unavailable, match="redirected"):
            await exchange.api.get("Pod", namespace="lab", name="p")
    assert len(exchange.requests) == 1


async def test_a_list_that_breaks_off_gives_what_came_before_and_then_the_error() -> (
    None
):
    """A token that is too old ends in 410; the next listing begins anew."""
    first = gives(
        {"metadata": {"continue": "old"}, "items": [{"metadata": {"name": "a"}}]}
    )
    async with answering(first, refuses(410, "Expired", "too old")) as exchange:
        listing = exchange.api.list("Pod", namespace="lab")
        assert (await anext(listing))["metadata"]["name"] == "a"
        with pytest.raises(ClusterError, match="too old"):
            await anext(listing)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"spec": {}},
        {"spec": {"ports": None}},
        {"spec": {"ports": [{"port": 81}]}},
    ],
)
async def test_a_service_without_that_port_is_reported_with_the_port(
    spec: Json,
) -> None:
    async with answering(gives(spec)) as exchange:
        with pytest.raises(NotFound, match="Service vllm has no port 80"):
            await exchange.api.endpoint_addresses("lab", "vllm", 80)
    assert len(exchange.requests) == 1
