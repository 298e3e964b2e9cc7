"""What a completion or chat request asks for, and how vLLM would refuse it.

Both kinds end as one `Generation`. n, best_of, echo, logprobs, tools and prompt batches are not
imitated: those that would change the shape of an answer are refused, sampling parameters are
ignored.
"""

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from benchrun_simulator.settings import Settings
from benchrun_simulator.tokens import Tokenizer

DEFAULT_COMPLETION_TOKENS = 16


class ApiError(Exception):
    """An answer in vLLM's error format."""

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        message: str,
        *,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        error = {
            "message": message,
            "type": kind,
            "param": param,
            "code": status.value,
        }
        self.body = compact({"error": error})


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One accepted request, completion or chat."""

    chat: bool
    prompt: list[int]
    max_tokens: int
    ignore_eos: bool
    stream: bool
    include_usage: bool
    salt: str
    reasoning_tokens: int
    """So many tokens of the answer, from the first on, are reasoning."""
    document: str | None
    """The whole answer, where the request gives a JSON schema that the server obeys."""
    model: str
    """The name that the request gives: the model's, or an adapter's."""
    transfer: dict[str, Any]
    """What the request says about blocks of other servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """One accepted request for embeddings, of one text or several."""

    prompts: list[list[int]]
    model: str


def compact(value: object) -> bytes:
    """Return JSON without spaces, as vLLM sends it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def bad_request(message: str, *, param: str | None = None) -> ApiError:
    """Build HTTP 400 with vLLM's body."""
    return ApiError(HTTPStatus.BAD_REQUEST, "BadRequestError", message, param=param)


def internal_error(message: str) -> ApiError:
    """Build HTTP 500 with vLLM's body."""
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError", message
    )


def too_many_requests() -> ApiError:
    """Build HTTP 429, which vLLM itself never sends, but a gateway before it does."""
    status = HTTPStatus.TOO_MANY_REQUESTS
    return ApiError(
        status, status.phrase, "Rate limit exceeded. Please try again later."
    )


def read_json(body: bytes) -> dict[str, Any]:
    """Decode a request body; raise a 400 for anything but an object."""
    try:
        decoded = json.loads(body)
    except ValueError as error:
        text = (
            "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body', 'msg': 'JSON decode "
            "error', "
            f"'input': '<dict of 0 items>', 'ctx': {{'error': '{error}'}}}}"
        )
        raise ApiError(
            HTTPStatus.BAD_REQUEST, "Bad Request", text, param="body"
        ) from None
    if not isinstance(decoded, dict):
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "Bad Request",
            "1 validation error:\n  body is not an object",
        )
    return decoded


def check_model(asked: object, settings: Settings) -> None:
    """Raise a 404 for a model that is not served; None means the served one."""
    if asked is not None and asked not in (
        *settings.served_names,
        *settings.adapters,
    ):
        aliases = ", ".join(settings.served_names)
        message = f"The model `{asked}` does not exist. Valid aliases: {aliases}."
        raise ApiError(
            HTTPStatus.NOT_FOUND, "NotFoundError", message, param="model"
        )


def read_generation(
    body: bytes, *, chat: bool, settings: Settings, tokenizer: Tokenizer
) -> Generation:
    """Check a request the way vLLM does and return what it asks for."""
    asked = read_json(body)
    check_model(asked.get("model"), settings)
    if asked.get("n") not in (None, 1) or asked.get("echo"):
        raise bad_request("The simulator answers neither n > 1 nor echo.")
    max_tokens = (
        asked.get("max_completion_tokens") or asked.get("max_tokens")
        if chat
        else asked.get("max_tokens")
    )
    if max_tokens is not None and max_tokens < 1:
        message = (
            f"max_tokens must be at least 1, got {max_tokens}. (parameter=max_tokens, "
            f"value={max_tokens})"
        )
        raise bad_request(message, param="max_tokens")
    prompt = (
        _chat_prompt(asked, tokenizer)
        if chat
        else _completion_prompt(asked, settings, tokenizer)
    )
    prompt = [0] * settings.template_tokens + prompt
    room = settings.max_model_len - len(prompt)
    if room < 1:
        raise _too_long(len(prompt), settings)
    wanted = max_tokens or (room if chat else DEFAULT_COMPLETION_TOKENS)
    return Generation(
        chat=chat,
        prompt=prompt,
        max_tokens=min(wanted, room),
        ignore_eos=bool(asked.get("ignore_eos")),
        stream=bool(asked.get("stream")),
        include_usage=bool(
            (asked.get("stream_options") or {}).get("include_usage")
        ),
        salt=asked.get("cache_salt") or "",
        reasoning_tokens=_reasoning_tokens(asked, settings) if chat else 0,
        document=_document(asked, settings),
        model=asked.get("model") or settings.served_names[0],
        transfer=asked.get("kv_transfer_params") or {},
    )


