"""What an endpoint asks for goes to the endpoint, and to no other address."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.access import Access, access_to, tls_context
from benchrun_client.contract import QueryParameter, RequestHeader, Target
from benchrun_client.engines import ENGINES
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import open_session
from benchrun_client.load.vllm_patches import PatchedAiohttp
from benchrun_client.measuring import answer_in_words
from benchrun_client.server.readiness import (
    ReadinessDeadline,
    Servers,
    wait_healthy,
)
from unit.client.plans import plan
from unit.client.servers import Handler, answering, serving, serving_tls
from unit.client.tls import certificate

TENANT = RequestHeader(name="X-Tenant", value="bench")
SECRET = RequestHeader(name="X-Token", variable="BENCHRUN_HEADER_X_TOKEN")
VERSION = QueryParameter(name="api-version", value="1 & 2")
HELD = {"BENCHRUN_HEADER_X_TOKEN": "s3cret\n", "OPENAI_API_KEY": "the-key"}
Seen = list[tuple[str, Mapping[str, str | None], Mapping[str, str]]]


def endpoint(url: str, *metrics: str, **changes: Any) -> Target:
    return plan(
        target={
            "base_url": f"{url}/prefix",
            "servers": 0,
            "metrics_urls": metrics,
            "headers": (TENANT, SECRET),
            "query": (VERSION,),
            **changes,
        }
    ).target


OK = answering(200)


def noting(seen: Seen, answer: Handler = OK) -> Handler:
    """Build a handler that notes path, the headers that count, and the query."""
    wanted = ("X-Tenant", "X-Token", "Authorization")

    async def noted(request: web.Request) -> web.StreamResponse:
        found = {name: request.headers.get(name) for name in wanted}
        seen.append((request.path, found, dict(request.query)))
        return await answer(request)

    return noted


def redirecting(url: str) -> Handler:
    async def redirect(_: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(url)

    return redirect


ALL = (
    {
        "X-Tenant": "bench",
        "X-Token": "s3cret",
        "Authorization": "Bearer the-key",
    },
    {"api-version": "1 & 2"},
)
NOTHING: Any = (dict.fromkeys(ALL[0]), {})


async def test_the_endpoint_gets_all_below_its_path_and_metrics_elsewhere_nothing() -> (
    None
):
    seen: Seen = []
    async with (
        serving(prefix_v1_models=noting(seen)) as url,
        serving(metrics=noting(seen)) as elsewhere,
    ):
        target = endpoint(url, f"{elsewhere}/metrics", metrics_apart=True)
        async with open_session(
            access=access_to(target, HELD), seconds=5
        ) as session:
            for asked in (f"{target.base_url}/v1/models", *target.metrics_urls):
                async with session.get(asked):
                    pass
    assert seen == [("/prefix/v1/models", *ALL), ("/metrics", *NOTHING)]


async def test_metrics_of_the_endpoints_own_pods_get_all() -> None:
    seen: Seen = []
    async with serving(metrics=noting(seen)) as pod:
        target = endpoint("http://service:80", f"{pod}/metrics")
        async with (
            open_session(access=access_to(target, HELD), seconds=5) as session,
            session.get(target.metrics_urls[0]),
        ):
            pass
    assert seen == [("/metrics", *ALL)]


async def test_where_an_answer_redirects_to_gets_nothing() -> None:
    seen: Seen = []
    async with (
        serving(x=noting(seen)) as elsewhere,
        serving(prefix_x=noting(seen, redirecting(f"{elsewhere}/x"))) as url,
        open_session(access=access_to(endpoint(url), HELD), seconds=5) as session,
        session.get(f"{url}/prefix/x"),
    ):
        pass
    assert seen == [("/prefix/x", *ALL), ("/x", *NOTHING)]


async def test_the_load_sends_the_same_over_vllms_own_and_follows_no_redirect() -> (
    None
):
    seen: Seen = []
    async with (
        serving(x=noting(seen)) as elsewhere,
        serving(prefix_x=noting(seen, redirecting(f"{elsewhere}/x"))) as url,
    ):
        sessions = PatchedAiohttp(
            aiohttp, access=access_to(endpoint(url), HELD), trust_env=False
        )
        vllms = {"Authorization": "Bearer None", "x-tenant": "other"}
        async with sessions.ClientSession().post(
            url=f"{url}/prefix/x", json={}, headers=vllms
        ) as response:
            status = response.status
        await sessions.close()
    assert (status, seen) == (307, [("/prefix/x", *ALL)])


def test_of_the_runs_own_servers_every_address_gets_the_key() -> None:
    access = access_to(plan().target, HELD)
    assert access.origins is None
    assert access.headers == {"Authorization": "Bearer the-key"}


@pytest.mark.parametrize("held", ["", " \n", "a\nb", "é", "a\x00b"])
def test_a_secret_that_no_header_can_have_is_told_by_its_name(held: str) -> None:
    with pytest.raises(RunFailure, match="X-Token") as failure:
        access_to(endpoint("http://a"), {"BENCHRUN_HEADER_X_TOKEN": held})
    assert failure.value.reason == "Unauthorized"
    assert not held.strip() or held.strip() not in failure.value.message


def test_secrets_are_shown_in_no_text() -> None:
    basic = {"BENCHRUN_HEADER_X_TOKEN": "Basic dXNlcjpwYXNz"}
    access = access_to(endpoint("http://a"), basic)
    assert access.hide("no 'dXNlcjpwYXNz', no tenant bench") == (
        "no '***', no tenant bench"
    )
    assert "dXNlcjpwYXNz" not in repr(access)


TOKEN = "eyJhbGciOiJSUzI1NiJ9." + "".join(f"{n:03}" for n in range(400))


@pytest.mark.parametrize("value", [TOKEN, f"Bearer {TOKEN}", f"Token id=7 {TOKEN}"])
async def test_a_secret_that_is_cut_within_words_is_not_shown(value: str) -> None:
    """Words of 500 characters end within a token of a thousand."""
    access = access_to(endpoint("http://a"), {"BENCHRUN_HEADER_X_TOKEN": value})
    refuse = answering(401, text=f"the bearer of {value!r} is nobody")
    async with (
        serving(v1_completions=refuse) as url,
        open_session(access=access, seconds=5) as session,
    ):
        words = await answer_in_words(
            session, url, api="Completions", body={}, hide=access.hide
        )
    assert words.startswith("HTTP 401: the bearer of '")
    assert TOKEN[:12] not in words
    assert access.hide(f"no {TOKEN[:15]}... here") == "no ***... here"


async def test_a_secret_in_a_stream_is_not_shown() -> None:
    access = access_to(endpoint("http://a"), HELD)
    broken = answering(
        200, text="data: {the-key\n\n", content_type="text/event-stream"
    )
    async with (
        serving(v1_completions=broken) as url,
        open_session(access=access, seconds=5) as session,
    ):
        words = await answer_in_words(
            session, url, api="Completions", body={}, hide=access.hide
        )
    assert words.startswith("HTTP 200: ")
    assert "***" in words
    assert "the-key" not in words


async def _healthy(url: str, access: Access, *, seconds: int = 1) -> None:
    async with open_session(access=access, seconds=5) as session:
        servers = Servers(ENGINES["VLLM"], (url,), ())
        await wait_healthy(session, servers, ReadinessDeadline(seconds))


def _demanding(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return the CA and the context of a server that asks clients for a certificate of it."""
    file, context = certificate(folder)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(file)
    return file, context


