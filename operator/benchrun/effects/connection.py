"""One connection pool to the API server: takes and returns dictionaries, raises ClusterError.

The client library's transport is used (certificates, tokens, exec plugins), never its typed API
classes and models: those cost 110 MiB.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import (
    ConfigException,
    load_incluster_config,
    load_kube_config,
)

from benchrun import child_kinds
from benchrun.api.sweep import KIND as SWEEP_KIND, PLURAL as SWEEP_PLURAL
from benchrun.child_kinds import EXTENSION_KINDS
from benchrun.effects.errors import Forbidden, TooLarge, Unavailable, error_of
from benchrun.effects.turns import Places, serving
from benchrun.names import GROUP, KIND, PLURAL, VERSION
from benchrun.observe import untrusted_json as raw

Json = dict[str, Any]
QueryParameters = tuple[tuple[str, str], ...]
JSON = "application/json"
REQUEST_TIMEOUT_SECONDS = 30.0
REFUSAL_BYTES = 64 * 1024
MAX_OBJECT_BYTES = 16 * 1024 * 1024
"""Most bytes of an object: 1.5 MiB, and six times that if all characters are escaped."""
SMALL_ANSWER_BYTES = 128 * 1024
# seconds for the rest of a larger answer: 4 MiB at 420 kB a second
LARGE_ANSWER_SECONDS = 10.0
LARGE_ANSWERS = 24  # large answers read at the same time in the whole process
_large_answers = Places(LARGE_ANSWERS)
CONNECTIONS = 32
SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def in_cluster() -> bool:
    return (
        "KUBERNETES_SERVICE_HOST" in os.environ and SERVICE_ACCOUNT_TOKEN.exists()
    )


async def configuration(*, connections: int = CONNECTIONS) -> Configuration:
    """Return the configuration of the pod's service account if it has one, else of the kubeconfig.

    Raises Unavailable when there is neither.
    """
    found = Configuration()
    try:
        if in_cluster():
            load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        else:
            file = os.environ.get("KUBECONFIG")
            await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=file, client_configuration=found
            )
    except ConfigException as error:
        raise Unavailable(
            f"no way to reach an API server: neither a service account nor a kubeconfig: {error}"
        ) from error
    found.retries = None  # the work queue retries, with its own back-off
    found.connection_pool_maxsize = connections
    # Otherwise .netrc and proxy variables are read in a thread for every request; the watches do
    # not use them either.
    found.client_session_kwargs = {"trust_env": False}
    return found


class Connection:
    """A bounded pool of authenticated connections.

    `told` is called with the `Date` of every answer.
    """

    def __init__(
        self,
        found: Configuration,
        *,
        told: Callable[[str | None], None] | None = None,
    ) -> None:
        self._told = told
        # The API server never redirects; a pod behind its proxy might, and the client would follow
        # with the operator's credentials.
        without_redirects = aiohttp.TraceConfig()
        without_redirects.on_request_redirect.append(_refuse_redirect)
        found.trace_configs = [without_redirects]
        self._client = ApiClient(configuration=found)
        self._client.user_agent = "benchrun-operator"

    async def close(self) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def json(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: QueryParameters = (),
        accept: str = JSON,
        most: int = 0,
    ) -> Json:
        """Send one request and return the answer's JSON object.

        `most` is the largest answer in bytes (0: the largest that an object may have). Raises
        ClusterError.
        """
        most = most or MAX_OBJECT_BYTES
        data = await self.request(
            method,
            path,
            body=body,
            query=query,
            accept=accept,
            limit_bytes=most + 1,
        )
        if len(data) > most:
            raise TooLarge(
                f"{method} {path}: the answer has more than {most} bytes"
            )
        answer = raw.parsed(data)
        if not isinstance(answer, dict):  # a proxy's page, say
            raise Unavailable(f"{method} {path}: the answer is not a JSON object")
        return answer

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: QueryParameters = (),
        accept: str = JSON,
        limit_bytes: int | None = None,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send one request and return the answer's first bytes.

        What comes after the limit is not read. Raises ClusterError.
        """
        content_type = "application/merge-patch+json" if method == "PATCH" else JSON
        given = {**(headers or {}), "Content-Type": content_type, "Accept": accept}
        with _as_ours(method, path):
            async with asyncio.timeout(timeout_seconds):
                response = await self._sent(
                    method, path, body=body, query=query, headers=given
                )
                return await _read(response, limit_bytes)

    async def lines(
        self, path: str, *, query: QueryParameters, idle_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of an answer that stays open, until the server ends it.

        It is given up after `idle_seconds` in which nothing comes. Raises ClusterError.
        """
        rest = b""
        with _as_ours("GET", path):
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                response = await self._sent(
                    "GET", path, body=None, query=query, headers={"Accept": JSON}
                )
            try:
                if response.status >= 300:
                    await _read(response, REFUSAL_BYTES)
                while chunk := await _chunk(response, idle_seconds):
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield line
                    if len(rest) > MAX_OBJECT_BYTES:
                        raise TooLarge(
                            f"GET {path}: a line has more than {MAX_OBJECT_BYTES} bytes"
                        )
            finally:
                _let_go(response)

    async def _sent(
        self,
        method: str,
        path: str,
        *,
        body: Json | None,
        query: QueryParameters,
        headers: Mapping[str, str],
    ) -> aiohttp.ClientResponse:
        # call_api alone sends no credentials: they are put in here, and refreshed when they rotate.
        # The body is not given there: it is JSON already, and would be copied value by value.
        verb, url, sent, _, _ = await self._client.param_serialize(
            method,
            path,
            query_params=[*query],
            header_params=dict(headers),
            auth_settings=["BearerToken"],
        )
        answer = await self._client.call_api(verb, url, sent, body=body)
        if self._told is not None:
            self._told(answer.response.headers.get("Date"))
        response: aiohttp.ClientResponse = answer.response
        return response


@contextmanager
def _as_ours(method: str, path: str) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unavailable(
            f"{method} {path}: {type(error).__name__}: {error}"
        ) from error
    except ConfigException as error:
        raise Forbidden(f"the credentials can't be used: {error}") from error


async def _chunk(response: aiohttp.ClientResponse, idle_seconds: float) -> bytes:
    async with asyncio.timeout(idle_seconds):
        return await response.content.readany()


async def _refuse_redirect(*_: object) -> None:
    raise aiohttp.ClientError(
        "redirected to another address, which is not followed"
    )


async def _read(response: aiohttp.ClientResponse, limit_bytes: int | None) -> bytes:
    try:
        if response.status >= 300:
            raise error_of(
                response.status,
                await first_bytes(response, REFUSAL_BYTES),
                response.headers,
            )
        return (
            await response.read()
            if limit_bytes is None
            else await first_bytes(response, limit_bytes)
        )
    finally:
        _let_go(response)


def _let_go(response: aiohttp.ClientResponse) -> None:
    # A connection whose answer was not read to its end can't be used again. It is aborted: an
    # orderly end of TLS would outlive this pool.
    if (
        not response.content.at_eof()
        and response.connection
        and response.connection.transport
    ):
        response.connection.transport.abort()
    response.release()


async def first_bytes(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """Return the first `limit_bytes` of the answer; the rest is not read.

    At most `LARGE_ANSWERS` large answers are read at a time; others wait.
    """
    start = await _read_on(response, b"", min(limit_bytes, SMALL_ANSWER_BYTES))
    if len(start) < SMALL_ANSWER_BYTES:
        return start
    async with (
        _large_answers.taken(serving.get()),
        asyncio.timeout(LARGE_ANSWER_SECONDS),
    ):
        return await _read_on(response, start, limit_bytes)


async def _read_on(
    response: aiohttp.ClientResponse, start: bytes, limit_bytes: int
) -> bytes:
    chunks = bytearray(start)
    while chunk := await response.content.read(limit_bytes - len(chunks)):
        chunks += chunk
    return bytes(chunks)


@dataclass(frozen=True, slots=True)
class Resource:
    """The API group, version and plural of a kind, which make its URL paths."""

    group: str
    version: str
    plural: str

    def path(
        self,
        namespace: str | None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """Return the URL path of the collection, an object, or a subresource.

        Without a namespace it is the path for all namespaces.
        """
        parts = (
            ["/apis", self.group, self.version]
            if self.group
            else ["/api", self.version]
        )
        parts += ["namespaces", namespace] if namespace is not None else []
        parts += [self.plural, *(p for p in (name, subresource) if p is not None)]
        return "/".join([parts[0], *(quote(part, safe="") for part in parts[1:])])


_QUEUEING = child_kinds.KINDS[child_kinds.WORKLOAD]
RESOURCES = {
    KIND: Resource(GROUP, VERSION, PLURAL),
    SWEEP_KIND: Resource(GROUP, VERSION, SWEEP_PLURAL),
    **{
        name: Resource(kind.group, kind.version, kind.plural)
        for name, kind in child_kinds.KINDS.items()
    },
    "Pod": Resource("", "v1", "pods"),
    "Event": Resource("", "v1", "events"),
    "ResourceFlavor": Resource(
        _QUEUEING.group, _QUEUEING.version, "resourceflavors"
    ),
    "EndpointSlice": Resource("discovery.k8s.io", "v1", "endpointslices"),
}
CHILD_KINDS = (
    *(name for name in child_kinds.KINDS if name not in EXTENSION_KINDS),
    "Pod",
)
"""Kinds whose objects carry their run's label, and are watched."""
