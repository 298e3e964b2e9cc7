"""The first request, and what servers answer in the wild; emptying the prefix cache."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.contract import CacheReset
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import Answer, open_session
from benchrun_client.server.first_request import (
    MAX_ANSWER_CHARACTERS,
    MAX_WORDS_OF_SERVER,
    RESET_SECONDS,
    RETRY_SECONDS,
    canary_failure,
    reset_caches,
    send_canary,
    served_models,
    words_of,
)
from benchrun_client.tokenizer import Api
from hypothesis import given
from hypothesis import strategies as st
from unit.client.servers import Handler, answering, serving, serving_at
from unit.effects.raw_server import BROKEN, sending

PAGE = "<!doctype html><html><head><title>Sign in\nplease</title></head><body>secret</body></html>"
COMPLETION = {"choices": [{"text": " ok"}], "usage": {"completion_tokens": 2}}


def saying(status: int, body: object) -> Handler:
    return answering(status, text=json.dumps(body), content_type="application/json")


def html(status: int) -> Handler:
    return answering(status, text=PAGE, content_type="text/html")


async def canary(handler: Handler, *, api: Api = "Completions") -> None:
    async with (
        serving(v1_completions=handler, v1_chat_completions=handler) as url,
        aiohttp.ClientSession() as session,
    ):
        await send_canary(session, url, api=api, model="tiny", run_uid="run-1", served=("big", "small"))


@pytest.mark.parametrize("api", ["Completions", "Chat"])
async def test_a_completion_with_a_token_is_good(api: Api) -> None:
    asked: list[dict[str, object]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response(COMPLETION)

    await canary(answer, api=api)
    assert len(asked) == 1
    assert asked[0]["model"] == "tiny"
    assert ("messages" in asked[0], "prompt" in asked[0]) == (api == "Chat", api == "Completions")


@pytest.mark.parametrize(
    ("reason", "words", "handler"),
    [
        pytest.param("EndpointNotFound", "404: Not Found", saying(404, {"detail": "Not Found"}), id="no-such-path"),
        pytest.param("EndpointNotFound", "404: nothing here", answering(404, text="nothing here"), id="plain-404"),
        pytest.param("EndpointNotFound", 'HTML page \\("Sign in please"\\)', html(200), id="page"),
        pytest.param("EndpointNotFound", "502 with an HTML page", html(502), id="gateway-page"),
        pytest.param("EndpointNotFound", "403 with an HTML page", html(403), id="login-page"),
        pytest.param("EndpointNotFound", "200 with text/plain", answering(200, text="hello"), id="text"),
        pytest.param("EndpointNotFound", "not with a JSON object", saying(200, [1]), id="json-list"),
        pytest.param(
            "ModelNotServed",
            "The model `tiny` does not exist. It serves: big, small. Requested: tiny",
            saying(404, {"error": {"message": "The model `tiny` does not exist.", "code": 404}}),
            id="other-model",
        ),
        pytest.param(
            "ModelNotServed",
            "does not exist",
            saying(404, {"object": "error", "message": "The model `tiny` does not exist."}),
            id="other-model-in-old-words",
        ),
        pytest.param(
            "Unauthorized", "401: Unauthorized.*apiKeySecretRef", saying(401, {"error": "Unauthorized"}), id="no-key"
        ),
        pytest.param("Unauthorized", "403: no", answering(403, text="no"), id="forbidden"),
        pytest.param("CanaryFailed", "500: EngineDead", saying(500, {"error": {"message": "EngineDead"}}), id="dead"),
        pytest.param("CanaryFailed", "400: too long", saying(400, {"error": {"message": "too long"}}), id="refused"),
        pytest.param(
            "CanaryFailed", "no completion token", saying(200, {"usage": {"completion_tokens": 0}}), id="empty"
        ),
        pytest.param("CanaryFailed", "no completion token", saying(200, {"choices": []}), id="uncounted"),
        pytest.param("CanaryFailed", "no completion token", saying(200, {"usage": "much"}), id="odd-usage"),
    ],
)
async def test_a_bad_answer_has_a_reason(reason: str, words: str, handler: Handler) -> None:
    with pytest.raises(RunFailure, match=words) as failure:
        await canary(handler)
    assert failure.value.reason == reason
    assert "<" not in failure.value.message
    assert "secret" not in failure.value.message


async def test_a_connection_that_breaks_is_told() -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with pytest.raises(RunFailure, match="on the first request") as failure:
        await canary(hang_up)
    assert failure.value.reason == "CanaryFailed"


@pytest.mark.parametrize("body", ["word " * 10_000, json.dumps({"error": {"message": "x" * 10_000}})])
def test_the_servers_words_are_bounded(body: str) -> None:
    assert len(words_of(Answer(400, "text/plain", body))) <= MAX_WORDS_OF_SERVER


def test_an_empty_body_is_called_one() -> None:
    assert words_of(Answer(500, "text/plain", " \n")) == "(empty body)"


@pytest.mark.parametrize(
    ("expected", "handler"),
    [
        pytest.param(
            {"a": 4096, "b": None},
            saying(200, {"data": [{"id": "a", "max_model_len": 4096}, {"id": "b", "max_model_len": None}]}),
            id="vllm",
        ),
        pytest.param({}, saying(401, {"error": "Unauthorized"}), id="no-key"),
        pytest.param({}, html(200), id="page"),
        pytest.param({}, saying(200, {"data": [7]}), id="odd"),
    ],
)
async def test_served_models_are_what_the_server_lists(expected: dict[str, int | None], handler: Handler) -> None:
    async with serving(v1_models=handler) as url, aiohttp.ClientSession() as session:
        assert await served_models(session, url) == expected


NESTED = "[" * 5000 + "]" * 5000
"""Deeper than Python reads JSON."""


def answer(status: int, body: str, content_type: str = "application/json") -> Answer:
    return Answer(status, content_type, body)


@pytest.mark.parametrize(
    ("words", "body"),
    [
        pytest.param("too long", '{"error": {"message": "too long"}}', id="vllm"),
        pytest.param("too long", '{"object": "error", "message": "too long"}', id="older-vllm"),
        pytest.param("too long", '{"detail": "too long"}', id="fastapi"),
        pytest.param("too long", '{"error": "too long"}', id="a-word"),
        pytest.param("first", '{"error": "first", "message": "second", "detail": "third"}', id="error-comes-first"),
        pytest.param("second", '{"error": null, "message": "second"}', id="null-says-nothing"),
        pytest.param("second", '{"error": {}, "message": "second"}', id="an-empty-one-says-nothing"),
        pytest.param('[{"loc": "a"}]', '{"detail": [{"loc": "a"}]}', id="a-list-of-problems"),
        pytest.param('{"code": 7}', '{"code": 7}', id="another-object"),
        pytest.param("[1, 2]", "[1, 2]", id="a-list"),
        pytest.param("7", "7", id="a-number"),
        pytest.param("null", "null", id="null"),
        pytest.param("plain words", "plain\n  words ", id="text"),
        pytest.param("(empty body)", "", id="nothing"),
        pytest.param("(empty body)", '""', id="an-empty-word"),
        pytest.param('{"error":', '{"error": ', id="cut-short"),
        pytest.param("an HTML page", "<html><body>secret</body></html>", id="page"),
        pytest.param('an HTML page ("Sign in")', "  <TITLE lang=en>Sign\n in</title>", id="page-with-a-title"),
    ],
)
def test_the_servers_own_words(words: str, body: str) -> None:
    assert words_of(answer(400, body)) == words


def test_words_that_are_nested_without_end_are_cut() -> None:
    assert words_of(answer(500, NESTED)) == "[" * (MAX_WORDS_OF_SERVER - 1) + "…"


@given(
    st.text(max_size=200), st.sampled_from(["application/json", "text/html", "text/plain", ""]), st.integers(100, 599)
)
def test_whatever_is_answered_has_short_words_on_one_line(body: str, content_type: str, status: int) -> None:
    words = words_of(answer(status, body, content_type))
    assert 0 < len(words) <= MAX_WORDS_OF_SERVER
    assert len(words.splitlines()) == 1


@given(st.text(max_size=100), st.integers(100, 599).filter(lambda status: status != 200))
def test_what_is_no_200_is_trouble(body: str, status: int) -> None:
    found = canary_failure(answer(status, body), where="http://s/v1", model="m", served=())
    assert found is not None
    assert str(status) in found.message or "HTML" in found.message or found.reason == "ModelNotServed"


@pytest.mark.parametrize(
    ("good", "usage"),
    [
        (True, {"completion_tokens": 1}),
        (True, {"completion_tokens": 2, "total_tokens": 9}),
        (False, {"completion_tokens": 0}),
        (False, {"completion_tokens": -1}),
        (False, {"completion_tokens": "2"}),
        (False, {"completion_tokens": 2.0}),
        (False, {"completion_tokens": None}),
        (False, {}),
        (False, [2]),
        (False, None),
    ],
)
def test_a_completion_counts_a_token_at_least(good: bool, usage: object) -> None:
    found = canary_failure(answer(200, json.dumps({"usage": usage})), where="http://s/v1", model="m", served=())
    assert (found is None) is good


@pytest.mark.parametrize("body", [NESTED, "null", "[]", "7", '"ok"', ""])
def test_a_200_without_an_object_is_no_server_of_this_api(body: str) -> None:
    found = canary_failure(answer(200, body), where="http://s/v1", model="m", served=())
    assert found is not None
    assert (found.reason, "not with a JSON object" in found.message) == ("EndpointNotFound", True)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "Unauthorized"), (403, "Unauthorized"), (402, "CanaryFailed"), (404, "EndpointNotFound")],
)
def test_a_key_is_asked_for_where_one_lacks(status: int, reason: str) -> None:
    found = canary_failure(answer(status, "no", "text/plain"), where="http://s/v1", model="m", served=())
    assert found is not None
    assert (found.reason, "endpoint.apiKeySecretRef" in found.message) == (reason, reason == "Unauthorized")


def test_of_many_models_the_first_are_listed_and_of_none_it_is_said() -> None:
    gone = answer(404, '{"message": "model m does not exist."}')
    many = canary_failure(gone, where="w", model="m", served=[f"m{n}" for n in range(30)])
    none = canary_failure(gone, where="w", model="m", served=())
    assert many is not None
    assert none is not None
    assert "m19." in many.message
    assert "m20" not in many.message
    assert "It serves: no model that /v1/models lists." in none.message


# ---- over the wire ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()])
@pytest.mark.parametrize("reset", [False, True])
async def test_half_an_answer_to_the_canary_is_a_reason_with_words(parts: tuple[bytes, ...], reset: bool) -> None:
    async with sending(*parts, reset=reset) as url, aiohttp.ClientSession() as session:
        with pytest.raises(RunFailure, match=r"/v1/completions: .+ on the first request") as failure:
            await send_canary(session, url, api="Completions", model="m", run_uid="r", served=())
    assert failure.value.reason == "CanaryFailed"


async def test_a_canary_that_is_not_answered_in_time_is_told() -> None:
    async with sending(stays=True) as url, open_session(tls=None, seconds=0.1) as session:
        with pytest.raises(RunFailure, match="on the first request") as failure:
            await send_canary(session, url, api="Chat", model="m", run_uid="r", served=())
    assert failure.value.message.startswith(f"{url}/v1/chat/completions: ")


@pytest.mark.parametrize(
    "body",
    [
        NESTED,
        '{"data": 7}',
        '{"data": {"id": "a"}}',
        '{"data": ["a"]}',
        '{"data": [{"id": 1}]}',
        '{"data": [{}]}',
        "[]",
        "{}",
    ],
)
async def test_a_list_of_models_that_is_none_is_empty(body: str) -> None:
    async with serving(v1_models=answering(200, text=body)) as url, aiohttp.ClientSession() as session:
        assert await served_models(session, url) == {}


async def test_models_with_odd_lengths_are_served_all_the_same() -> None:
    body = {"data": [{"id": "a", "max_model_len": "4096"}, {"id": "b"}, {"id": "c", "max_model_len": 8}, {"id": None}]}
    async with serving(v1_models=answering(200, text=json.dumps(body))) as url, aiohttp.ClientSession() as session:
        assert await served_models(session, url) == {"a": None, "b": None, "c": 8}


@pytest.mark.parametrize("parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()])
async def test_models_that_break_off_are_none(parts: tuple[bytes, ...]) -> None:
    async with sending(*parts) as url, aiohttp.ClientSession() as session:
        assert await served_models(session, url) == {}


async def test_a_reset_answered_by_nesting_without_end_is_a_reset_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchrun_client.server.first_request.RESET_SECONDS", 0.1)
    async with (
        serving_at("/reset_prefix_cache", answering(200, text=NESTED)) as url,
        aiohttp.ClientSession() as session,
    ):
        failed = await reset_caches(session, [url])
    assert not failed.succeeded
    assert failed.answer.startswith(url.removeprefix("http://"))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 409, 429, 500, 503])
async def test_only_what_another_attempt_may_change_is_tried_again(status: int) -> None:
    asked = 0

    async def refuse_once(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=status if asked == 1 else 200, text='{"success": true}')

    async with serving_at("/reset_prefix_cache", refuse_once) as url, aiohttp.ClientSession() as session:
        done = await reset_caches(session, [url])
    assert done.succeeded is (status not in (401, 403, 404, 405))
    assert done.attempts == asked == (2 if done.succeeded else 1)


async def test_nobody_is_asked_to_compress() -> None:
    asked: list[str] = []

    async def note(request: web.Request) -> web.Response:
        asked.append(request.headers["Accept-Encoding"])
        return web.Response(text="up")

    async with (
        serving(metrics=note) as url,
        open_session(tls=None, seconds=5) as session,
        session.get(f"{url}/metrics"),
    ):
        pass
    assert asked == ["identity"]


PATH = "/reset_prefix_cache"
DONE, HELD = (200, '{"success": true}'), (200, '{"success": false}')
Asked = list[tuple[str, str]]


def resetting(*answers: tuple[int, str], asked: Asked | None = None) -> Handler:
    """One answer after the other; the last one stays."""
    rest: Iterator[tuple[int, str]] = iter(answers[:-1])

    async def answer(request: web.Request) -> web.Response:
        if asked is not None:
            asked.append((request.method, request.path_qs))
        status, text = next(rest, answers[-1])
        return web.Response(status=status, text=text)

    return answer


async def reset(*urls: str) -> CacheReset:
    async with aiohttp.ClientSession() as session:
        return await reset_caches(session, urls)


async def reset_of(handler: Handler) -> CacheReset:
    async with serving_at(PATH, handler) as url:
        return await reset(url)


async def test_a_reset_asks_for_external_tiers_too_and_believes_the_body() -> None:
    asked: Asked = []
    done = await reset_of(resetting(DONE, asked=asked))
    assert done == CacheReset(succeeded=True, attempts=1, answer='{"success": true}')
    assert asked == [("POST", "/reset_prefix_cache?reset_external=true")]


async def test_a_refusal_with_status_200_is_tried_again() -> None:
    assert await reset_of(resetting(HELD, HELD, DONE)) == CacheReset(succeeded=True, attempts=3, answer=DONE[1])


async def test_an_error_is_tried_again() -> None:
    assert (await reset_of(resetting((500, "boom"), DONE))).succeeded


async def test_a_server_that_never_does_it_is_given_up_with_its_words() -> None:
    async with serving_at(PATH, resetting(HELD)) as url:
        failed = await reset(url)
    assert not failed.succeeded
    # Between two attempts it waits: more of them would have taken longer than it may.
    assert 5 < failed.attempts <= RESET_SECONDS / RETRY_SECONDS + 1
    assert failed.answer == f'{url.removeprefix("http://")}: {{"success": false}}'


async def test_an_empty_answer_is_that_of_older_versions_which_the_hit_ratio_will_check() -> None:
    assert await reset_of(resetting((200, ""))) == CacheReset(succeeded=True, attempts=1, answer="")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param("there is no /reset_prefix_cache; the server needs VLLM_SERVER_DEV_MODE=1", 404, id="not there"),
        pytest.param("HTTP 403: go away", 403, id="forbidden"),
        pytest.param("HTTP 405: go away", 405, id="another method"),
    ],
)
async def test_what_another_attempt_would_not_change_is_told_at_once(words: str, status: int) -> None:
    failed = await reset_of(resetting((status, "go\naway"), DONE))
    assert (failed.succeeded, failed.attempts) == (False, 1)
    assert failed.answer.endswith(words)


@pytest.mark.parametrize(
    "body",
    ["<html>ok</html>", "[]", "true", "{}", '{"success": "true"}', '{"success": 1}', '{"success": null}'],
)
async def test_a_body_that_does_not_say_so_is_no_success(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchrun_client.server.first_request.RESET_SECONDS", 0.1)
    assert not (await reset_of(resetting((200, body)))).succeeded


async def test_a_server_that_is_gone_is_a_reset_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchrun_client.server.first_request.RESET_SECONDS", 0.2)
    async with serving() as url:
        pass
    failed = await reset(url)
    assert not failed.succeeded
    assert "Cannot connect" in failed.answer


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_all_servers_must_do_it_and_those_that_did_are_not_asked_again(order: Sequence[int]) -> None:
    quick: Asked = []
    slow: Asked = []
    async with (
        serving_at(PATH, resetting(DONE, asked=quick)) as first,
        serving_at(PATH, resetting(HELD, HELD, DONE, asked=slow)) as second,
    ):
        urls = (first, second)
        done = await reset(*(urls[i] for i in order))
    assert done == CacheReset(succeeded=True, attempts=3, answer=DONE[1])
    assert (len(quick), len(slow)) == (1, 3)


async def test_the_server_that_failed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchrun_client.server.first_request.RESET_SECONDS", 0.2)
    async with (
        serving_at(PATH, resetting(DONE)) as good,
        serving_at(PATH, resetting(HELD)) as bad,
    ):
        failed = await reset(good, bad)
    assert failed.answer.startswith(bad.removeprefix("http://"))


async def test_a_long_answer_is_cut() -> None:
    failed = await reset_of(answering(403, text="x" * 10_000))
    assert len(failed.answer) == MAX_ANSWER_CHARACTERS
