"""Fetching a data file: bounded, and clear about what came instead."""

from typing import Any

import pytest
from aiohttp import web
from benchrun_client.contract import DataFile
from benchrun_client.datasets.files import fetch, shown_url
from benchrun_client.failures import RunFailure
from unit.client.servers import answering, serving


async def test_a_file_is_fetched_whole() -> None:
    async with serving(rows=answering(200, text="[]" * 1000)) as url:
        path = await fetch(DataFile(url=f"{url}/rows"), max_bytes=10_000)
    assert path.read_text() == "[]" * 1000
    path.unlink()


@pytest.mark.parametrize(
    ("reason", "message", "answer"),
    [
        (
            "DatasetInvalid",
            "HTML page",
            {
                "status": 200,
                "text": "<html>login</html>",
                "content_type": "text/html",
            },
        ),
        ("DatasetNotFound", "answered 403 Forbidden", {"status": 403}),
        ("DatasetInvalid", "larger than 0 MiB", {"status": 200, "text": "x" * 11}),
    ],
)
async def test_another_answer_is_rejected(
    reason: str, message: str, answer: dict[str, Any]
) -> None:
    async with serving(rows=answering(**answer)) as url:
        with pytest.raises(RunFailure, match=message) as failure:
            await fetch(DataFile(url=f"{url}/rows"), max_bytes=10)
    assert failure.value.reason == reason
    assert "login" not in failure.value.message


async def test_without_a_server_it_is_not_found() -> None:
    async with serving() as url:
        pass
    with pytest.raises(RunFailure, match="cannot fetch") as failure:
        await fetch(DataFile(url=f"{url}/rows"), max_bytes=10_000)
    assert failure.value.reason == "DatasetNotFound"


async def test_an_endless_file_is_given_up_at_the_bound() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    async with serving(rows=endless) as url:
        with pytest.raises(RunFailure, match="larger than 2 MiB"):
            await fetch(DataFile(url=f"{url}/rows"), max_bytes=2 * 1024 * 1024)


def test_a_url_is_shown_without_its_secrets() -> None:
    shown = shown_url(
        "https://user:password@host:8443/a/rows.json?signature=secret#x"
    )
    assert shown == "https://host:8443/a/rows.json"


async def test_a_redirect_to_an_html_page_is_named() -> None:
    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPFound("/login?next=secret")

    page = answering(200, text="<html>", content_type="text/html")
    async with serving(rows=redirect, login=page) as url:
        with pytest.raises(
            RunFailure, match=r"/rows .*http://.*/login\)"
        ) as failure:
            await fetch(DataFile(url=f"{url}/rows"), max_bytes=10_000)
    assert failure.value.reason == "DatasetInvalid"
    assert "secret" not in failure.value.message
