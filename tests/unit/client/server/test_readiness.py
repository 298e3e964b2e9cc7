"""Finding the servers: all addresses, pinned once, and waited for until they are up."""

import asyncio
import socket
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.access import Access, tls_context
from benchrun_client.engines import ENGINES
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import open_session
from benchrun_client.server.readiness import (
    ReadinessDeadline,
    Servers,
    find_healthy,
    find_servers,
    pinned,
    wait_healthy,
)
from unit.client.plans import plan
from unit.client.servers import Handler, answering, serving, serving_tls
from unit.client.tls import certificate

VLLM = ENGINES["VLLM"]

FOREVER = 0


@pytest.mark.parametrize(
    ("expected", "url", "address"),
    [
        ("http://10.0.0.7:8000", "http://br-x-server.ns.svc:8000", "10.0.0.7"),
        (
            "http://10.0.0.7:8000/prefix",
            "http://br-x-server:8000/prefix/",
            "10.0.0.7",
        ),
        ("http://10.0.0.7", "http://br-x-server", "10.0.0.7"),
        ("http://[fd00::7]:8000", "http://br-x-server:8000", "fd00::7"),
    ],
)
def test_an_address_takes_the_place_of_the_name(
    expected: str, url: str, address: str
) -> None:
    assert pinned(url, address) == expected


async def test_a_name_with_one_address_in_each_family_is_one_server() -> None:
    target = plan(target={"base_url": "http://localhost:8000/"}).target
    assert await find_servers(target, ReadinessDeadline(FOREVER)) == Servers(
        VLLM, ("http://127.0.0.1:8000",), ("http://127.0.0.1:8000/metrics",)
    )


async def test_without_servers_to_count_the_url_is_used_as_it_is() -> None:
    target = plan(
        target={"base_url": "http://no.such.host.invalid/llm/", "servers": 0}
    ).target
    assert await find_servers(target, ReadinessDeadline(FOREVER)) == Servers(
        VLLM, ("http://no.such.host.invalid/llm",), ()
    )


async def test_behind_tls_the_name_stays_for_the_certificate_names_it() -> None:
    target = plan(
        target={
            "base_url": "https://no.such.host.invalid",
            "metrics_urls": ("http://m/metrics",),
        }
    ).target
    assert await find_servers(target, ReadinessDeadline(FOREVER)) == Servers(
        VLLM, ("https://no.such.host.invalid",), ("http://m/metrics",)
    )


async def test_addresses_that_never_come_are_counted_at_the_deadline() -> None:
    target = plan(target={"base_url": "http://localhost:8000", "servers": 2}).target
    with pytest.raises(
        RunFailure, match="within 1 s: localhost has 1 of 2 addresses"
    ) as failure:
        await find_servers(target, ReadinessDeadline(1))
    assert failure.value.reason == "EndpointNotReady"


async def wait(
    url: str, *, seconds: int = FOREVER, refused: asyncio.Event | None = None
) -> None:
    """`refused` is set when the first request fails."""
    tracing = aiohttp.TraceConfig()

    async def failed(*_: object) -> None:
        if refused is not None:
            refused.set()

    tracing.on_request_exception.append(failed)
    async with aiohttp.ClientSession(trace_configs=[tracing]) as session:
        await wait_healthy(
            session, Servers(VLLM, (url,), ()), ReadinessDeadline(seconds)
        )


def after(failures: int, then: Handler) -> Handler:
    """503 so many times, then something else."""
    left = [failures]

    async def answer(request: web.Request) -> web.StreamResponse:
        if left[0] == 0:
            return await then(request)
        left[0] -= 1
        return web.Response(status=503)

    return answer


@pytest.mark.parametrize(
    "handlers",
    [
        pytest.param({"health": answering(200)}, id="health"),
        pytest.param({"health": after(3, answering(200))}, id="health-later"),
        pytest.param({"v1_models": answering(200)}, id="models-only"),
        pytest.param({"v1_models": after(3, answering(200))}, id="models-later"),
        pytest.param({"v1_models": answering(401)}, id="models-with-a-key"),
        pytest.param(
            {"health": answering(403), "v1_models": answering(200)},
            id="health-that-a-gateway-closes",
        ),
        pytest.param({}, id="no-such-server-at-all-is-for-the-canary"),
    ],
)
async def test_waiting_ends_when_the_server_is_up(
    handlers: dict[str, Handler],
) -> None:
    async with serving(**handlers) as url:
        await asyncio.wait_for(wait(url), 10)


async def test_waiting_starts_before_anybody_listens() -> None:
    async with serving() as url:
        pass
    port = urlsplit(url).port
    refused = asyncio.Event()
    waiting = asyncio.create_task(wait(url, refused=refused))
    await asyncio.wait_for(refused.wait(), 10)
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.wait_for(waiting, 10)
    await runner.cleanup()


@pytest.mark.parametrize(
    ("problem", "handlers"),
    [
        pytest.param(
            "/health answers 503", {"health": answering(503)}, id="unhealthy"
        ),
        pytest.param(
            "/v1/models answers 503",
            {"v1_models": answering(503)},
            id="models-unavailable",
        ),
    ],
)
async def test_the_last_problem_is_reported_at_the_deadline(
    problem: str, handlers: dict[str, Handler]
) -> None:
    async with serving(**handlers) as url:
        with pytest.raises(RunFailure, match=problem) as failure:
            await wait(url, seconds=1)
    assert failure.value.reason == "EndpointNotReady"


async def test_an_untrusted_certificate_is_reported_at_once(
    tmp_path: Path,
) -> None:
    authority, context = certificate(tmp_path)
    async with serving_tls(context, health=answering(200)) as url:
        with pytest.raises(RunFailure, match="caConfigMapRef") as failure:
            await wait(url)
        async with open_session(
            access=Access(tls=tls_context(str(authority))), seconds=5
        ) as session:
            await wait_healthy(
                session, Servers(VLLM, (url,), ()), ReadinessDeadline(5)
            )
    assert failure.value.reason == "CertificateInvalid"


async def test_every_server_is_waited_for() -> None:
    async with (
        serving(health=answering(200)) as up,
        serving(health=answering(503)) as down,
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(RunFailure, match=down):
            await wait_healthy(
                session, Servers(VLLM, (up, down), ()), ReadinessDeadline(1)
            )


async def test_a_server_that_was_replaced_while_it_loaded_is_found_at_its_new_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchrun_client.server.readiness.LOOK_AGAIN_SECONDS", 0.1)
    looked_up: list[str] = []

    async def moved(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        """Nobody listens at the first address, and by the second look-up it is another."""
        looked_up.append(host)
        address = "127.0.0.2" if len(looked_up) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async with (
        serving(health=answering(200)) as url,
        aiohttp.ClientSession() as session,
    ):
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", moved)
        name = url.replace("127.0.0.1", "servers.lab.svc")
        servers = await find_healthy(
            session,
            plan(target={"base_url": name}).target,
            ReadinessDeadline(FOREVER),
        )
    assert looked_up == ["servers.lab.svc", "servers.lab.svc"]
    assert servers.urls == (url,)


async def test_addresses_that_never_answer_are_reported_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchrun_client.server.readiness.LOOK_AGAIN_SECONDS", 0.1)
    async with (
        serving(health=answering(503)) as url,
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(RunFailure, match="/health answers 503") as late:
            await find_healthy(
                session, plan(target={"base_url": url}).target, ReadinessDeadline(1)
            )
    assert late.value.reason == "EndpointNotReady"