async def test_a_client_certificate_is_shown_to_who_asks_for_one(
    tmp_path: Path,
) -> None:
    authority, context = _demanding(tmp_path)
    async with serving_tls(context, health=answering(200)) as url:
        await _healthy(url, Access(tls=tls_context(str(authority), str(tmp_path))))


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
async def test_without_the_certificate_that_a_server_asks_for_it_is_told(
    tmp_path: Path, version: str
) -> None:
    authority, _ = certificate(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pair = ("-cert", authority, "-key", tmp_path / "tls.key", "-CAfile", authority)
    demands = ("-Verify", "1", "-verify_return_error", "-www", "-quiet", version)
    server = await asyncio.create_subprocess_exec(
        *("openssl", "s_server", "-accept", str(port)),
        *pair,
        *demands,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        with pytest.raises(RunFailure, match="clientCertificateSecretRef") as none:
            await _healthy(
                f"https://localhost:{port}",
                Access(tls=tls_context(str(authority))),
                seconds=30,
            )
    finally:
        server.kill()
        await server.wait()
    assert none.value.reason == "CertificateInvalid"


async def test_nginxs_words_for_a_missing_certificate_are_known() -> None:
    page = "<title>400 No required SSL certificate was sent</title>"
    async with serving(health=answering(400, text=page)) as url:
        with pytest.raises(RunFailure, match="clientCertificateSecretRef") as none:
            await _healthy(url, Access())
    assert none.value.reason == "CertificateInvalid"


def _encrypted(key: Path) -> bytes:
    words = ("openssl", "rsa", "-aes256", "-passout", "pass:hidden", "-in", key)
    return subprocess.run(words, check=True, capture_output=True).stdout


@pytest.mark.parametrize(
    "spoilt", ["no certificate", "no pair", "no key", "an encrypted key"]
)
def test_a_pair_that_can_not_be_used_is_told(tmp_path: Path, spoilt: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    certificate(tmp_path)
    certificate(other)
    shown, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    contents = {
        "no certificate": (shown, b""),
        "no pair": (shown, (other / "tls.crt").read_bytes()),
        "no key": (key, b"none"),
        "an encrypted key": (key, _encrypted(key)),
    }
    file, content = contents[spoilt]
    file.write_bytes(content)
    with pytest.raises(RunFailure, match=r"tls\.key") as failure:
        tls_context(None, str(tmp_path))
    assert failure.value.reason == "CertificateInvalid"


def test_a_secret_without_a_key_is_told(tmp_path: Path) -> None:
    certificate(tmp_path)
    (tmp_path / "tls.key").unlink()
    with pytest.raises(RunFailure, match="clientCertificateSecretRef"):
        tls_context(None, str(tmp_path))
