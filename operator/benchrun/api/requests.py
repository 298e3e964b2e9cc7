"""`spec.workloads[].request`: what a request says beside prompt, length and sampling."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from benchrun_client.contract import MAX_ADAPTERS, MAX_TEXTS
from pydantic import AfterValidator, Field

from benchrun.api import base

MAX_JSON_BYTES = 16_384
MAX_TOOLS = 32
MAX_TOOLS_BYTES = 65_536

OWNED: Mapping[str, str] = {
    "model": "set model.servedName, or request.adapters",
    "prompt": "the dataset makes it; remove it",
    "messages": "the dataset makes them; remove them",
    "input": "the dataset makes it; remove it",
    "prompt_embeds": "the dataset makes the prompt; remove it",
    "input_ids": "the dataset makes the prompt; remove it",
    "stream": "every answer is streamed, or its tokens could not be timed; remove it",
    "stream_options": "the client asks for the counts of tokens itself; remove it",
    "max_tokens": "set outputTokens of the dataset",
    "max_completion_tokens": "set outputTokens of the dataset",
    "n_predict": "set outputTokens of the dataset",
    "ignore_eos": "set ignoreEOS",
    "n": "one answer a request is timed; remove it",
    "best_of": "one answer a request is timed; remove it",
    "use_beam_search": "beams are not streamed; remove it",
    "echo": "the prompt would be timed as the answer's first token; remove it",
    "temperature": "set sampling.temperature",
    "top_p": "set sampling.topP",
    "top_k": "set sampling.topK",
    "min_p": "set sampling.minP",
    "repetition_penalty": "set sampling.repetitionPenalty",
    "stop": "set sampling.stop",
    "logprobs": "set sampling.logprobs",
    "top_logprobs": "set sampling.logprobs",
    "chat_template_kwargs": "set request.chat.thinking or templateArguments",
    "chat_template": "set spec.chatTemplate",
    "response_format": "set request.responseFormat",
    "tools": "set request.chat.tools",
    "priority": "set request.priority",
}
"""Field of a body that the client sets itself -> what to do instead."""


def _small(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object that is not too long as JSON; else raise PydanticCustomError."""
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        raise base.refused("must have only values of JSON") from None
    if size > MAX_JSON_BYTES:
        raise base.refused(
            f"has {size} bytes as JSON; at most {MAX_JSON_BYTES} are sent with every request"
        )
    return value


def _few(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tools that are not too long together as JSON; else raise PydanticCustomError."""
    if (size := len(json.dumps(tools))) > MAX_TOOLS_BYTES:
        raise base.refused(
            f"have {size} bytes as JSON together; at most {MAX_TOOLS_BYTES} are sent with every "
            "request"
        )
    return tools


def _free(value: dict[str, Any]) -> dict[str, Any]:
    """Return fields of a request body; raise PydanticCustomError for one that the client sets."""
    for name in value:
        if (remedy := OWNED.get(name)) is not None:
            raise base.refused(f"{name} is the client's: {remedy}")
    return value


JsonObject = Annotated[
    dict[str, base.KubernetesValue], Field(max_length=64), AfterValidator(_small)
]
"""An object of JSON, sent as it is."""


class Adapter(base.SpecModel):
    """A LoRA adapter, and its share of the requests."""

    name: base.Text = Field(
        description="Name that the server lists, as given by --lora-modules."
    )
    percent: Annotated[int, Field(ge=1, le=100)] = Field(
        description="How many of a hundred requests are for it."
    )


class ChatFields(base.SpecModel):
    """Fields that only /v1/chat/completions has."""

    thinking: bool | None = None
    """Whether the model shall think before it answers; sent to the chat template as enable_thinking
    and as thinking. Left out: the template decides."""
    template_arguments: JsonObject | None = Field(
        None,
        description="Further arguments of the chat template (chat_template_kwargs).",
    )
    tools: (
        Annotated[
            list[JsonObject],
            Field(
                min_length=1, max_length=MAX_TOOLS, json_schema_extra=base.ATOMIC
            ),
            AfterValidator(_few),
        ]
        | None
    ) = Field(
        None, description="Tools that the model may call, as the API has them."
    )


class ResponseFormat(base.SpecModel):
    """The form that the server shall give to every answer."""

    json_schema: JsonObject
    """JSON schema that every answer shall keep; a sample of the answers is checked."""


class Request(base.SpecModel):
    """What every request says beside prompt, length and sampling. Unset fields are not sent."""

    rules = (
        base.Rule(
            cel="!has(self.adapters) || self.adapters.map(a, a.percent).sum() <= 100",
            message="the adapters' percent must be 100 at most together; the rest is for the model",
            path=".adapters",
        ),
    )
    chat: ChatFields | None = None
    """Needs api: Chat."""
    response_format: ResponseFormat | None = None
    """Form of every answer. Needs ignoreEOS: false."""
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """Priority of the requests; of vLLM (--scheduling-policy=priority) lower ones come first."""
    adapters: (
        Annotated[
            list[Adapter],
            Field(min_length=1, max_length=MAX_ADAPTERS),
            base.Unique("name"),
        ]
        | None
    ) = None
    """LoRA adapters by their share of the requests; the rest is for the model itself. They must be
    loaded when the server starts (--enable-lora, --lora-modules)."""
    texts: Annotated[int, Field(ge=2, le=MAX_TEXTS)] | None = Field(
        None,
        description="Texts of a request, each a prompt of the dataset. Needs api: Embeddings.",
    )
    extra_body: Annotated[JsonObject, AfterValidator(_free)] | None = Field(
        None, description="Further fields of the body, by the server's own names."
    )
