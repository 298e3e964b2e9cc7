"""Waiting for the servers to measure: from "nothing there" to "a completion came back".

Meanwhile the main thread prepares the load. A headless Service is resolved until all its servers
have an address. These addresses are then used for the whole run, so that no name is resolved during
a measurement and every figure belongs to a known server.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from benchrun_client.access import Access
from benchrun_client.contract import Plan, ServerEdge, Target
from benchrun_client.engines import ENGINES, Engine
from benchrun_client.failures import RunFailure, error_text, first_line, shorten
from benchrun_client.http_session import (
    MODELS_PATH,
    NETWORK_ERRORS,
    HttpAnswer,
    answer_of,
    open_session,
)
from benchrun_client.run_progress import RunProgress
from benchrun_client.server.counter_snapshots import identify
from benchrun_client.server.engine_check import check_engines
from benchrun_client.server.first_request import (
    NO_CERTIFICATE,
    adapters_missing,
    no_certificate,
    send_canary,
    served_models,
)
from benchrun_client.stage_record import micros
from benchrun_client.traffic import Material, check_lengths

POLL_SECONDS = 0.05
RESOLVE_SECONDS = 0.1
# A server that is loading may be replaced by one at another address.
LOOK_AGAIN_SECONDS = 10.0
HEALTH_TIMEOUT_SECONDS = 5.0
# The first forward pass of a server may compile for minutes.
FIRST_REQUEST_SECONDS = 300.0
PROXY = "proxy"
ANSWERING = frozenset({"server", "decode"})
NO_HEALTH = frozenset({401, 403, 404})
"""Statuses of /health that mean "none for us": it is not there, or closed by a gateway."""
UP = frozenset({200, 401, 403, 404})
"""Statuses of /v1/models that mean "up" if there is no /health. The canary then finds out whether
it is a server of this API and accepts the key."""
WANTS_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
"""What OpenSSL says of a server that ends the connection for want of the client's certificate."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of the run, with the URLs for requests and for metrics."""

    engine: Engine
    urls: tuple[str, ...]
    metrics_urls: tuple[str, ...]
    roles: tuple[str, ...] = ()
    """Role of the server behind each metrics endpoint; empty: all have the role `server`."""

    @property
    def metrics_roles(self) -> tuple[str, ...]:
        return self.roles or ("server",) * len(self.metrics_urls)

    @property
    def answering(self) -> tuple[bool, ...]:
        """Return, for each metrics endpoint, whether its server counts the client's answers.

        Prefill servers and the proxy do not.
        """
        return tuple(role in ANSWERING for role in self.metrics_roles)

    @property
    def own_urls(self) -> tuple[str, ...]:
        """Return the base URLs that lead to each server alone, past any gateway.

        If no metrics endpoints are known, these are the URLs for requests.
        """
        known = zip(self.metrics_urls, self.metrics_roles, strict=True)
        return (
            tuple(
                url.removesuffix(self.engine.metrics_path)
                for url, role in known
                if role != PROXY
            )
            or self.urls
        )


class ReadinessDeadline:
    """The deadline for the wait for the server; 0 seconds: none, the operator ends the wait."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self, problem: str) -> None:
        """Raise RunFailure `EndpointNotReady` with this problem if the deadline has passed."""
        if self._seconds and time.monotonic() > self._end:
            raise RunFailure(
                "EndpointNotReady", f"not ready within {self._seconds} s: {problem}"
            )


@dataclass(frozen=True, slots=True)
class Found:
    """Servers that have each answered a completion, the last at `answered` (`perf_counter`)."""

    servers: Servers
    edges: Sequence[ServerEdge]  # One per metrics endpoint, without its counters.
    answered: float


async def wait_for_servers(
    plan: Plan,
    material: Material,
    state: RunProgress,
    *,
    access: Access,
) -> Found:
    """Wait until all servers are healthy and each has answered a small completion (the canary).

    In between, check that every request fits into the context length that the servers report.
    Raises RunFailure.
    """
    deadline = ReadinessDeadline(plan.health_deadline_seconds)
    model = plan.target.served_model
    state.enter("Waiting")
    async with open_session(
        access=access, seconds=FIRST_REQUEST_SECONDS
    ) as session:
        servers = await find_healthy(session, plan.target, deadline)
        state.note("healthy_unix_us", micros(time.time()))
        served = await served_models(session, servers.urls[0])
        if context := served.get(model):
            check_lengths(
                plan,
                material,
                context_tokens=context,
                whose="the server (max_model_len)",
            )
        # An engine without an API server has proved itself before it is healthy.
        if not plan.target.offline:
            await check_engines(session, servers.metrics_urls, servers.engine)
        kinds = plan.kinds_of_requests if not plan.target.offline else ()
        names = tuple(served)
        if failure := adapters_missing(kinds, names, where=servers.urls[0]):
            raise failure
        for url in servers.urls:
            for kind in kinds:
                with _hiding(access):
                    await send_canary(
                        session,
                        url,
                        kind=kind,
                        model=model,
                        run_uid=plan.run_uid,
                        served=names,
                    )
        answered = time.perf_counter()
        # Not earlier: with several API processes some figures are there from the first request on
        # only.
        known = zip(servers.metrics_urls, servers.metrics_roles, strict=True)
        edges = await asyncio.gather(
            *(
                identify(session, url, servers.engine, role=role, model=model)
                for url, role in known
            )
        )
    return Found(servers, edges, answered)


@contextlib.contextmanager
def _hiding(access: Access) -> Iterator[None]:
    """Hide secrets in a failure: a gateway's words may repeat what it was sent."""
    try:
        yield
    except RunFailure as failure:
        hidden = access.hide(failure.message)
        raise RunFailure(failure.reason, hidden) from None


