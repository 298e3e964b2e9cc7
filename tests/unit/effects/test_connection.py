"""How the API server is found, and the bounds of one request."""

import asyncio
import json
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from benchrun.child_kinds import EXTENSION_KINDS
from benchrun.effects import (
    CHILD_KINDS,
    CONNECTIONS,
    RESOURCES,
    NotFound,
    TooLarge,
    Unavailable,
    configuration,
    connection,
    in_cluster,
)
from unit.effects.raw_server import HEAD, sending
from unit.effects.scripted_api import Answer, answering, connected


def kubeconfig(folder: Path, *, server: str = "https://10.0.0.1:6443") -> Path:
    file = folder / "config"
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "me"}}],
        "clusters": [{"name": "dev", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }
    file.write_text(json.dumps(text), encoding="utf-8")
    return file


@pytest.fixture
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.mark.usefixtures("_outside")
async def test_outside_a_cluster_the_kubeconfig_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path)))
    found = await configuration(connections=5)
    assert (found.host, found.connection_pool_maxsize) == (
        "https://10.0.0.1:6443",
        5,
    )
    assert found.retries is None
    assert found.client_session_kwargs == {"trust_env": False}
    assert (await configuration()).connection_pool_maxsize == CONNECTIONS


@pytest.mark.usefixtures("_outside")
async def test_without_kubeconfig_or_service_account_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    with pytest.raises(Unavailable, match="no way to reach an API server"):
        await configuration()


@pytest.mark.parametrize(
    ("host", "token", "inside"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_a_pod_with_a_service_account_is_in_a_cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: bool,
    token: bool,
    inside: bool,
) -> None:
    file = tmp_path / "token"
    if token:
        file.write_text("secret", encoding="utf-8")
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT_TOKEN", file)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if host:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert in_cluster() is inside


@pytest.mark.parametrize(
    ("limit", "read"),
    [(0, b""), (1, b"x"), (99, b"x" * 99), (100, b"x" * 100), (101, b"x" * 100)],
)
async def test_the_first_bytes_of_a_long_answer_are_read(
    limit: int, read: bytes
) -> None:
    async with answering(Answer(body=b"x" * 100)) as exchange:
        assert (
            await exchange.connection.request(
                "GET", "/", limit_bytes=limit, timeout_seconds=5
            )
            == read
        )


async def test_an_answer_without_an_end_is_left_at_its_bound() -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    async with (
        sending(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 4, stays=True
        ) as url,
        connected(url) as exchange,
    ):
        data = await exchange.connection.request("GET", "/log", limit_bytes=70_000)
    assert data == b"x" * 70_000


@pytest.mark.parametrize(
    "parts",
    [(), (HEAD,), (HEAD + b"Content-Length: 9\r\n\r\n", b"up")],
    ids=["none", "head", "half"],
)
async def test_an_answer_that_does_not_come_in_time_is_unavailable(
    parts: tuple[bytes, ...],
) -> None:
    async with sending(*parts, stays=True) as url, connected(url) as exchange:
        with pytest.raises(Unavailable, match="GET /metrics: TimeoutError"):
            await exchange.connection.request(
                "GET", "/metrics", limit_bytes=100, timeout_seconds=0.05
            )


async def test_lines_come_as_they_are_sent_and_an_idle_stream_is_given_up() -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    parts = (b"3\r\none\r\n", b"6\r\n 1\ntwo\r\n", b"2\r\n\n3\r\n")
    async with sending(head, *parts, stays=True) as url, connected(url) as exchange:
        lines = exchange.connection.lines("/watch", query=(), idle_seconds=0.2)
        assert [await anext(lines), await anext(lines)] == [b"one 1", b"two"]
        with pytest.raises(Unavailable, match="GET /watch: TimeoutError"):
            await anext(lines)


async def test_a_line_without_an_end_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "MAX_OBJECT_BYTES", 1000)
    async with (
        answering(Answer(body=b"x" * 100_000)) as exchange,
        aclosing(
            exchange.connection.lines("/watch", query=(), idle_seconds=5)
        ) as lines,
    ):
        with pytest.raises(TooLarge):
            await anext(lines)


async def test_a_refusal_is_read_no_further_than_its_sentence() -> None:
    async with answering(Answer(500, b"x" * 1_000_000)) as exchange:
        with pytest.raises(Unavailable) as refused:
            await exchange.api.get("Pod", namespace="lab", name="p")
    assert str(refused.value) == "x" * 300


async def test_a_refusal_in_parts_is_read_to_its_end_and_its_connection_reused() -> (
    None
):
    connections = 0

    async def refuse(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal connections
        connections += 1
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(
                    b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: "
                    b"6\r\n\r\ngone"
                )
                for _ in range(20):  # the client, in this loop, reads what is there
                    await asyncio.sleep(0)
                writer.write(b"!!")
        writer.close()

    async with (
        await asyncio.start_server(refuse, "127.0.0.1", 0) as server,
        connected(
            f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ) as exchange,
    ):
        for _ in range(3):
            with pytest.raises(NotFound, match="gone!!"):
                await exchange.connection.request("GET", "/")
    assert connections == 1


@pytest.mark.parametrize(
    ("path", "kind", "parts"),
    [
        ("/api/v1/namespaces/lab/configmaps/plan", "ConfigMap", ("lab", "plan")),
        ("/api/v1/configmaps", "ConfigMap", (None,)),
        ("/api/v1/namespaces/lab/pods/p/log", "Pod", ("lab", "p", "log")),
        ("/apis/apps/v1/namespaces/lab/deployments", "Deployment", ("lab",)),
        ("/apis/batch/v1/namespaces/lab/jobs/j", "Job", ("lab", "j")),
        (
            "/apis/benchrun.dev/v1alpha1/namespaces/lab/benchmarkruns/r/status",
            "BenchmarkRun",
            ("lab", "r", "status"),
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/lab/endpointslices",
            "EndpointSlice",
            ("lab",),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/lab/networkpolicies/n",
            "NetworkPolicy",
            ("lab", "n"),
        ),
        (
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/lab/leaderworkersets/g",
            "LeaderWorkerSet",
            ("lab", "g"),
        ),
        (
            "/api/v1/namespaces/lab/pods/..%2F..%2Fsecrets",
            "Pod",
            ("lab", "../../secrets"),
        ),
    ],
)
def test_path(path: str, kind: str, parts: tuple[str | None, ...]) -> None:
    assert RESOURCES[kind].path(*parts) == path


def test_every_kind_of_a_child_has_an_address_and_is_watched_or_looked_up() -> None:
    assert {*CHILD_KINDS, *EXTENSION_KINDS} <= set(RESOURCES)
    assert not set(CHILD_KINDS) & set(EXTENSION_KINDS)
