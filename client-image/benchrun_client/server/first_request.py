"""One small request (the canary) that proves the path before anything is measured.

A server can be healthy and still answer no request: wrong model name, missing key, a gateway's web
page, an engine that dies on its first forward pass. Reported here, in the server's own words, it
costs one request and not a run of failures."""

import json
import re
from collections.abc import Sequence

import aiohttp

from benchrun_client.contract import GREEDY, Api, Sampling
from benchrun_client.engines import ENGINE
from benchrun_client.failures import RunFailure, error_text, shorten
from benchrun_client.http_session import NETWORK_ERRORS, Answer, answer_of

CANARY_TOKENS = 2
MAX_WORDS_OF_SERVER = 500
PATHS: dict[Api, str] = {"Completions": "/v1/completions", "Chat": "/v1/chat/completions"}


async def served_models(session: aiohttp.ClientSession, url: str) -> dict[str, int | None]:
    """Each model that the server lists, with its longest context if known; none on trouble, which
    the canary reports better."""
    try:
        async with session.get(url + ENGINE.models_path) as response:
            answer = await answer_of(response)
        models = [
            model for model in json.loads(answer.body)["data"] if isinstance(model["id"], str)
        ]
    except (*NETWORK_ERRORS, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {
        m["id"]: length if isinstance(length := m.get("max_model_len"), int) else None
        for m in models
    }


async def complete(
    session: aiohttp.ClientSession,
    url: str,
    *,
    api: Api,
    model: str,
    prompt: str,
    max_tokens: int,
    sampling: Sampling,
) -> Answer:
    """One plain completion, not streamed. Settings that the server refuses are refused here as in
    the load."""
    content = (
        {"messages": [{"role": "user", "content": prompt}]} if api == "Chat" else {"prompt": prompt}
    )
    body = {"model": model, "max_tokens": max_tokens, **content, **sampling.body()}
    async with session.post(url + PATHS[api], json=body) as response:
        return await answer_of(response)


async def send_canary(
    session: aiohttp.ClientSession,
    url: str,
    *,
    api: Api,
    model: str,
    run_uid: str,
    served: Sequence[str],
) -> None:
    """Prove that a completion works. Raises RunFailure: with the reason that `canary_failure`
    finds."""
    prompt = f"[{run_uid}] canary: say anything."
    try:
        answer = await complete(
            session,
            url,
            api=api,
            model=model,
            prompt=prompt,
            max_tokens=CANARY_TOKENS,
            sampling=GREEDY,
        )
    except NETWORK_ERRORS as error:
        raise RunFailure(
            "CanaryFailed", f"{url}{PATHS[api]}: {error_text(error)} on the first request"
        ) from error
    if failure := canary_failure(answer, where=url + PATHS[api], model=model, served=served):
        raise failure


def canary_failure(
    answer: Answer, *, where: str, model: str, served: Sequence[str]
) -> RunFailure | None:
    """What is wrong with the canary's answer; None when it holds a completion."""
    words, status = words_of(answer), answer.status
    if answer.is_html:
        page = f"{where} answered {status} with an HTML page{_title(answer.body)}"
        return RunFailure("EndpointNotFound", f"{page}: no server of this API is there")
    if status in (401, 403):
        message = f"{where} answered {status}: {words}. Give the key as endpoint.apiKeySecretRef."
        return RunFailure("Unauthorized", message)
    if status == 404 and "model" in words.lower():
        listed = ", ".join(served[:20]) or f"no model that {ENGINE.models_path} lists"
        return RunFailure(
            "ModelNotServed", f"{where}: {words} It serves: {listed}. Requested: {model}."
        )
    if status == 404:
        return RunFailure(
            "EndpointNotFound", f"{where} answered 404: {words}. No server of this API is there."
        )
    if status != 200:
        return RunFailure("CanaryFailed", f"{where} answered {status}: {words}")
    body = answer.json()
    if not isinstance(body, dict):
        kind = answer.content_type or "no content type"
        return RunFailure(
            "EndpointNotFound", f"{where} answered 200 with {kind}, not with a JSON object"
        )
    usage = body.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if isinstance(tokens, int) and tokens >= 1:
        return None
    return RunFailure(
        "CanaryFailed", f"{where} answered 200 but counts no completion token: {words}"
    )


def words_of(answer: Answer) -> str:
    """The server's own words: its error message where there is one, else the start of the body;
    never HTML."""
    if answer.is_html:
        return f"an HTML page{_title(answer.body)}"
    body = answer.json()
    message = _message_in(answer.body if body is None else body)
    return shorten(" ".join(message.split()), MAX_WORDS_OF_SERVER) or "(empty body)"


def _message_in(body: object) -> str:
    """vLLM writes error.message (object, message in older versions), FastAPI detail."""
    if isinstance(body, dict):
        for key in ("error", "message", "detail"):
            if body.get(key):
                return _message_in(body[key])
    return body if isinstance(body, str) else json.dumps(body)


def _title(html: str) -> str:
    found = re.search(r"<title[^>]*>([^<]{1,200})", html, re.IGNORECASE)
    return f' ("{shorten(" ".join(found[1].split()), 100)}")' if found else ""
