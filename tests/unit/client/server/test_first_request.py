"""The first request, and what servers answer in the wild."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.access import key_access
from benchrun_client.contract import Adapter, Api, RequestFields
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import HttpAnswer, open_session
from benchrun_client.server.first_request import (
    MAX_WORDS_OF_SERVER,
    Completion,
    adapters_missing,
    canary_failure,
    send_canary,
    served_models,
    words_of,
)
from hypothesis import given, strategies as st
from unit.client.plans import kind_of_api, plan
from unit.client.servers import Handler, answering, serving
from unit.effects.raw_server import BROKEN, sending

PAGE = "<!doctype html><html><head><title>Sign in\nplease</title></head><body>secret</body></html>"
TOKENS: Mapping[Api, str] = {
    "Completions": 'data: {"choices":[{"text":" ok"}]}\n\ndata: [DONE]\n\n',
    "Chat": 'data: {"choices":[{"delta":{"content":" ok"}}]}\n\ndata: [DONE]\n\n',
}
EMBEDDING = {"data": [{"embedding": [0.5, 0.25]}], "usage": {"prompt_tokens": 7}}


def saying(status: int, body: object) -> Handler:
    return answering(status, text=json.dumps(body), content_type="application/json")


def html(status: int) -> Handler:
    return answering(status, text=PAGE, content_type="text/html")


def streaming(text: str) -> Handler:
    return answering(200, text=text, content_type="text/event-stream")


def redirecting(location: str) -> Handler:
    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": location})

    return redirect


async def canary(handler: Handler, *, api: Api = "Completions") -> None:
    async with (
        serving(
            v1_completions=handler,
            v1_chat_completions=handler,
            v1_embeddings=handler,
        ) as url,
        aiohttp.ClientSession() as session,
    ):
        await send_canary(
            session,
            url,
            kind=kind_of_api(api),
            model="tiny",
            run_uid="run-1",
            served=("big", "small"),
        )


async def test_an_embedding_is_good() -> None:
    requests: list[dict[str, object]] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(await request.json())
        return web.json_response(EMBEDDING)

    await canary(answer, api="Embeddings")
    (sent,) = requests
    assert sent.keys() == {"model", "input", "truncate_prompt_tokens"}


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ({**EMBEDDING, "data": []}, "an answer without an embedding"),
        ({**EMBEDDING, "data": [{"embedding": []}]}, "without an embedding"),
        ({**EMBEDDING, "usage": None}, "no usage.prompt_tokens"),
        ({**EMBEDDING, "usage": {"prompt_tokens": "7"}}, "no usage.prompt_tokens"),
        ([], "an answer without an embedding"),
    ],
)
async def test_an_answer_that_is_no_embedding_ends_the_run(
    answer: object, part: str
) -> None:
    with pytest.raises(RunFailure, match=part) as caught:
        await canary(saying(200, answer), api="Embeddings")
    assert caught.value.reason == "CanaryFailed"


async def test_an_embedding_without_end_is_not_read_to_its_end() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"[" * 65_536)

    with pytest.raises(RunFailure, match="an answer of more than"):
        await canary(endless, api="Embeddings")


@pytest.mark.parametrize(
    ("api", "remedy"),
    [("Embeddings", "--runner=pooling"), ("Completions", "api: Embeddings")],
)
async def test_a_server_of_the_other_kind_is_told_apart(
    api: Api, remedy: str
) -> None:
    with pytest.raises(RunFailure, match=remedy) as caught:
        await canary(saying(404, {"detail": "Not Found"}), api=api)
    assert caught.value.reason == "EndpointNotFound"


@pytest.mark.parametrize("api", ["Completions", "Chat"])
async def test_a_completion_with_a_token_is_good(api: Api) -> None:
    requests: list[dict[str, object]] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(await request.json())
        return web.Response(text=TOKENS[api], content_type="text/event-stream")

    await canary(answer, api=api)
    assert len(requests) == 1
    assert (requests[0]["model"], requests[0]["temperature"]) == ("tiny", 0)
    assert requests[0]["stream_options"] == {"include_usage": True}
    assert ("messages" in requests[0], "prompt" in requests[0]) == (
        api == "Chat",
        api == "Completions",
    )


FIELDS = RequestFields(
    thinking=False,
    extra='{"seed":7}',
    adapters=(Adapter(name="sql", percent=50),),
)


def thinking_plan() -> Any:
    """Return a plan whose stages turn thinking off and ask for an adapter."""
    usual = plan()
    changes = {"api": "Chat", "fields": FIELDS}
    stages = tuple(each.model_copy(update=changes) for each in usual.stages)
    return usual.model_copy(update={"stages": stages})


async def test_the_canary_says_what_the_load_says() -> None:
    requests: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(await request.json())
        return web.Response(text=TOKENS["Chat"], content_type="text/event-stream")

    kinds = thinking_plan().kinds_of_requests
    async with (
        serving(v1_chat_completions=answer) as url,
        aiohttp.ClientSession() as session,
    ):
        for kind in kinds:
            await send_canary(
                session, url, kind=kind, model="tiny", run_uid="r", served=()
            )
    assert [each["model"] for each in requests] == ["tiny", "sql"]
    for each in requests:
        assert each["seed"] == 7
        assert each["chat_template_kwargs"]["enable_thinking"] is False


@pytest.mark.parametrize(
    ("served", "is_missing"),
    [(("tiny", "sql"), False), (("tiny",), True), ((), False)],
    ids=["listed", "not listed", "no list"],
)
def test_an_adapter_that_the_server_does_not_list_is_told_before_load(
    served: tuple[str, ...], is_missing: bool
) -> None:
    kinds = thinking_plan().kinds_of_requests
    failure = adapters_missing(kinds, served, where="http://llm")
    assert (failure is not None) == is_missing
    if failure is not None:
        assert failure.reason == "ModelNotServed"
        assert failure.message.startswith("http://llm/v1/models does not list the")
        assert "sql" in failure.message


@pytest.mark.parametrize(
    ("reason", "words", "handler"),
    [
        pytest.param(
            "EndpointNotFound",
            "404: Not Found",
            saying(404, {"detail": "Not Found"}),
            id="no-such-path",
        ),
        pytest.param(
            "EndpointNotFound",
            "404: nothing here",
            answering(404, text="nothing here"),
            id="plain-404",
        ),
        pytest.param(
            "EndpointNotFound",
            'HTML page \\("Sign in please"\\)',
            html(200),
            id="page",
        ),
        pytest.param(
            "EndpointNotFound",
            "502 with an HTML page",
            html(502),
            id="gateway-page",
        ),
        pytest.param(
            "EndpointNotFound", "403 with an HTML page", html(403), id="login-page"
        ),
        pytest.param(
            "CanaryFailed",
            "expected an event.* 'hello'",
            answering(200, text="hello"),
            id="text",
        ),
        pytest.param(
            "CanaryFailed",
            "expected an event.*'.1.'",
            saying(200, [1]),
            id="json-list",
        ),
        pytest.param(
            "ModelNotServed",
            "The model `tiny` does not exist. It serves: big, small. Requested: tiny",
            saying(
                404,
                {
                    "error": {
                        "message": "The model `tiny` does not exist.",
                        "code": 404,
                    }
                },
            ),
            id="other-model",
        ),
        pytest.param(
            "ModelNotServed",
            "does not exist",
            saying(
                404,
                {"object": "error", "message": "The model `tiny` does not exist."},
            ),
            id="other-model-in-old-words",
        ),
        pytest.param(
            "Unauthorized",
            "401: Unauthorized.*apiKeySecretRef",
            saying(401, {"error": "Unauthorized"}),
            id="no-key",
        ),
        pytest.param(
            "Unauthorized", "403: no", answering(403, text="no"), id="forbidden"
        ),
        pytest.param(
            "EndpointRedirects",
            r"\(308\) to https://llm.example/v1/completions\. Clients drop",
            redirecting("https://u:p@llm.example/v1/completions?key=k#f"),
            id="to-another-address",
        ),
        pytest.param(
            "EndpointRedirects",
            r"\(308\) to http://127.0.0.1:\d+/login\. Redirects",
            redirecting("/login"),
            id="to-another-path",
        ),
        pytest.param(
            "EndpointRedirects",
            "an address that can't be read",
            redirecting("http://[oops"),
            id="to-nonsense",
        ),
        pytest.param(
            "CertificateInvalid",
            "clientCertificateSecretRef",
            answering(400, text="<h1>No required SSL certificate was sent</h1>"),
            id="no-certificate",
        ),
        pytest.param(
            "CanaryFailed",
            "500: EngineDead",
            saying(500, {"error": {"message": "EngineDead"}}),
            id="dead",
        ),
        pytest.param(
            "CanaryFailed",
            "400: too long",
            saying(400, {"error": {"message": "too long"}}),
            id="refused",
        ),
        pytest.param(
            "CanaryFailed",
            "expected an event of a stream.*choices",
            saying(
                200,
                {"choices": [{"text": " ok"}], "usage": {"completion_tokens": 2}},
            ),
            id="not-streamed",
        ),
        pytest.param(
            "CanaryFailed",
            "that has no token",
            streaming("data: [DONE]\n\n"),
            id="no-token",
        ),
        pytest.param(
            "CanaryFailed",
            "an event that is not JSON",
            streaming("data: {7}\n\n"),
            id="no-json",
        ),
        pytest.param(
            "CanaryFailed",
            "ended its stream with an error.*EngineDead",
            streaming('data: {"error": {"message": "EngineDead"}}\n\n'),
            id="error-in-the-stream",
        ),
        pytest.param(
            "CanaryFailed",
            "more than",
            streaming("data: " + "x" * 300_000),
            id="long",
        ),
    ],
)
async def test_a_bad_answer_has_a_reason(
    reason: str, words: str, handler: Handler
) -> None:
    with pytest.raises(RunFailure, match=words) as failure:
        await canary(handler)
    assert failure.value.reason == reason
    assert "<" not in failure.value.message
    assert "secret" not in failure.value.message


async def test_a_connection_that_breaks_is_reported() -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with pytest.raises(RunFailure, match="on the first request") as failure:
        await canary(hang_up)
    assert failure.value.reason == "CanaryFailed"


@pytest.mark.parametrize(
    "body", ["word " * 10_000, json.dumps({"error": {"message": "x" * 10_000}})]
)
def test_the_servers_words_are_bounded(body: str) -> None:
    assert len(words_of(HttpAnswer(400, "text/plain", body))) <= MAX_WORDS_OF_SERVER


def test_an_empty_body_is_called_one() -> None:
    assert words_of(HttpAnswer(500, "text/plain", " \n")) == "(empty body)"


@pytest.mark.parametrize(
    ("expected", "handler"),
    [
        pytest.param(
            {"a": 4096, "b": None},
            saying(
                200,
                {
                    "data": [
                        {"id": "a", "max_model_len": 4096},
                        {"id": "b", "max_model_len": None},
                    ]
                },
            ),
            id="vllm",
        ),
        pytest.param({}, saying(401, {"error": "Unauthorized"}), id="no-key"),
        pytest.param({}, html(200), id="page"),
        pytest.param({}, saying(200, {"data": [7]}), id="odd"),
    ],
)
async def test_served_models_are_what_the_server_lists(
    expected: dict[str, int | None], handler: Handler
) -> None:
    async with (
        serving(v1_models=handler) as url,
        aiohttp.ClientSession() as session,
    ):
        assert await served_models(session, url) == expected


NESTED = "[" * 5000 + "]" * 5000
"""Deeper than Python reads JSON."""


def answer(
    status: int, body: str, content_type: str = "application/json"
) -> HttpAnswer:
    return HttpAnswer(status, content_type, body)


@pytest.mark.parametrize(
    ("words", "body"),
    [
        pytest.param("too long", '{"error": {"message": "too long"}}', id="vllm"),
        pytest.param(
            "too long",
            '{"object": "error", "message": "too long"}',
            id="older-vllm",
        ),
        pytest.param("too long", '{"detail": "too long"}', id="fastapi"),
        pytest.param("too long", '{"error": "too long"}', id="a-word"),
        pytest.param(
            "first",
            '{"error": "first", "message": "second", "detail": "third"}',
            id="error-comes-first",
        ),
        pytest.param(
            "second", '{"error": null, "message": "second"}', id="null-says-nothing"
        ),
        pytest.param(
            "second",
            '{"error": {}, "message": "second"}',
            id="an-empty-one-says-nothing",
        ),
        pytest.param(
            '[{"loc": "a"}]', '{"detail": [{"loc": "a"}]}', id="a-list-of-problems"
        ),
        pytest.param('{"code": 7}', '{"code": 7}', id="another-object"),
        pytest.param("[1, 2]", "[1, 2]", id="a-list"),
        pytest.param("7", "7", id="a-number"),
        pytest.param("null", "null", id="null"),
        pytest.param("plain words", "plain\n  words ", id="text"),
        pytest.param("(empty body)", "", id="nothing"),
        pytest.param("(empty body)", '""', id="an-empty-word"),
        pytest.param('{"error":', '{"error": ', id="cut-short"),
        pytest.param("an HTML page", "<html><body>secret</body></html>", id="page"),
        pytest.param(
            'an HTML page ("Sign in")',
            "  <TITLE lang=en>Sign\n in</title>",
            id="page-with-a-title",
        ),
    ],
)
def test_the_servers_error_message_is_extracted(words: str, body: str) -> None:
    assert words_of(answer(400, body)) == words


def test_words_that_are_nested_without_end_are_cut() -> None:
    assert words_of(answer(500, NESTED)) == "[" * (MAX_WORDS_OF_SERVER - 1) + "…"


@given(
    st.text(max_size=200),
    st.sampled_from(["application/json", "text/html", "text/plain", ""]),
    st.integers(100, 599),
)
def test_whatever_is_answered_has_short_words_on_one_line(
    body: str, content_type: str, status: int
) -> None:
    words = words_of(answer(status, body, content_type))
    assert 0 < len(words) <= MAX_WORDS_OF_SERVER
    assert len(words.splitlines()) == 1


@given(
    st.text(max_size=100),
    st.integers(100, 599).filter(lambda status: status != 200),
)
def test_a_status_other_than_200_is_a_failure(body: str, status: int) -> None:
    found = refused(answer(status, body))
    assert (
        str(status) in found.message
        or "HTML" in found.message
        or found.reason == "ModelNotServed"
    )


def refused(answered: HttpAnswer, *, served: Sequence[str] = ()) -> RunFailure:
    found = canary_failure(
        Completion(answered), where="http://s/v1", model="m", served=served
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "Unauthorized"),
        (403, "Unauthorized"),
        (402, "CanaryFailed"),
        (404, "EndpointNotFound"),
    ],
)
def test_a_key_is_requested_where_one_lacks(status: int, reason: str) -> None:
    found = refused(answer(status, "no", "text/plain"))
    assert (found.reason, "endpoint.apiKeySecretRef" in found.message) == (
        reason,
        reason == "Unauthorized",
    )


def test_the_first_of_many_models_are_listed() -> None:
    gone = answer(404, '{"message": "model m does not exist."}')
    many = refused(gone, served=[f"m{n}" for n in range(30)])
    none = refused(gone)
    assert "m19." in many.message
    assert "m20" not in many.message
    assert "It serves: no model that /v1/models lists." in none.message


# ---- over the wire
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()]
)
@pytest.mark.parametrize("reset", [False, True])
async def test_half_an_answer_to_the_canary_is_a_reason_with_words(
    parts: tuple[bytes, ...], reset: bool
) -> None:
    async with (
        sending(*parts, reset=reset) as url,
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(
            RunFailure, match=r"/v1/completions: .+ on the first request"
        ) as failure:
            await send_canary(
                session,
                url,
                kind=kind_of_api("Completions"),
                model="m",
                run_uid="r",
                served=(),
            )
    assert failure.value.reason == "CanaryFailed"


async def test_a_canary_that_is_not_answered_in_time_is_reported() -> None:
    async with (
        sending(stays=True) as url,
        open_session(access=key_access(), seconds=0.1) as session,
    ):
        with pytest.raises(RunFailure, match="on the first request") as failure:
            await send_canary(
                session,
                url,
                kind=kind_of_api("Chat"),
                model="m",
                run_uid="r",
                served=(),
            )
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
    async with (
        serving(v1_models=answering(200, text=body)) as url,
        aiohttp.ClientSession() as session,
    ):
        assert await served_models(session, url) == {}


async def test_models_with_odd_lengths_are_served_all_the_same() -> None:
    body = {
        "data": [
            {"id": "a", "max_model_len": "4096"},
            {"id": "b"},
            {"id": "c", "max_model_len": 8},
            {"id": None},
        ]
    }
    async with (
        serving(v1_models=answering(200, text=json.dumps(body))) as url,
        aiohttp.ClientSession() as session,
    ):
        assert await served_models(session, url) == {"a": None, "b": None, "c": 8}


@pytest.mark.parametrize(
    "parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()]
)
async def test_models_that_break_off_are_none(parts: tuple[bytes, ...]) -> None:
    async with sending(*parts) as url, aiohttp.ClientSession() as session:
        assert await served_models(session, url) == {}


async def test_requests_do_not_accept_compression() -> None:
    requests: list[str] = []

    async def note(request: web.Request) -> web.Response:
        requests.append(request.headers["Accept-Encoding"])
        return web.Response(text="up")

    async with (
        serving(metrics=note) as url,
        open_session(access=key_access(), seconds=5) as session,
        session.get(f"{url}/metrics"),
    ):
        pass
    assert requests == ["identity"]
