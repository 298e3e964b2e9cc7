"""The canary: one small request that shows, before anything is measured, that requests work.

Its body is like the load's, and its answer is read by the same parser. A healthy server may still
answer no request: wrong model name, missing key, a gateway's web page, an engine that dies on its
first forward pass. The canary finds this with one request instead of a run of failures, and reports
it in the server's own words.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from benchrun_client.contract import WHOLE_ANSWERS, Api, KindOfRequest
from benchrun_client.failures import RunFailure, error_text, shorten
from benchrun_client.http_session import (
    MAX_ANSWER_BYTES,
    MODELS_PATH,
    NETWORK_ERRORS,
    HttpAnswer,
    answer_of,
)
from benchrun_client.load.event_stream import (
    BrokenStreamError,
    CompletionStream,
    StreamNotes,
)
from benchrun_client.load.whole_answer import (
    embedding_in,
    prompt_tokens_of,
    read_whole,
)

CANARY_TOKENS = 2
OK = 200
MAX_WORDS_OF_SERVER = 500
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NO_CERTIFICATE = "No required SSL certificate was sent"
"""What nginx answers, with 400, to a client without a certificate."""
PATHS: dict[Api, str] = {
    "Completions": "/v1/completions",
    "Chat": "/v1/chat/completions",
    "Embeddings": "/v1/embeddings",
}


async def served_models(
    session: aiohttp.ClientSession, url: str
) -> dict[str, int | None]:
    """Return name -> longest context (None if unknown) of each model that the server lists.

    Empty if the list cannot be read: the canary will report the problem.
    """
    try:
        async with session.get(url + MODELS_PATH) as response:
            answer = await answer_of(response)
        models = [
            model
            for model in json.loads(answer.body)["data"]
            if isinstance(model["id"], str)
        ]
    except (*NETWORK_ERRORS, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {
        m["id"]: length
        if isinstance(length := m.get("max_model_len"), int)
        else None
        for m in models
    }


@dataclass(frozen=True, slots=True)
class Completion:
    """A server's answer to a request like the load's."""

    answer: HttpAnswer | None = None
    """The answer if it is not a stream but an error or a web page; None if it is a stream."""
    tokens: int = 0
    """Number of events of the stream that show a token; of an embedding, the prompt's tokens."""
    problem: str | None = None
    """Why the answer cannot be read; None if it can be read."""


def request_body(
    api: Api,
    *,
    model: str,
    prompt: str | list[str],
    max_tokens: int,
    fields: Mapping[str, object],
    ignore_eos: bool = False,
) -> dict[str, Any]:
    """Return the body of a request, the same as vLLM's benchmark sends.

    `fields` are those of sampling and of the workload's requests (`Requests.asked_body`).
    """
    if api in WHOLE_ANSWERS:
        # As long as the model takes it; longer prompts are refused before.
        whole = {"input": prompt, "truncate_prompt_tokens": -1}
        return {"model": model, **whole, **fields}
    asked: dict[str, Any]
    if api == "Chat":
        content = [{"type": "text", "text": prompt}]
        asked = {
            "messages": [{"role": "user", "content": content}],
            "max_completion_tokens": max_tokens,
        }
    else:
        asked = {
            "prompt": prompt,
            "repetition_penalty": 1.0,
            "max_tokens": max_tokens,
            "logprobs": None,
        }
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    to_the_end = {"ignore_eos": True} if ignore_eos else {}
    return {
        "model": model,
        **asked,
        **streamed,
        **to_the_end,
        **fields,
    }


async def complete(
    session: aiohttp.ClientSession, url: str, *, api: Api, body: Mapping[str, Any]
) -> Completion:
    """Send one request and read its answer as the load reads its answers."""
    async with session.post(
        url + PATHS[api], json=body, allow_redirects=False
    ) as response:
        if response.status != OK or "html" in response.content_type:
            return Completion(await answer_of(response))
        if api in WHOLE_ANSWERS:
            return await _whole(response)
        return await _streamed(response)


async def _whole(response: aiohttp.ClientResponse) -> Completion:
    try:
        answer = embedding_in(await read_whole(response))
    except BrokenStreamError as error:
        return Completion(problem=str(error))
    tokens = prompt_tokens_of(answer)
    if tokens is None:
        return Completion(
            problem="no usage.prompt_tokens, so no tokens can be counted"
        )
    return Completion(tokens=tokens)


async def _streamed(response: aiohttp.ClientResponse) -> Completion:
    stream = CompletionStream(StreamNotes())
    tokens = 0
    left = MAX_ANSWER_BYTES
    try:
        async for chunk in response.content.iter_any():
            tokens += sum(map(_is_token, stream.feed(chunk)))
            left -= len(chunk)
            if left < 0:
                # An answer to so few tokens that is longer is none; closing ends it.
                response.close()
                raise BrokenStreamError(
                    f"a stream of more than {MAX_ANSWER_BYTES} bytes"
                )
        tokens += sum(map(_is_token, stream.end()))
    except BrokenStreamError as error:
        return Completion(tokens=tokens, problem=str(error))
    return Completion(tokens=tokens)


def _is_token(line: bytes) -> bool:
    return line != b"data: [DONE]" and bool(
        json.loads(line.removeprefix(b"data: "))["choices"]
    )


async def send_canary(
    session: aiohttp.ClientSession,
    url: str,
    *,
    kind: KindOfRequest,
    model: str,
    run_uid: str,
    served: Sequence[str],
) -> None:
    """Send a request of this kind; raise `canary_failure` if its answer is not of that kind."""
    api = kind.api
    model = kind.adapter or model
    body = request_body(
        api,
        model=model,
        prompt=f"[{run_uid}] canary: say anything.",
        max_tokens=CANARY_TOKENS,
        fields=kind.body,
        ignore_eos=kind.ignore_eos,
    )
    try:
        completion = await complete(session, url, api=api, body=body)
    except NETWORK_ERRORS as error:
        raise RunFailure(
            "CanaryFailed",
            f"{url}{PATHS[api]}: {error_text(error)} on the first request",
        ) from error
    if failure := canary_failure(
        completion, where=url + PATHS[api], model=model, served=served
    ):
        raise failure


