"""The foundation of the contract: the base class of its messages, and bounded numbers and texts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

# Largest number that a message may hold, above and below zero: sums and products of it still are
# numbers.
MOST = 1e15

Micros = Annotated[int, Field(ge=0, le=10**16)]
Count = Annotated[int, Field(ge=0, le=10**12)]
Bytes = Annotated[int, Field(ge=0, le=10**16)]
Tokens = Annotated[int, Field(ge=1, le=10**9)]
Finite = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
Number = Finite | Annotated[int, Field(ge=-(10**15), le=10**15)]
ShortText = Annotated[str, Field(max_length=300)]
LongText = Annotated[str, Field(max_length=4096)]  # A path, a URL, a name.
DecimalText = Annotated[str, Field(max_length=24)]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Api = Literal["Completions", "Chat", "Embeddings"]
WHOLE_ANSWERS: frozenset[Api] = frozenset({"Embeddings"})
"""APIs whose answers arrive whole: they have no output tokens, and no part of them comes early."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Message(BaseModel):
    """The base class of all messages between operator and client.

    Messages are immutable and refuse unknown fields.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class LeavesOut(Message):
    """A message that omits the fields in `left_out` when they are None.

    Older readers refuse fields that they do not know.
    """

    left_out: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_none(
        self, handler: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        missing = {name for name in self.left_out if document.get(name) is None}
        return {
            name: value for name, value in document.items() if name not in missing
        }


class SamplingParams(LeavesOut):
    """How the server chooses each token; temperature 0 is greedy, always the likeliest token.

    Every setting is sent, an unused one with the value that turns it off. For a setting that a
    request lacks, vLLM would take the value of the model's generation_config.json or of its own
    arguments (`ModelConfig.get_diff_sampling_param`, vLLM 0.32).
    """

    left_out: ClassVar[frozenset[str]] = frozenset({"min_p", "logprobs"})

    temperature: float = Field(0, ge=0, le=2, allow_inf_nan=False)
    top_p: float = Field(1, gt=0, le=1, allow_inf_nan=False)  # 1: off.
    top_k: int = Field(0, ge=0, le=1_000_000)  # 0: off.
    repetition_penalty: float = Field(1, gt=0, le=2, allow_inf_nan=False)  # 1: off.
    stop: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field(
        (), max_length=4
    )
    min_p: float | None = Field(
        None, gt=0, le=1, allow_inf_nan=False
    )  # None if off.
    logprobs: int | None = Field(None, ge=1, le=20)  # None if none are asked for.

    def body(self, *, chat: bool = False) -> dict[str, object]:
        """Return the sampling fields of a request body, by vLLM's names.

        For greedy sampling, fields that only narrow the choice are left out: vLLM ignores them.
        `chat` means that the body is for /v1/chat/completions.
        """
        narrowed = (
            {
                "top_p": self.top_p,
                "top_k": self.top_k or -1,
                "min_p": self.min_p or 0.0,
            }
            if self.temperature
            else {}
        )
        penalties = {
            "repetition_penalty": self.repetition_penalty,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
        }
        stop = {"stop": list(self.stop)} if self.stop else {}
        return {
            "temperature": self.temperature,
            **narrowed,
            **penalties,
            **stop,
            **self._logprobs(chat=chat),
        }

    def _logprobs(self, *, chat: bool) -> dict[str, object]:
        if self.logprobs is None:
            return {}
        return (
            {"logprobs": True, "top_logprobs": self.logprobs}
            if chat
            else {"logprobs": self.logprobs}
        )

    def in_words(self) -> str:
        """Return the settings that are on, such as `greedy` or `temperature 0.7, top-p 0.9`."""
        words = [
            f"temperature {self.temperature:g}" if self.temperature else "greedy"
        ]
        words += [f"top-p {self.top_p:g}"] if self.top_p != 1 else []
        words += [f"top-k {self.top_k}"] if self.top_k else []
        words += [f"min-p {self.min_p:g}"] if self.min_p else []
        words += (
            [f"repetition penalty {self.repetition_penalty:g}"]
            if self.repetition_penalty != 1
            else []
        )
        words += [f"{len(self.stop)} stop texts"] if self.stop else []
        words += [f"{self.logprobs} logprobs"] if self.logprobs else []
        return ", ".join(words)


GREEDY = SamplingParams()


def other_schema(document: object, ours: str) -> str | None:
    """Return the schema that a parsed message names, if it is another version of `ours`.

    Return None if the message names `ours` itself, or no version of it.
    """
    theirs = document.get("schema") if isinstance(document, dict) else None
    kind = ours.partition("/")[0]
    if not isinstance(theirs, str) or theirs == ours:
        return None
    return theirs[:40] if theirs.partition("/")[0] == kind else None


@contextmanager
def in_short() -> Iterator[None]:
    """Turn a validation error of the contract into a ValueError with one printable line.

    The line names the field with the first error and what is wrong with it.
    """
    try:
        yield
    except ValidationError as error:
        first = error.errors(
            include_url=False, include_input=False, include_context=False
        )[0]
        place = ".".join(str(part)[:40] for part in first["loc"])
        text = f"{place or 'document'}: {first['msg']}"[:300]
        raise ValueError(printable(text)) from None


def printable(text: str) -> str:
    """Return the text with `?` in place of every character that can't be printed."""
    return "".join(each if each.isprintable() else "?" for each in text)