def read_embedding(
    body: bytes, *, settings: Settings, tokenizer: Tokenizer
) -> Embedding:
    """Check a request for embeddings the way vLLM does and return what it asks for."""
    asked = read_json(body)
    check_model(asked.get("model"), settings)
    given = asked.get("input")
    listed = given if isinstance(given, list) else [given]
    texts = [text for text in listed if isinstance(text, str) and text]
    if not texts or len(texts) < len(listed):
        raise bad_request("The simulator takes texts.", param="input")
    prompts = [
        [0] * settings.template_tokens + tokenizer.encode(text) for text in texts
    ]
    if asked.get("truncate_prompt_tokens") == -1:
        prompts = [prompt[: settings.max_model_len] for prompt in prompts]
    longest = max(map(len, prompts))
    if longest > settings.max_model_len:
        raise _too_long(longest, settings)
    return Embedding(
        prompts=prompts, model=asked.get("model") or settings.served_names[0]
    )


def _reasoning_tokens(asked: dict[str, Any], settings: Settings) -> int:
    """Return how many tokens the model thinks: none if the chat template is told so."""
    switches = asked.get("chat_template_kwargs") or {}
    thinks = switches.get("enable_thinking", switches.get("thinking", True))
    return settings.reasoning_tokens if thinks or settings.thinks_anyway else 0


def _document(asked: dict[str, Any], settings: Settings) -> str | None:
    form = asked.get("response_format") or {}
    if form.get("type") != "json_schema" or settings.ignores_schema:
        return None
    return json.dumps(example_of(form["json_schema"]["schema"]))


def example_of(schema: dict[str, Any]) -> object:
    """Return a small document that keeps a schema of plain types."""
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    match schema.get("type"):
        case "object":
            of = schema.get("properties", {})
            return {
                name: example_of(of.get(name, {}))
                for name in schema.get("required", ())
            }
        case "array":
            return []
        case "string":
            return "text"
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return True
        case _:
            return None


def chat_text(messages: list[dict[str, Any]]) -> str:
    """Render messages with one fixed template; text parts are joined, other parts dropped."""
    lines = [
        f"{message.get('role')}: {_content(message.get('content'))}\n"
        for message in messages
    ]
    return "".join(lines) + "assistant:"


def _content(content: object) -> str:
    if isinstance(content, list):
        return "".join(
            str(part.get("text", "")) for part in content if isinstance(part, dict)
        )
    return str(content or "")


def _chat_prompt(asked: dict[str, Any], tokenizer: Tokenizer) -> list[int]:
    messages = asked.get("messages")
    if not isinstance(messages, list) or not all(
        isinstance(message, dict) for message in messages
    ):
        text = (
            "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field "
            "required', "
            f"'input': '<dict of {len(asked)} items>'}}"
        )
        raise ApiError(
            HTTPStatus.BAD_REQUEST, "Bad Request", text, param="body.messages"
        )
    return tokenizer.encode(chat_text(messages))


def _completion_prompt(
    asked: dict[str, Any], settings: Settings, tokenizer: Tokenizer
) -> list[int]:
    prompt = asked.get("prompt")
    if not prompt:
        message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise bad_request(message, param="prompt")
    if isinstance(prompt, str):
        _check_characters(prompt, settings, tokenizer)
        return tokenizer.encode(prompt)
    if isinstance(prompt, list) and all(type(token) is int for token in prompt):
        highest = max(prompt)
        if highest >= tokenizer.vocabulary_size or min(prompt) < 0:
            raise bad_request(f"Token id {highest} is out of vocabulary")
        return prompt
    raise bad_request(
        "The simulator takes one prompt a request: a text or a list of token ids.",
        param="prompt",
    )


def _check_characters(text: str, settings: Settings, tokenizer: Tokenizer) -> None:
    limit = settings.max_model_len * tokenizer.longest_token_characters
    if len(text) > limit:
        raise bad_request(
            f"This model's maximum context length is {settings.max_model_len} tokens. However, "
            "your prompt contains "
            f"{len(text)} characters (more than {limit} characters, which is the upper bound for "
            f"{settings.max_model_len} input tokens). Please reduce the length of the input "
            "prompt. "
            f"(parameter=input_text, value={len(text)})",
            param="input_text",
        )


def _too_long(tokens: int, settings: Settings) -> ApiError:
    if tokens == settings.max_model_len:
        message = (
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
        )
        return bad_request(message, param="max_tokens")
    return bad_request(
        f"This model's maximum context length is {settings.max_model_len} tokens. However, your "
        "prompt contains "
        f"{tokens} input tokens, which exceeds this limit even without any output tokens. Please "
        "reduce the length "
        f"of the input prompt. (parameter=input_tokens, value={tokens})",
        param="input_tokens",
    )
