"""The contract's part about what requests say beside their prompt, length and sampling."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Annotated, Any, ClassVar

from pydantic import Field

from benchrun_client.contract.base import (
    WHOLE_ANSWERS,
    Api,
    LeavesOut,
    Message,
    SamplingParams,
)
from benchrun_client.contract.sessions import TurnPlace

MAX_ADAPTERS = 32
MAX_TEXTS = 128  # Most texts of a request.
SCHEMA_NAME = "answer"
THINKING_ARGUMENTS = ("enable_thinking", "thinking")
"""Arguments by which chat templates turn thinking on and off: Qwen and GLM have the first, DeepSeek
and Granite the second. A template ignores an argument that it does not have."""

MAX_JSON_TEXT = 65_536
JsonText = Annotated[str, Field(max_length=MAX_JSON_TEXT)]
"""A value of JSON as text: what is in it is not looked at before it is sent."""


def json_text(value: object) -> str:
    """Return a value as text; equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class Adapter(Message):
    """An adapter of the model, and how many of a hundred requests are for it."""

    name: str = Field(min_length=1, max_length=300)
    percent: int = Field(ge=1, le=100)


class RequestFields(LeavesOut):
    """Fields that every request of a workload has in addition; unset fields are not sent."""

    left_out: ClassVar[frozenset[str]] = frozenset(
        {"thinking", "template_arguments", "answer_schema", "tools", "priority"}
        | {"extra", "texts"}
    )

    thinking: bool | None = (
        None  # None: what the model's chat template does by itself.
    )
    template_arguments: JsonText | None = None
    """Arguments of the chat template, an object; `thinking` not included."""
    answer_schema: JsonText | None = None
    """JSON schema, an object, that every answer must keep."""
    tools: JsonText | None = None  # A list of objects.
    priority: int | None = Field(None, ge=-(2**31), lt=2**31)
    extra: JsonText | None = None
    """Further fields of the body, an object, by the server's own names."""
    adapters: tuple[Adapter, ...] = Field((), max_length=MAX_ADAPTERS)
    texts: int | None = Field(None, ge=2, le=MAX_TEXTS)
    """Texts of a request, if its API takes several; each is a prompt of the dataset. None: one."""

    @property
    def texts_a_request(self) -> int:
        """Return how many prompts of the dataset a request has."""
        return self.texts or 1

    @property
    def chat_arguments(self) -> Mapping[str, Any]:
        """Return all arguments of the chat template; empty if none are sent."""
        switches = (
            {}
            if self.thinking is None
            else dict.fromkeys(THINKING_ARGUMENTS, self.thinking)
        )
        return {**switches, **json.loads(self.template_arguments or "{}")}

    @property
    def rendered_with(self) -> Mapping[str, Any]:
        """Return all that the chat template gets beside the messages; empty if it gets nothing."""
        tools = {} if self.tools is None else {"tools": json.loads(self.tools)}
        return {**self.chat_arguments, **tools}

    def body(self) -> dict[str, Any]:
        """Return these fields of a request body, by the names of the OpenAI API and of vLLM."""
        named = {
            "chat_template_kwargs": dict(self.chat_arguments) or None,
            "response_format": _response_format(self.answer_schema),
            "tools": None if self.tools is None else json.loads(self.tools),
            "priority": self.priority,
        }
        sent = {name: value for name, value in named.items() if value is not None}
        return {**sent, **json.loads(self.extra or "{}")}

    def models(self, model: str, requests: int, *, seed: int) -> Sequence[str]:
        """Return the model that each request of a stage is for: an adapter, else the model itself.

        Every adapter gets its share as exactly as whole requests allow. The order is drawn by the
        seed, so that equal stages ask for equal models.
        """
        if not self.adapters:
            return (model,) * requests
        shares = [(each.name, each.percent) for each in self.adapters]
        rest = 100 - sum(percent for _, percent in shares)
        counts = _apportioned(requests, [*shares, (model, max(rest, 0))])
        drawn = list(chain.from_iterable(repeat(name, n) for name, n in counts))
        random.Random(f"adapters/{seed}").shuffle(drawn)
        return drawn

    def models_of_sessions(
        self, model: str, places: Sequence[TurnPlace], *, seed: int
    ) -> Sequence[str]:
        """Return the model that each request is for, the same for all turns of a session.

        A turn finds in a cache only what the same adapter, or the model, has computed.
        """
        sessions = {place.session: None for place in places}
        drawn = self.models(model, len(sessions), seed=seed)
        chosen = dict(zip(sessions, drawn, strict=True))
        return [chosen[place.session] for place in places]


NO_FIELDS = RequestFields()


def asked_body(
    api: Api, sampling: SamplingParams, fields: RequestFields
) -> dict[str, Any]:
    """Return the fields of a request body that do not depend on the request.

    A request whose answer has no tokens says nothing of how they are chosen.
    """
    chosen = {} if api in WHOLE_ANSWERS else sampling.body(chat=api == "Chat")
    return chosen | fields.body()


def _response_format(schema: str | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    named = {"name": SCHEMA_NAME, "schema": json.loads(schema), "strict": True}
    return {"type": "json_schema", "json_schema": named}


def _apportioned(
    requests: int, shares: Sequence[tuple[str, int]]
) -> list[tuple[str, int]]:
    """Divide requests by shares; what whole numbers leave over goes to the largest remainders."""
    exact = [requests * percent / 100 for _, percent in shares]
    whole = [math.floor(each) for each in exact]
    largest = sorted(range(len(shares)), key=lambda i: (whole[i] - exact[i], i))[
        : requests - sum(whole)
    ]
    return [
        (name, whole[i] + (1 if i in largest else 0))
        for i, (name, _) in enumerate(shares)
    ]
