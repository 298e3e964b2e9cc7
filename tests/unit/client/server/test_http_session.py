"""Proxies, keys and certificates: used where they are given, and nowhere else."""

from pathlib import Path

import pytest
from aiohttp import web
from benchrun_client.access import key_access, tls_context
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import (
    MAX_ANSWER_BYTES,
    answer_of,
    open_session,
    proxies_set,
)
from unit.client.servers import serving


@pytest.mark.parametrize(
    ("expected", "environment"),
    [
        (False, {}),
        (False, {"no_proxy": "*"}),
        (False, {"http_proxy": ""}),
        (True, {"http_proxy": "http://proxy"}),
        (True, {"HTTPS_PROXY": "http://proxy"}),
        (True, {"ALL_PROXY": "socks5://proxy"}),
    ],
)
def test_proxies_are_used_only_where_one_is_named(
    expected: bool, environment: dict[str, str]
) -> None:
    assert proxies_set(environment) is expected


@pytest.mark.parametrize(
    ("expected", "key"), [(None, ""), ("Bearer secret", "secret")]
)
async def test_the_api_key_goes_with_every_request(
    monkeypatch: pytest.MonkeyPatch, expected: str | None, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    seen: list[str | None] = []

    async def note(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response()

    async with (
        serving(x=note) as url,
        open_session(access=key_access(), seconds=5) as session,
        session.get(f"{url}/x"),
    ):
        pass
    assert seen == [expected]


async def test_an_answer_is_read_no_further_than_its_bound() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    async with (
        serving(x=endless) as url,
        open_session(access=key_access(), seconds=5) as session,
        session.get(f"{url}/x") as response,
    ):
        answer = await answer_of(response)
    assert (answer.status, len(answer.body)) == (200, MAX_ANSWER_BYTES)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_reported(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(RunFailure, match=r"ca\.crt") as failure:
        tls_context(str(file))
    assert failure.value.reason == "CertificateInvalid"
