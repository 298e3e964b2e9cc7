"""What is posted to a pod: heard where the pod says so, and not otherwise."""

from __future__ import annotations

import pytest
from benchrun.effects.scraper import MAX_ANSWER_BYTES, FetchError, HttpFetcher
from unit.effects.pages import Pages
from unit.effects.raw_server import sending


@pytest.mark.parametrize("status", [200, 201, 204])
async def test_any_success_will_do(pages: Pages, fetcher: HttpFetcher, status: int) -> None:
    pages.status, pages.body = status, b""
    await fetcher.post(pages.url, "{}", timeout_seconds=5)
    assert [(request.method, request.content_type) for request in pages.asked] == [("POST", "application/json")]


@pytest.mark.parametrize("status", [300, 303, 307, 400, 403, 404, 409, 413, 429, 500, 503])
async def test_anything_else_was_not_heard(pages: Pages, fetcher: HttpFetcher, status: int) -> None:
    pages.status, pages.headers = status, {"Location": "/elsewhere", "Retry-After": "1"}
    with pytest.raises(FetchError, match=f"HTTP {status}"):
        await fetcher.post(pages.url, "{}", timeout_seconds=5)
    assert len(pages.asked) == 1, "whoever acknowledges does it again by itself"


async def test_the_answer_to_what_was_posted_is_bounded_too(pages: Pages, fetcher: HttpFetcher) -> None:
    pages.body = b"x" * MAX_ANSWER_BYTES
    await fetcher.post(pages.url, "{}", timeout_seconds=5)
    pages.body += b"x"
    with pytest.raises(FetchError, match=f"more than {MAX_ANSWER_BYTES} bytes"):
        await fetcher.post(pages.url, "{}", timeout_seconds=5)


async def test_a_server_that_says_nothing_to_it_is_given_up_in_time(fetcher: HttpFetcher) -> None:
    async with sending(stays=True) as url:
        with pytest.raises(FetchError, match="TimeoutError"):
            await fetcher.post(url, "{}", timeout_seconds=0.05)
