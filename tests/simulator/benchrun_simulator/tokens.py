"""Text to token ids and back, with the model's own tokenizer or with one token a byte.

With `tokenizer.json` in the model's folder and the `tokenizers` package importable, counts agree
with what a client computes from the same file. The byte tokenizer needs nothing and is exact in
both directions, so a client that trims its prompts through /tokenize and /detokenize ends with
equal counts as well.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

MOST_OUTPUT_WORDS = 512
"""How many different tokens the imitated output draws from."""


class Tokenizer(Protocol):
    """The operations on a vocabulary that the server needs."""

    vocabulary_size: int
    longest_token_characters: int

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: list[int]) -> str: ...

    def output_words(self) -> list[tuple[int, str]]:
        """Return tokens fit for imitated output, each with the text that it adds."""
        ...


class ByteTokenizer:
    """A tokenizer whose token id is the value of the byte in UTF-8."""

    vocabulary_size = 256
    longest_token_characters = 1

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")

    def output_words(self) -> list[tuple[int, str]]:
        return [
            (byte, chr(byte))
            for byte in b"the quick brown fox jumps over the lazy dog and goes home again "
        ]


class FileTokenizer:
    """A `tokenizer.json`, read by the `tokenizers` package."""

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer as Loaded  # optional package

        self._loaded: Any = Loaded.from_file(str(file))
        vocabulary: dict[str, int] = self._loaded.get_vocab()
        self.vocabulary_size = max(vocabulary.values()) + 1
        self.longest_token_characters = max(map(len, vocabulary))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._loaded.encode(text).ids
        return ids

    def decode(self, tokens: list[int]) -> str:
        text: str = self._loaded.decode(tokens)
        return text

    def output_words(self) -> list[tuple[int, str]]:
        """Return words that start with a space, each a token of its own.

        They stay apart, so output that is sent back as a prompt gives equal tokens.
        """
        words = []
        for token in range(self.vocabulary_size):
            text = self.decode([token])
            if (
                text.startswith(" ")
                and text[1:].isalpha()
                and text.isascii()
                and self.encode(text) == [token]
            ):
                words.append((token, text))
            if len(words) == MOST_OUTPUT_WORDS:
                break
        return words or [
            (token, self.decode([token]))
            for token in range(min(self.vocabulary_size, 16))
        ]


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read the tokenizer of the model in `folder`, or fall back to bytes."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return ByteTokenizer()
    try:
        return FileTokenizer(file)
    except ImportError:
        return ByteTokenizer()


class OutputText:
    """The words of an imitated model: a fixed cycle, entered at a place that the prompt decides."""

    def __init__(self, words: list[tuple[int, str]]) -> None:
        self._tokens = [token for token, _ in words]
        self._text_of = dict(words)
        self._json_of = {token: json.dumps(text).encode() for token, text in words}
        # Each token's text as a JSON string, ready to be pasted into a chunk.

    def plan(self, prompt: Iterable[int], count: int) -> list[int]:
        """Return the `count` tokens that follow this prompt; equal prompts get equal tokens."""
        size = len(self._tokens)
        start = crc32(",".join(map(str, prompt)).encode()) % size
        rounds = (start + count) // size + 1
        return (self._tokens * rounds)[start : start + count]

    def json(self, tokens: Sequence[int]) -> bytes:
        """Return the text of some tokens as one JSON string."""
        if len(tokens) == 1:
            return self._json_of[tokens[0]]
        return (
            b'"' + b"".join(self._json_of[token][1:-1] for token in tokens) + b'"'
        )

    def text(self, tokens: Iterable[int]) -> str:
        return "".join(self._text_of[token] for token in tokens)