async def find_healthy(
    session: aiohttp.ClientSession, target: Target, deadline: ReadinessDeadline
) -> Servers:
    """Return the servers when all of them are healthy.

    Until then their name is resolved repeatedly, because a pod that replaces a deleted one has
    another address. Raises RunFailure.
    """
    while True:
        servers = await find_servers(target, deadline)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                await wait_healthy(session, servers, deadline)
                return servers


async def find_servers(target: Target, deadline: ReadinessDeadline) -> Servers:
    """Resolve the target; wait until all its servers have an address.

    Raises RunFailure `EndpointNotReady`.
    """
    engine = ENGINES[target.engine]
    base = target.base_url.rstrip("/")
    if target.servers == 0 or urlsplit(base).scheme == "https":
        # A certificate names a host: behind TLS an address can't take its place.
        return Servers(engine, (base,), target.metrics_urls)
    urls = await _pinned_urls(base, count=target.servers, deadline=deadline)
    if not target.behind:
        known_urls = target.metrics_urls or tuple(
            url + engine.metrics_path for url in urls
        )
        return Servers(engine, urls, known_urls)
    known = [
        (
            each.role,
            await _pinned_urls(
                each.base_url, count=each.servers, deadline=deadline
            ),
        )
        for each in target.behind
    ]
    metrics = [
        (url + engine.metrics_path, role)
        for role, of_role in (*known, (PROXY, urls))
        for url in of_role
    ]
    metrics_urls = tuple(url for url, _ in metrics)
    return Servers(engine, urls, metrics_urls, tuple(role for _, role in metrics))


async def _pinned_urls(
    base: str, *, count: int, deadline: ReadinessDeadline
) -> tuple[str, ...]:
    while True:
        addresses = await resolve(base)
        if len(addresses) == count:
            return tuple(pinned(base, address) for address in addresses)
        deadline.check(
            f"{urlsplit(base).hostname} has {len(addresses)} of {count} addresses"
        )
        await asyncio.sleep(RESOLVE_SECONDS)


async def resolve(url: str) -> list[str]:
    """Return every address of the URL's host, sorted; empty if the name is not known.

    Only IPv4 addresses if there are any, because a pod with both kinds is one server.
    """
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            parts.hostname, parts.port or 80, type=socket.SOCK_STREAM
        )
    except OSError:
        return []
    families = {family for family, *_ in found}
    chosen = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    return sorted(
        {str(address[0]) for family, _, _, _, address in found if family == chosen}
    )


def pinned(url: str, address: str) -> str:
    """Return the URL with an address in place of its host name."""
    parts = urlsplit(url)
    host = f"[{address}]" if ":" in address else address
    netloc = f"{host}:{parts.port}" if parts.port else host
    return urlunsplit(parts._replace(netloc=netloc)).rstrip("/")


async def wait_healthy(
    session: aiohttp.ClientSession, servers: Servers, deadline: ReadinessDeadline
) -> None:
    """Wait until every server answers 200 on /health.

    Raises RunFailure `EndpointNotReady`, or `CertificateInvalid` at once, since waiting can't help.
    """
    for url in servers.urls:
        while (
            problem := await _health_problem(session, url, servers.engine)
        ) is not None:
            deadline.check(f"{url}: {problem}")
            await asyncio.sleep(POLL_SECONDS)


async def _health_problem(
    session: aiohttp.ClientSession, url: str, engine: Engine
) -> str | None:
    timeout = aiohttp.ClientTimeout(total=HEALTH_TIMEOUT_SECONDS)
    try:
        async with session.get(
            url + engine.health_path, timeout=timeout
        ) as response:
            if response.status == 400:
                _look_for_certificate(url, await answer_of(response))
            if response.status not in NO_HEALTH:
                return (
                    None
                    if response.status == 200
                    else f"{engine.health_path} answers {response.status}"
                )
        async with session.get(url + MODELS_PATH, timeout=timeout) as response:
            status = (await answer_of(response)).status
            return (
                None
                if status in UP
                else f"no {engine.health_path}, and {MODELS_PATH} answers {status}"
            )
    except aiohttp.ClientConnectorCertificateError as error:
        message = (
            f"{url}: {first_line(error)} Put the certificate of its authority into a ConfigMap, "
            "and name that in endpoint.caConfigMapRef."
        )
        raise RunFailure("CertificateInvalid", message) from error
    except NETWORK_ERRORS as error:
        text = error_text(error)
        if any(word in text for word in WANTS_CERTIFICATE):
            raise no_certificate(f"{url}: {shorten(text, 300)}") from error
        return shorten(text, 300)


def _look_for_certificate(url: str, answer: HttpAnswer) -> None:
    if NO_CERTIFICATE in answer.body:
        raise no_certificate(f"{url} answered 400: {NO_CERTIFICATE}")
