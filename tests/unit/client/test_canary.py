"""What a bad first answer means: classified by status and body, told in the server's own words."""

from __future__ import annotations

import json

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import Answer
from benchrun_client.server.canary import MAX_WORDS_OF_SERVER, send_canary, served_models, words_of
from benchrun_client.tokenizer import Api
from unit.client.servers import Handler, answering, serving

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
