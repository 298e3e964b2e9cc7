"""The benchmark's own uncounted connection to the API server, and its picture of one namespace."""

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import aiohttp
from benchrun.effects import configuration
from benchrun.names import LABEL_ROLE, LABEL_RUN

Json = dict[str, Any]

Notify = Callable[[str, str, Json], None]

WATCH_SECONDS = 4 * 3600
TOO_MANY_REQUESTS = 429
MAX_LINE_BYTES = 4 * 1024 * 1024
PATHS = {
    "BenchmarkRun": "/apis/benchrun.dev/v1alpha1/namespaces/{}/benchmarkruns",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Service": "/api/v1/namespaces/{}/services",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Pod": "/api/v1/namespaces/{}/pods",
}


# What can be asked twice, and answers of an API server that is too busy: it may have done what was
# asked all the same.
REPEATABLE = ("GET", "DELETE", "PATCH")
BUSY = (TOO_MANY_REQUESTS, 503, 504)
BUSY_SECONDS = 2.0
ATTEMPTS = 5


class Busy(RuntimeError):
    """The API server was too busy to answer."""


class Cluster:
    """A client that reads, writes and watches as the user KUBECONFIG names."""

    def __init__(
        self, session: aiohttp.ClientSession, *, url: str, authority: str | None
    ) -> None:
        self._session = session
        self.url = url
        """URL of the API server."""
        self.authority = authority
        """File with the certificate that signed the API server's; None: the system's own."""

    @classmethod
    async def connect(cls) -> Self:
        """Connect with the kubeconfig's address and credentials."""
        found = await configuration()
        tls = ssl.create_default_context(cafile=found.ssl_ca_cert)
        if found.cert_file:
            tls.load_cert_chain(found.cert_file, found.key_file)
        token = found.api_key.get("BearerToken")
        session = aiohttp.ClientSession(
            base_url=found.host,
            connector=aiohttp.TCPConnector(ssl=tls),
            headers={"Authorization": f"Bearer {token.removeprefix('Bearer ')}"}
            if token
            else {},
            read_bufsize=MAX_LINE_BYTES,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )
        return cls(session, url=found.host, authority=found.ssl_ca_cert)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        merge: bool = False,
    ) -> Json:
        """Send one request and return the JSON answer.

        `merge` sends the body as a JSON merge patch. While the API server is too busy to answer, it
        is asked a few times more, but for what would then be made twice. Raises RuntimeError with
        its text when it answers with an error.
        """
        for _ in range(ATTEMPTS - 1 if method in REPEATABLE else 0):
            try:
                return await self._ask(method, path, body, merge=merge)
            except Busy:
                await asyncio.sleep(BUSY_SECONDS)
        return await self._ask(method, path, body, merge=merge)

    async def _ask(
        self, method: str, path: str, body: Json | None, *, merge: bool
    ) -> Json:
        content_type = (
            "application/merge-patch+json" if merge else "application/json"
        )
        data = json.dumps(body) if body is not None else None
        async with self._session.request(
            method, path, data=data, headers={"Content-Type": content_type}
        ) as answer:
            if not answer.ok:
                raised = Busy if answer.status in BUSY else RuntimeError
                raise raised(
                    f"{method} {path}: HTTP {answer.status}: {(await answer.text())[:500]}"
                )
            found: Json = await answer.json()
            return found

    async def watch(self, path: str, notify: Callable[[str, Json], None]) -> None:
        """Call `notify` for every existing object and for every change, forever.

        The API server ends a watch when the kind's definition changes, and a new one begins; what
        was deleted in between is missed. Raises RuntimeError when a watch reports an error.
        """
        # Start from what the API server has cached: the namespace is new, and nothing in it can be
        # out of date.
        query = {
            "watch": "true",
            "resourceVersion": "0",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        while True:
            async with self._session.get(path, params=query) as answer:
                # Too many requests: the kind was just defined, and its storage is not there yet.
                if answer.status != TOO_MANY_REQUESTS:
                    answer.raise_for_status()
                    async for line in answer.content:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            raise RuntimeError(
                                f"a watch was ended: {event['object'].get('message')}"
                            )
                        notify(event["type"], event["object"])
            await asyncio.sleep(float(answer.headers.get("Retry-After", "0.1")))


class Picture:
    """What a namespace holds, and when each object was first seen."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        *,
        paths: Mapping[str, str] = PATHS,
        notify: Notify | None = None,
    ) -> None:
        """Create the picture without watching.

        `notify` gets kind, event and body of every change.
        """
        self._cluster = cluster
        self._namespace = namespace
        self._paths = paths
        self._notify = notify
        self._changed = asyncio.Event()
        self._watches: list[asyncio.Task[None]] = []
        self.objects: dict[str, dict[str, Json]] = {kind: {} for kind in paths}
        """Objects by kind and name."""
        self.first_seen: dict[tuple[str, str], float] = {}
        """Instant at which an object was first seen (`time.monotonic()`), by kind and name."""

    def start(self) -> None:
        """Start one watch for each kind."""
        for kind, path in self._paths.items():
            watch = self._cluster.watch(
                path.format(self._namespace), partial(self._heard, kind)
            )
            task = asyncio.create_task(watch, name=f"watch {kind}")
            task.add_done_callback(lambda _: self._wake())
            self._watches.append(task)

    def stop(self) -> None:
        """Stop watching."""
        for watch in self._watches:
            watch.cancel()

    def check(self) -> None:
        """Raise the error that broke a watch, if any."""
        for watch in self._watches:
            if watch.done():
                watch.result()

    def pod(self, run: str, role: str) -> Json | None:
        """Return the run's pod of a role, or None when there is none."""
        wanted = {LABEL_RUN: run, LABEL_ROLE: role}
        pods = self.objects["Pod"].values()
        return next(
            (
                p
                for p in pods
                if wanted.items() <= p["metadata"].get("labels", {}).items()
            ),
            None,
        )

    async def until(
        self, holds: Callable[[], bool], *, seconds: float, what: str
    ) -> None:
        """Wait for a condition on the picture.

        Raises TimeoutError when it does not hold within `seconds`, and the error that broke a
        watch.
        """
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    changed = self._changed
                    self.check()
                    await changed.wait()
        except TimeoutError as error:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}") from error

    def _heard(self, kind: str, event: str, body: Json) -> None:
        name = body["metadata"]["name"]
        if event == "DELETED":
            self.objects[kind].pop(name, None)
        else:
            # records: only that they exist matters here
            body.pop("binaryData", None)
            self.objects[kind][name] = body
            self.first_seen.setdefault((kind, name), time.monotonic())
        if self._notify is not None:
            self._notify(kind, event, body)
        self._wake()

    def _wake(self) -> None:
        # Waiting tasks hold the old event; a new one is there before they check again.
        self._changed.set()
        self._changed = asyncio.Event()