def adapters_missing(
    kinds: Iterable[KindOfRequest], served: Sequence[str], *, where: str
) -> RunFailure | None:
    """Return what is wrong if the server does not list an adapter that requests are for.

    Nothing is wrong if it lists nothing: the canary then finds out.
    """
    asked = dict.fromkeys(kind.adapter for kind in kinds if kind.adapter)
    missing = [name for name in asked if name not in served]
    if not served or not missing:
        return None
    listed = ", ".join(served[:20])
    names = ", ".join(missing[:20])
    return RunFailure(
        "ModelNotServed",
        f"{where}{MODELS_PATH} does not list the adapters {names}. It lists: {listed}. Load "
        "them with --enable-lora and --lora-modules NAME=PATH, or correct request.adapters.",
    )


def canary_failure(
    completion: Completion, *, where: str, model: str, served: Sequence[str]
) -> RunFailure | None:
    """Return what is wrong with the canary's answer; None if it is a stream of tokens, or whole."""
    if completion.answer is not None:
        return _refusal(completion.answer, where=where, model=model, served=served)
    if completion.problem is not None:
        return RunFailure(
            "CanaryFailed",
            f"{where} answered 200, and its answer can't be read: {completion.problem}",
        )
    if completion.tokens == 0:
        return RunFailure(
            "CanaryFailed", f"{where} answered 200 with a stream that has no token"
        )
    return None


def _refusal(
    answer: HttpAnswer, *, where: str, model: str, served: Sequence[str]
) -> RunFailure:
    words = words_of(answer)
    status = answer.status
    if status in REDIRECTS:
        return _redirected(answer, where=where)
    if status == 400 and NO_CERTIFICATE in answer.body:
        return no_certificate(f"{where} answered 400: {NO_CERTIFICATE}")
    if answer.is_html:
        page = f"{where} answered {status} with an HTML page{_title(answer.body)}"
        return RunFailure(
            "EndpointNotFound",
            f"{page}: what answers there is not a server of the OpenAI API",
        )
    if status in (401, 403):
        message = (
            f"{where} answered {status}: {words}. Give the key as endpoint.apiKeySecretRef, "
            "another credential in endpoint.headers; if it is given and right, something "
            "between client and server drops it."
        )
        return RunFailure("Unauthorized", message)
    if status == 404 and "model" in words.lower():
        listed = ", ".join(served[:20]) or f"no model that {MODELS_PATH} lists"
        return RunFailure(
            "ModelNotServed",
            f"{where}: {words} It serves: {listed}. Requested: {model}.",
        )
    if status == 404:
        return RunFailure(
            "EndpointNotFound",
            f"{where} answered 404: {words}. {_missing(where)}",
        )
    return RunFailure("CanaryFailed", f"{where} answered {status}: {words}")


def _missing(where: str) -> str:
    """Return what a server without this path is, or lacks."""
    if where.endswith(PATHS["Embeddings"]):
        return (
            "It makes no embeddings. A model that writes texts makes them with --runner=pooling in "
            "server.args; a server of texts needs another api in the workloads."
        )
    return (
        "What answers there is not a server of the OpenAI API. One that was started for embeddings "
        "(--runner=pooling) needs api: Embeddings in its workloads."
    )


def _redirected(answer: HttpAnswer, *, where: str) -> RunFailure:
    """Build the failure of an endpoint that redirects, with the address that it names.

    The address is shown without user and query, which may hold credentials.
    """
    try:
        target = URL(where).join(URL(answer.location or "")).with_query(None)
        shown = shorten(str(target.with_user(None).with_fragment(None)), 200)
        moved = target.origin() != URL(where).origin()
    except ValueError:
        shown, moved = "an address that can't be read", True
    dropped = (
        " Clients drop the authorisation on the way to another scheme, host or port."
        if moved
        else ""
    )
    return RunFailure(
        "EndpointRedirects",
        f"{where} redirects ({answer.status}) to {shown}.{dropped} Redirects are not followed, "
        "since their time would be measured with each request: name the last address as "
        "endpoint.url.",
    )


def no_certificate(problem: str) -> RunFailure:
    """Build the failure of an endpoint that asks for a certificate of the client."""
    return RunFailure(
        "CertificateInvalid",
        f"{problem}. It asks for a certificate of the client, or refuses the one it was shown: "
        "name a Secret of the type kubernetes.io/tls in endpoint.clientCertificateSecretRef.",
    )


def words_of(answer: HttpAnswer) -> str:
    """Return the server's error message, else the beginning of the body, but never HTML."""
    if answer.is_html:
        return f"an HTML page{_title(answer.body)}"
    body = answer.json()
    message = _message_in(answer.body if body is None else body)
    return shorten(" ".join(message.split()), MAX_WORDS_OF_SERVER) or "(empty body)"


def _message_in(body: object) -> str:
    """Find the error message in a body.

    vLLM has it in `error.message`, older versions in `message`; FastAPI has it in `detail`.
    """
    if isinstance(body, dict):
        for key in ("error", "message", "detail"):
            if body.get(key):
                return _message_in(body[key])
    return body if isinstance(body, str) else json.dumps(body)


def _title(html: str) -> str:
    found = re.search(r"<title[^>]*>([^<]{1,200})", html, re.IGNORECASE)
    return f' ("{shorten(" ".join(found[1].split()), 100)}")' if found else ""
