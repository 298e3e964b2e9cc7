"""What clients of vLLM's API get."""

import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from benchrun_simulator.launch import Running

Serve = Callable[..., Running]
QUICK = ("--sim-ttft-ms=2", "--sim-tpot-ms=1")


async def post(
    http: aiohttp.ClientSession, url: str, **body: Any
) -> tuple[int, Any]:
    async with http.post(url, json=body) as response:
        return response.status, await response.json()


async def events(http: aiohttp.ClientSession, url: str, **body: Any) -> list[Any]:
    async with http.post(url, json={**body, "stream": True}) as response:
        assert (response.status, response.content_type) == (
            200,
            "text/event-stream",
        )
        text = await response.text()
    assert text.endswith("data: [DONE]\n\n")
    return [
        json.loads(event.removeprefix("data: "))
        for event in text.split("\n\n")[:-2]
    ]


async def test_small_endpoints_answer(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve("--sim-version=0.33.1").url
    for path in ("/health", "/ping"):
        async with http.get(f"{url}{path}") as response:
            assert (response.status, await response.read()) == (200, b"")
    async with http.get(f"{url}/version") as response:
        assert await response.json() == {"version": "0.33.1"}
    async with http.get(f"{url}/ready") as response:
        assert (response.status, await response.json()) == (
            404,
            {"detail": "Not Found"},
        )
    async with http.get(f"{url}/v1/completions") as response:
        assert (response.status, response.headers["allow"]) == (405, "POST")


async def test_every_served_name_is_a_model(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve("--served-model-name", "one", "two", "--max-model-len=4K").url
    async with http.get(f"{url}/v1/models") as response:
        models = (await response.json())["data"]
    assert [
        (model["id"], model["root"], model["max_model_len"]) for model in models
    ] == [
        ("one", "tiny", 4096),
        ("two", "tiny", 4096),
    ]


async def test_a_completion_has_as_many_tokens_as_requested(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = f"{serve(*QUICK).url}/v1/completions"
    status, answer = await post(
        http, url, model="tiny", prompt="hello", max_tokens=7
    )
    assert status == 200
    assert (answer["object"], answer["choices"][0]["finish_reason"]) == (
        "text_completion",
        "length",
    )
    assert len(answer["choices"][0]["text"]) == 7
    assert answer["usage"] == {
        "prompt_tokens": 5,
        "total_tokens": 12,
        "completion_tokens": 7,
    }


async def test_token_ids_are_a_prompt_too(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = f"{serve(*QUICK).url}/v1/completions"
    _, by_text = await post(http, url, prompt="abc")
    _, by_ids = await post(http, url, prompt=[97, 98, 99])
    assert by_text["choices"] == by_ids["choices"]
    assert by_ids["usage"] == {
        "prompt_tokens": 3,
        "total_tokens": 19,
        "completion_tokens": 16,
    }


async def test_a_stream_brings_a_chunk_a_token_then_the_usage(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = f"{serve(*QUICK).url}/v1/completions"
    body: dict[str, Any] = {"prompt": "hello", "max_tokens": 5}
    _, whole = await post(http, url, **body)
    *tokens, usage = await events(
        http, url, **body, stream_options={"include_usage": True}
    )
    assert (
        "".join(event["choices"][0]["text"] for event in tokens)
        == whole["choices"][0]["text"]
    )
    assert [event["choices"][0]["finish_reason"] for event in tokens] == [
        None
    ] * 4 + ["length"]
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])


async def test_without_include_usage_there_is_no_usage(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    seen = await events(
        http, f"{serve(*QUICK).url}/v1/completions", prompt="hello", max_tokens=3
    )
    assert len(seen) == 3
    assert not any("usage" in event for event in seen)


async def test_a_chat_stream_opens_with_the_role(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = f"{serve(*QUICK).url}/v1/chat/completions"
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    seen = await events(
        http,
        url,
        messages=messages,
        max_completion_tokens=2,
        stream_options={"include_usage": True},
    )
    assert seen[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(seen) == 1 + 2 + 1
    assert seen[-1]["usage"]["prompt_tokens"] == len("user: hi\nassistant:")


async def test_a_whole_chat_answer(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = f"{serve(*QUICK).url}/v1/chat/completions"
    _, answer = await post(
        http, url, messages=[{"role": "user", "content": "hi"}], max_tokens=3
    )
    message = answer["choices"][0]["message"]
    assert (message["role"], len(message["content"])) == ("assistant", 3)


@pytest.mark.parametrize(
    ("body", "status", "kind", "message"),
    [
        pytest.param(
            {"model": "nope", "prompt": "a"},
            *(
                404,
                "NotFoundError",
                "The model `nope` does not exist. Valid aliases: tiny.",
            ),
            id="model",
        ),
        pytest.param(
            {"prompt": list(range(100)) * 2},
            *(
                400,
                "BadRequestError",
                "This model's maximum context length is 64 tokens. However, your prompt ",
            ),
            id="long",
        ),
        pytest.param(
            {"prompt": "a" * 65},
            *(
                400,
                "BadRequestError",
                "This model's maximum context length is 64 tokens. However, your prompt ",
            ),
            id="characters",
        ),
        pytest.param(
            {"prompt": [1] * 64},
            *(400, "BadRequestError", "max_tokens must be at least 1, got 0."),
            id="full",
        ),
        pytest.param(
            {"prompt": "a", "max_tokens": 0},
            400,
            "BadRequestError",
            "max_tokens must be",
            id="zero",
        ),
        pytest.param(
            {},
            400,
            "BadRequestError",
            "Either prompt or prompt_embeds must be provided",
            id="empty",
        ),
        pytest.param(
            {"prompt": [999]},
            400,
            "BadRequestError",
            "Token id 999 is out of vocabulary",
            id="vocabulary",
        ),
        pytest.param(
            {"prompt": "a", "max_tokens": "many"},
            400,
            "BadRequestError",
            "",
            id="type",
        ),
        pytest.param(
            {"prompt": "a", "n": 2},
            400,
            "BadRequestError",
            "The simulator answers neither",
            id="n",
        ),
    ],
)
async def test_refusals_are_worded_as_vllms(
    serve: Serve,
    http: aiohttp.ClientSession,
    body: dict[str, Any],
    status: int,
    kind: str,
    message: str,
) -> None:
    url = serve("--max-model-len=64").url
    got, answer = await post(http, f"{url}/v1/completions", **body)
    assert (got, answer["error"]["type"], answer["error"]["code"]) == (
        status,
        kind,
        status,
    )
    assert answer["error"]["message"].startswith(message)


async def test_an_answer_ends_at_the_context_length(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--max-model-len=64").url
    _, answer = await post(
        http, f"{url}/v1/completions", prompt=[1] * 60, max_tokens=400
    )
    assert answer["usage"]["completion_tokens"] == 4


async def test_a_body_that_is_no_json_is_a_400(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    async with http.post(f"{serve().url}/v1/completions", data=b"{bad") as response:
        assert response.status == 400
        assert "JSON decode error" in (await response.json())["error"]["message"]


async def test_the_key_guards_v1_and_nothing_else(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, variables={"VLLM_API_KEY": "secret"}).url
    for headers, expected in (
        ({}, 401),
        ({"Authorization": "Bearer no"}, 401),
        ({"Authorization": "Bearer secret"}, 200),
    ):
        async with http.get(f"{url}/v1/models", headers=headers) as response:
            assert response.status == expected
    for path in ("/health", "/metrics", "/version"):
        async with http.get(f"{url}{path}") as response:
            assert response.status == 200
    assert (await post(http, f"{url}/tokenize", prompt="a"))[0] == 200


async def test_tokenize_and_detokenize_are_inverse(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve().url
    _, tokens = await post(
        http,
        f"{url}/tokenize",
        model="tiny",
        prompt="näive",
        add_special_tokens=False,
    )
    assert (tokens["count"], tokens["max_model_len"]) == (6, 8192)
    assert await post(http, f"{url}/detokenize", tokens=tokens["tokens"]) == (
        200,
        {"prompt": "näive"},
    )
    _, chat = await post(
        http, f"{url}/tokenize", messages=[{"role": "user", "content": "hi"}]
    )
    assert chat["count"] == len("user: hi\nassistant:")


async def test_the_prefix_cache_can_be_reset_in_development_mode_only(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    closed = serve().url
    async with http.post(f"{closed}/reset_prefix_cache") as response:
        assert response.status == 404
    url = serve(
        "--sim-ttft-ms=2",
        "--sim-tpot-ms=50",
        variables={"VLLM_SERVER_DEV_MODE": "1"},
    ).url
    body = {"prompt": "hello", "max_tokens": 100, "stream": True}
    async with http.post(f"{url}/v1/completions", json=body) as response:
        await response.content.readany()
        assert await post(http, f"{url}/reset_prefix_cache") == (
            200,
            {"success": False},
        )
        response.close()
    while (await post(http, f"{url}/reset_prefix_cache"))[1] != {"success": True}:
        pass  # the test's own time limit ends this


async def test_cached_tokens_are_reported_when_requested(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = f"{serve(*QUICK, '--enable-prompt-tokens-details').url}/v1/completions"
    details = [
        (await post(http, url, prompt="x" * 40))[1]["usage"][
            "prompt_tokens_details"
        ]
        for _ in range(2)
    ]
    assert details == [{"cached_tokens": 0}, {"cached_tokens": 32}]


REASONING = {
    "VLLM": "reasoning",
    "SGLang": "reasoning_content",
    "LlamaCpp": "reasoning_content",
}


def kinds(found: list[Any]) -> list[str]:
    """Return what each chunk of a chat shows."""
    deltas = [event["choices"][0]["delta"] for event in found if event["choices"]]
    return [name for delta in deltas[1:] for name, text in delta.items() if text]


@pytest.mark.parametrize("engine", REASONING)
async def test_a_chat_begins_with_reasoning_unless_told_otherwise(
    serve: Serve, http: aiohttp.ClientSession, engine: str
) -> None:
    flags = (f"--sim-engine={engine}", "--sim-reasoning-tokens=3")
    url = f"{serve(*QUICK, *flags).url}/v1/chat/completions"
    asked: dict[str, Any] = {
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "stream_options": {"include_usage": True},
    }
    found = await events(http, url, **asked)
    assert kinds(found) == [REASONING[engine]] * 3 + ["content"] * 2
    details = found[-1]["usage"].get("completion_tokens_details")
    assert details == ({"reasoning_tokens": 3} if engine == "VLLM" else None)
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    assert kinds(await events(http, url, **asked, **off)) == ["content"] * 5


async def test_some_models_think_anyway(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    flags = ("--sim-reasoning-tokens=3", "--sim-thinks-anyway")
    url = f"{serve(*QUICK, *flags).url}/v1/chat/completions"
    found = await events(
        http,
        url,
        messages=[{"role": "user", "content": "hello"}],
        max_tokens=5,
        chat_template_kwargs={"enable_thinking": False},
    )
    assert kinds(found)[:4] == ["reasoning"] * 3 + ["content"]


@pytest.mark.parametrize("obeys", [True, False])
async def test_a_schema_is_obeyed_unless_told_otherwise(
    serve: Serve, http: aiohttp.ClientSession, obeys: bool
) -> None:
    url = f"{serve(*QUICK, *(() if obeys else ('--sim-ignores-schema',))).url}"
    schema = {
        "type": "object",
        "required": ["age", "names"],
        "properties": {
            "age": {"type": "integer", "minimum": 3},
            "names": {"type": "array"},
        },
    }
    found = await events(
        http,
        f"{url}/v1/chat/completions",
        messages=[{"role": "user", "content": "hello"}],
        max_tokens=9,
        response_format={"type": "json_schema", "json_schema": {"schema": schema}},
    )
    choices = [event["choices"][0] for event in found if event["choices"]]
    text = "".join(choice["delta"].get("content", "") for choice in choices)
    if obeys:
        assert json.loads(text) == {"age": 3, "names": []}
    else:
        assert len(text) == 9
    assert choices[-1]["finish_reason"] == ("stop" if obeys else "length")


async def test_an_adapter_is_a_model_by_its_name(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--enable-lora", "--lora-modules", "sql=/a", "chat=/b").url
    async with http.get(f"{url}/v1/models") as response:
        models = (await response.json())["data"]
    assert [(model["id"], model["parent"]) for model in models] == [
        ("tiny", None),
        ("sql", "tiny"),
        ("chat", "tiny"),
    ]
    for name, expected in {"sql": 200, "other": 404}.items():
        status, answer = await post(
            http, f"{url}/v1/completions", model=name, prompt="hello", max_tokens=2
        )
        assert status == expected
        assert answer.get("model", name) == name


async def test_a_pooling_server_makes_embeddings_and_writes_no_texts(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--runner=pooling", "--max-model-len=4").url
    status, answer = await post(
        http, f"{url}/v1/embeddings", model="tiny", input="hello"
    )
    assert (status, answer["error"]["code"]) == (400, 400)
    status, answer = await post(
        http,
        f"{url}/v1/embeddings",
        model="tiny",
        input="hello",
        truncate_prompt_tokens=-1,
    )
    assert status == 200
    assert len(answer["data"][0]["embedding"]) > 1
    assert answer["usage"]["prompt_tokens"] == 4
    async with http.get(f"{url}/metrics") as response:
        text = await response.text()
    counted = {
        name: float(line.rpartition(" ")[2])
        for name in ("prompt_tokens_total", "generation_tokens_total")
        for line in text.splitlines()
        if line.startswith(f"vllm:{name}{{")
    }
    assert counted == {"prompt_tokens_total": 4, "generation_tokens_total": 0}
    status, _ = await post(http, f"{url}/v1/completions", model="tiny", prompt="x")
    assert status == 404


async def test_a_server_of_texts_makes_no_embeddings(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK).url
    status, _ = await post(http, f"{url}/v1/embeddings", model="tiny", input="x")
    assert status == 404
