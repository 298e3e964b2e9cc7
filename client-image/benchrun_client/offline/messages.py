"""Messages between the client and the engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from benchrun_client.contract import GREEDY, MAX_REQUESTS_A_STAGE, MAX_TEMPLATE_CHARACTERS, Message, Sampling

LOAD_PATH = "/load"
Seconds = Annotated[float, Field(ge=0)]


class OfflineLoad(Message):
    """Body of POST /load: every prompt of a stage."""

    prompts: tuple[str, ...] = Field(min_length=1, max_length=MAX_REQUESTS_A_STAGE)
    output_tokens: tuple[Annotated[int, Field(ge=1)], ...]  # To generate, one entry a prompt.
    batch_size: int | None = Field(default=None, ge=1)
    """So many prompts a call, one call after the other; None: all in one."""
    api: Literal["Completions", "Chat"] = "Completions"  # Chat puts each prompt into a chat template.
    chat_template: str | None = Field(None, max_length=MAX_TEMPLATE_CHARACTERS)  # None: the model's own.
    ignore_eos: bool = True
    sampling: Sampling = GREEDY

    @model_validator(mode="after")
    def _equally_long(self) -> OfflineLoad:
        if len(self.prompts) != len(self.output_tokens):
            raise ValueError("prompts and output_tokens must be equally long")
        return self


class OfflineTimes(Message):
    """What became of a load, one entry a prompt. Seconds; instants count from the first call."""

    sent: tuple[Seconds, ...]  # When the engine took the request in.
    ttft: tuple[Seconds, ...]
    e2el: tuple[Seconds, ...]
    output_tokens: tuple[Annotated[int, Field(ge=0)], ...]
    call_seconds: tuple[Seconds, ...]  # How long each call took.
    took_seconds: Seconds  # All calls, and what lies between them.


class OfflineAnswer(Message):
    """Last line of the answer; the lines before it are empty, and keep the connection alive. Exactly one is set."""

    times: OfflineTimes | None = None
    error: str | None = None  # Why the engine refused the load.
