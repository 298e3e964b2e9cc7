"""A tokenizer of words: every known word is a token, so lengths can be checked by counting."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchrun_client.contract import Api
from benchrun_client.tokenizer import NO_ARGUMENTS, TokenCounter

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "klmnrst"]


class WordCounter(TokenCounter):
    """A counter of words as tokens, plus `special` for a completion and `template` for a chat."""

    def __init__(
        self,
        *,
        special: int = 0,
        template: int = 0,
        double: frozenset[str] = frozenset(),
    ) -> None:
        self._overhead = {"Completions": special, "Chat": template}
        self._double = double
        self.tokenizer = None
        self.chat_template = None

    def count(self, texts: Sequence[str], *, api: Api) -> list[int]:
        return [
            self._overhead[api]
            + sum(2 if w in self._double else 1 for w in text.split())
            for text in texts
        ]

    def shared_prefix(
        self,
        *,
        api: Api,
        after: str = "",
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
    ) -> int:
        """Return the tokens that stand before the text, the overhead included."""
        return self._overhead[api] + len(after.split())


class HubTokenizer:
    """The part of a Hugging Face tokenizer that the client uses.

    Words it does not know are a token per letter.
    """

    def __init__(
        self, words: Sequence[str] = WORDS, *, chat_template: str | None = None
    ) -> None:
        self._vocabulary = ["<s>", *words]
        self._known = set(words)
        self.all_special_ids = [0]
        self.chat_template = chat_template

    def __len__(self) -> int:
        return len(self._vocabulary)

    @property
    def vocab_size(self) -> int:
        return len(self._vocabulary)

    def num_special_tokens_to_add(self) -> int:
        return 1

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return self._encode(text, special=add_special_tokens)

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._vocabulary[i] for i in ids)

    def __call__(
        self, texts: Sequence[str], *, add_special_tokens: bool
    ) -> dict[str, Any]:
        return {
            "input_ids": [
                self._encode(text, special=add_special_tokens) for text in texts
            ]
        }

    def apply_chat_template(
        self, messages: Any, *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert not tokenize
        assert add_generation_prompt
        return f"system user {messages[0]['content'].strip()} end"

    def _encode(self, text: str, *, special: bool) -> list[int]:
        tokens = [0] if special else []
        for word in text.split():
            tokens += (
                [self._vocabulary.index(word)]
                if word in self._known
                else [10_000 + ord(c) for c in word]
            )
        return tokens


class Thinker(HubTokenizer):
    """Whose template begins or ends prompts otherwise, if it is told."""

    def apply_chat_template(
        self,
        messages: Any,
        *,
        tokenize: bool,
        add_generation_prompt: bool,
        enable_thinking: bool = True,
        effort: str = "",
        tools: Sequence[Any] = (),
        **_: Any,
    ) -> str:
        if effort == "broken":
            raise ValueError("no such effort")
        text = super().apply_chat_template(
            messages, tokenize=tokenize, add_generation_prompt=add_generation_prompt
        )
        begun = "system system " if effort == "low" else ""
        begun += "system " * len(tools)
        return begun + text + ("" if enable_thinking else " end end")
