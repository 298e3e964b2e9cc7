"""Small HTTP requests to pods, bounded in bytes and seconds, and a client's records.

Requests go directly to the pod, or through the API server: a URL that is a path of the API server
(`/api/v1/namespaces/NS/pods/NAME:PORT/proxy/...`) goes there, which needs the right to get and
create `pods/proxy`. The envelopes of a client's records are checked; no record is opened here.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode

import aiohttp
from benchrun_client import contract

from benchrun.decide import PullTarget
from benchrun.effects.connection import Connection, first_bytes
from benchrun.effects.errors import ClusterError
from benchrun.plan import problem_with

Headers = Mapping[str, str]
CONNECTIONS_A_POD = 2
# the only encoding taken: compressing costs the server time, and unpacking has no bound
AS_IT_IS = "identity"
MAX_ANSWER_BYTES = 64 * 1024  # largest answer read after a POST


class FetchError(Exception):
    """The request failed; the text says why, in few words."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        # HTTP status of a failed answer; None if there was no answer, or if it is not known
        self.status = status


# Most connections: a polled client holds one until it has news.
PROXY_CONNECTIONS = 256


class Fetcher:
    """Reads from and posts to pods.

    Every method raises FetchError for anything but a complete answer within the limits. Pods are
    reached directly: no proxy, redirect or cookie. Paths of the API server need a connection to it.
    Must be created in a running event loop.
    """

    def __init__(self, connection: Connection | None = None) -> None:
        self._connection = connection
        self._session = aiohttp.ClientSession(
            # aiohttp reads a connection that is kept even without a request, and without a bound.
            connector=aiohttp.TCPConnector(
                limit=0,
                limit_per_host=CONNECTIONS_A_POD,
                force_close=True,
                ssl=False,
            ),
            headers={
                "User-Agent": "benchrun-operator",
                "Accept-Encoding": AS_IT_IS,
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._session.close()

    async def fetch(
        self, url: str, *, limit_bytes: int, timeout_seconds: float
    ) -> str:
        answer = await self.fetch_bytes(
            url, limit_bytes=limit_bytes, timeout_seconds=timeout_seconds
        )
        return answer.decode(errors="replace")

    async def fetch_bytes(
        self,
        url: str,
        *,
        limit_bytes: int,
        timeout_seconds: float,
        headers: Headers | None = None,
    ) -> bytes:
        return await self._exchange(
            "GET", url, None, limit_bytes, timeout_seconds, headers or {}
        )

    async def post(
        self,
        url: str,
        body: str,
        *,
        timeout_seconds: float,
        headers: Headers | None = None,
    ) -> None:
        sent = {"Content-Type": "application/json", **(headers or {})}
        await self._exchange(
            "POST", url, body, MAX_ANSWER_BYTES, timeout_seconds, sent
        )

    async def _exchange(
        self,
        method: str,
        url: str,
        body: str | None,
        limit_bytes: int,
        timeout_seconds: float,
        headers: Headers,
    ) -> bytes:
        path, _, query = url.partition("?")
        try:
            if self._connection is not None and url.startswith("/"):
                page = await self._connection.request(
                    method,
                    path,
                    body=json.loads(body) if body is not None else None,
                    query=tuple(parse_qsl(query)),
                    accept="*/*",
                    limit_bytes=limit_bytes + 1,
                    timeout_seconds=timeout_seconds,
                    headers=headers,
                )
            else:  # from the pod itself, without the operator's credentials
                async with asyncio.timeout(timeout_seconds):
                    page = await self._directly(
                        method, url, body, limit_bytes + 1, headers
                    )
        except ClusterError as error:
            raise FetchError(
                f"through the API server: {error}", status=error.code
            ) from error
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise FetchError(str(error) or type(error).__name__) from error
        if len(page) > limit_bytes:
            raise FetchError(f"the answer has more than {limit_bytes} bytes")
        return page

    async def _directly(
        self,
        method: str,
        url: str,
        body: str | None,
        limit_bytes: int,
        headers: Headers,
    ) -> bytes:
        async with self._session.request(
            method, url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            if not 200 <= answer.status < 300:
                raise FetchError(f"HTTP {answer.status}", status=answer.status)
            encoding = answer.headers.get("Content-Encoding", AS_IT_IS)
            if encoding != AS_IT_IS:
                raise FetchError(f"the answer is compressed: {encoding[:40]}")
            return await first_bytes(answer, limit_bytes)


WAIT_SECONDS = 30
"""Seconds that a client delays an answer if there is nothing new: the most that clients grant.
Every answer costs a connection."""
SETTLE_SECONDS = 1
"""Seconds that a client delays the news of a stage for the record of the stage before."""
ANSWER_SECONDS = 15.0  # seconds for the answer itself, after that delay
ACKNOWLEDGE_SECONDS = 5.0
WRONG_IMAGE = (
    "use the client image of this operator's release (spec.client.image, or clientImage of the "
    "chart)"
)


class UnusableAnswer(Exception):
    """The client's answer can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """One answer of a client, checked."""

    progress: contract.ClientProgress
    arrivals: tuple[contract.Sealed, ...]
    refused: tuple[str, ...]  # why records were not taken, one text a record


@dataclass(eq=False)
class ClientRecords:
    """The record server of one run's client."""

    fetcher: Fetcher
    target: PullTarget

    def __post_init__(self) -> None:
        self._headers = {contract.TOKEN_HEADER: self.target.token}

    async def pull(self, *, from_sequence: int, seen_version: int) -> Pulled:
        """Wait for a record or a change of the progress.

        Raises FetchError without an answer, and UnusableAnswer for an answer that can't be used.
        """
        query = urlencode(
            {
                "from": from_sequence,
                "seen": seen_version,
                "wait": WAIT_SECONDS,
                contract.SETTLE_QUERY: SETTLE_SECONDS,
                contract.CONTRACT_QUERY: contract.CONTRACT_VERSION,
            }
        )
        try:
            url = f"{self.target.url}/records?{query}"
            most = contract.MAX_DELIVERY_BYTES
            answer = await self.fetcher.fetch_bytes(
                url,
                limit_bytes=most,
                timeout_seconds=WAIT_SECONDS + ANSWER_SECONDS,
                headers=self._headers,
            )
        except FetchError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise UnusableAnswer(
                    "the client does not know this run's token"
                ) from error
            raise
        try:
            delivery, bodies = contract.unpack_delivery(answer)
        except contract.ContractMismatch as mismatch:
            raise UnusableAnswer(f"{mismatch}; {WRONG_IMAGE}") from mismatch
        except ValueError as error:
            raise UnusableAnswer(
                f"the client's answer is not valid: {error}"
            ) from error
        # A client that has not read its plan yet (or can't) does not know its run; it sends nothing
        # but its progress.
        if delivery.run_uid != self.target.run_uid and (
            delivery.run_uid or delivery.records
        ):
            raise UnusableAnswer(
                f"the answer is of run {delivery.run_uid!r}, not of run {self.target.run_uid!r}"
            )
        arrivals = []
        refused = []
        for e, body in zip(delivery.records, bodies, strict=True):
            if (problem := self._problem_with(e, body)) is None:
                arrivals.append(contract.Sealed(e, body))
            else:
                refused.append(f"record {e.sequence}: {problem}")
        return Pulled(
            progress=delivery.progress,
            arrivals=tuple(arrivals),
            refused=tuple(refused),
        )

    async def acknowledge(self, through: int) -> bool:
        """Tell the client that all records below `through` are stored.

        Return False if the client did not answer.
        """
        body = contract.Acknowledgement(through=through).model_dump_json()
        try:
            url = f"{self.target.url}/ack"
            await self.fetcher.post(
                url,
                body,
                timeout_seconds=ACKNOWLEDGE_SECONDS,
                headers=self._headers,
            )
        except FetchError:
            return False
        return True

    def _problem_with(self, envelope: contract.Envelope, body: bytes) -> str | None:
        target = self.target
        return envelope.problem_with(
            body, run_uid=target.run_uid, plan_digest=target.plan_digest
        ) or problem_with(
            envelope, target.stage_ids, target.searches, target.repeated
        )
