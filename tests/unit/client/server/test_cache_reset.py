"""Emptying the prefix caches before a stage."""

from collections.abc import Iterator, Sequence

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.contract import CacheReset
from benchrun_client.engines import ENGINES
from benchrun_client.server.cache_reset import (
    MAX_ANSWER_CHARACTERS,
    RESET_SECONDS,
    RETRY_SECONDS,
    reset_caches,
)
from unit.client.servers import Handler, answering, serving, serving_at

VLLM = ENGINES["VLLM"]

NESTED = "[" * 5000 + "]" * 5000
PATH = "/reset_prefix_cache"
DONE = (200, '{"success": true}')
HELD = (200, '{"success": false}')
Asked = list[tuple[str, str]]


def resetting(*answers: tuple[int, str], requests: Asked | None = None) -> Handler:
    """One answer after the other; the last one stays."""
    rest: Iterator[tuple[int, str]] = iter(answers[:-1])

    async def answer(request: web.Request) -> web.Response:
        if requests is not None:
            requests.append((request.method, request.path_qs))
        status, text = next(rest, answers[-1])
        return web.Response(status=status, text=text)

    return answer


async def reset(*urls: str) -> CacheReset:
    async with aiohttp.ClientSession() as session:
        return await reset_caches(session, urls, VLLM)


async def reset_of(handler: Handler) -> CacheReset:
    async with serving_at(PATH, handler) as url:
        return await reset(url)


async def test_a_reset_asks_for_external_tiers_too_and_believes_the_body() -> None:
    requests: Asked = []
    done = await reset_of(resetting(DONE, requests=requests))
    assert done == CacheReset(
        succeeded=True, attempts=1, answer='{"success": true}'
    )
    assert requests == [("POST", "/reset_prefix_cache?reset_external=true")]


async def test_a_refusal_with_status_200_is_retried() -> None:
    assert await reset_of(resetting(HELD, HELD, DONE)) == CacheReset(
        succeeded=True, attempts=3, answer=DONE[1]
    )


@pytest.mark.parametrize(
    "status", [400, 401, 403, 404, 405, 408, 409, 429, 500, 503]
)
async def test_only_what_another_attempt_may_change_is_retried(status: int) -> None:
    requests: Asked = []
    done = await reset_of(resetting((status, ""), DONE, requests=requests))
    assert done.succeeded is (status not in (401, 403, 404, 405))
    assert done.attempts == len(requests) == (2 if done.succeeded else 1)


async def test_a_server_that_never_does_it_is_given_up_with_its_words() -> None:
    async with serving_at(PATH, resetting(HELD)) as url:
        failed = await reset(url)
    assert not failed.succeeded
    # Between two attempts it waits: more of them would have taken longer than it may.
    assert 5 < failed.attempts <= RESET_SECONDS / RETRY_SECONDS + 1
    assert failed.answer == f'{url.removeprefix("http://")}: {{"success": false}}'


async def test_an_empty_answer_is_that_of_older_versions_which_the_hit_ratio_will_check() -> (
    None
):
    assert await reset_of(resetting((200, ""))) == CacheReset(
        succeeded=True, attempts=1, answer=""
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param(
            "there is no /reset_prefix_cache; the server needs VLLM_SERVER_DEV_MODE=1",
            404,
            id="not there",
        ),
        pytest.param("HTTP 403: go away", 403, id="forbidden"),
        pytest.param("HTTP 405: go away", 405, id="another method"),
    ],
)
async def test_what_another_attempt_would_not_change_is_reported_at_once(
    words: str, status: int
) -> None:
    failed = await reset_of(resetting((status, "go\naway"), DONE))
    assert (failed.succeeded, failed.attempts) == (False, 1)
    assert failed.answer.endswith(words)


@pytest.mark.parametrize(
    "body",
    [
        "<html>ok</html>",
        NESTED,
        "[]",
        "true",
        "{}",
        '{"success": "true"}',
        '{"success": 1}',
        '{"success": null}',
    ],
)
async def test_a_body_that_does_not_say_so_is_no_success(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchrun_client.server.cache_reset.RESET_SECONDS", 0.1)
    assert not (await reset_of(resetting((200, body)))).succeeded


async def test_a_server_that_is_gone_is_a_reset_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchrun_client.server.cache_reset.RESET_SECONDS", 0.2)
    async with serving() as url:
        pass
    failed = await reset(url)
    assert not failed.succeeded
    assert "Cannot connect" in failed.answer


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_all_servers_must_do_it_and_those_that_did_get_no_second_request(
    order: Sequence[int],
) -> None:
    quick: Asked = []
    slow: Asked = []
    async with (
        serving_at(PATH, resetting(DONE, requests=quick)) as first,
        serving_at(PATH, resetting(HELD, HELD, DONE, requests=slow)) as second,
    ):
        urls = (first, second)
        done = await reset(*(urls[i] for i in order))
    assert done == CacheReset(succeeded=True, attempts=3, answer=DONE[1])
    assert (len(quick), len(slow)) == (1, 3)


async def test_the_server_that_failed_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchrun_client.server.cache_reset.RESET_SECONDS", 0.2)
    async with (
        serving_at(PATH, resetting(DONE)) as good,
        serving_at(PATH, resetting(HELD)) as bad,
    ):
        failed = await reset(good, bad)
    assert failed.answer.startswith(bad.removeprefix("http://"))


async def test_a_long_answer_is_cut() -> None:
    failed = await reset_of(answering(403, text="x" * 10_000))
    assert len(failed.answer) == MAX_ANSWER_CHARACTERS
