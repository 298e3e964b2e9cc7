"""The model's tokenizer: loading it, and counting tokens the way the server will.

Counts include special tokens and the chat template.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchrun_client.contract import MAX_TEMPLATE_CHARACTERS, Api, Target
from benchrun_client.failures import RunFailure, first_line, type_and_text
from benchrun_client.light_imports import transformers

# Enough for any number of prompts that differ in their first words.
MAX_WORDS = 16_384
MIN_WORDS = 256
_CHUNK = 4096
_BATCH = 256
_PROBE = "benchrun"
NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


class TokenCounter:
    def __init__(
        self,
        tokenizer: Any,
        *,
        chat_template: str | None = None,
        commit: str | None = None,
    ) -> None:
        """Wrap a Hugging Face tokenizer, loaded from the hub's commit `commit`.

        `chat_template` replaces the tokenizer's own. Raises RunFailure `ChatTemplateInvalid`.
        """
        self.commit = commit
        self.tokenizer = tokenizer  # For the load engine.
        self.chat_template = chat_template
        if chat_template is not None:
            tokenizer.chat_template = chat_template
            self._try_template()
        self._has_template = bool(getattr(tokenizer, "chat_template", None))

    def _try_template(self) -> None:
        """Render one message with the chat template, as for every request.

        transformers renders in Jinja's sandbox. This may take long, but it happens before a server
        is created, and startupDeadlineSeconds bounds it. Raises RunFailure `ChatTemplateInvalid`.
        """
        try:
            rendered = self._rendered(_PROBE)
        # A template raises what it likes: Jinja's errors, or any of Python's.
        except Exception as error:
            line = getattr(error, "lineno", None)
            where = f" (line {line})" if isinstance(line, int) else ""
            problem = f"chatTemplate cannot render a user's message{where}: {type_and_text(error)}"
            raise RunFailure("ChatTemplateInvalid", problem) from error
        if _PROBE not in rendered:
            raise RunFailure(
                "ChatTemplateInvalid",
                "chatTemplate leaves out the user's message: all prompts would be equal",
            )

    @property
    def template_digest(self) -> str | None:
        """Return the SHA-256 of the given template; None if the tokenizer's own is used."""
        return (
            None
            if self.chat_template is None
            else hashlib.sha256(self.chat_template.encode()).hexdigest()
        )

    def count(self, texts: Sequence[str], *, api: Api) -> list[int]:
        """Return the tokens of each text as a prompt, special tokens and chat template included."""
        if api == "Chat" and self._has_template:
            # The server renders the template to text and adds no special tokens of its own.
            return self._lengths(
                [self._rendered(text) for text in texts], special=False
            )
        return self._lengths(texts, special=True)

    def added_by(self, arguments: Mapping[str, Any]) -> int:
        """Return how many tokens the chat template adds to a prompt if it gets these arguments.

        The number is below 0 if the arguments make the template shorter. Raises RunFailure
        `ChatTemplateInvalid`.
        """
        if not arguments or not self._has_template:
            return 0
        try:
            texts = [self._rendered(_PROBE, arguments), self._rendered(_PROBE)]
        except Exception as error:  # Same as for a template of the spec.
            problem = "the chat template cannot be rendered with the fields of request.chat"
            raise RunFailure(
                "ChatTemplateInvalid", f"{problem}: {type_and_text(error)}"
            ) from error
        told, usual = self._lengths(texts, special=False)
        return told - usual

    def shared_prefix(
        self,
        *,
        api: Api,
        after: str = "",
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
    ) -> int:
        """Return how many tokens all prompts have in common at their beginning.

        These are special tokens, the beginning of the chat template with its `arguments`, and the
        tokens of `after` if all prompts begin with that text. It is measured on two texts with
        nothing else in common.
        """
        texts = [f"{after}alpha", f"{after}omega"]
        chat = api == "Chat" and self._has_template
        prompts = (
            [self._rendered(text, arguments) for text in texts] if chat else texts
        )
        first, second = self.tokenizer(prompts, add_special_tokens=not chat)[
            "input_ids"
        ]
        return sum(
            1
            for _ in takewhile(
                lambda pair: pair[0] == pair[1], zip(first, second, strict=False)
            )
        )

    def words(self) -> list[str]:
        """Return words that are one token each in any context, in the vocabulary's order.

        Raises RunFailure `TokenizerUnusable` if there are too few for random prompts.
        """
        plain = self._single_token_words(
            lambda word: word.isascii() and word.isalpha() and len(word) > 1
        )
        found = (
            plain
            if len(plain) >= MIN_WORDS
            else self._single_token_words(lambda word: "\ufffd" not in word)
        )
        if len(found) < MIN_WORDS:
            problem = (
                f"random data needs {MIN_WORDS} words that are one token each; this tokenizer has "
                f"{len(found)}"
            )
            raise RunFailure(
                "TokenizerUnusable",
                f"{problem}. Use a dataset of texts with this model.",
            )
        return found

    def _single_token_words(self, acceptable: Callable[[str], bool]) -> list[str]:
        special = set(self.tokenizer.all_special_ids)
        anchor = self._lengths(["x"], special=False)[0]
        found: dict[str, None] = {}
        for start in range(0, len(self.tokenizer), _CHUNK):
            ids = [
                i
                for i in range(start, min(start + _CHUNK, len(self.tokenizer)))
                if i not in special
            ]
            words = [
                word
                for i in ids
                if (word := self.tokenizer.decode([i]).strip()) and acceptable(word)
            ]
            words = [
                word
                for word in words
                if not any(character.isspace() for character in word)
            ]
            # Twice behind something else: once could merge with the start, or hide a token of its
            # own for the space.
            lengths = (
                self._lengths([f"x {word} {word}" for word in words], special=False)
                if words
                else []
            )
            found.update(
                {
                    w: None
                    for w, length in zip(words, lengths, strict=True)
                    if length == anchor + 2
                }
            )
            if len(found) >= MAX_WORDS:
                break
        return list(found)[:MAX_WORDS]

    def _lengths(self, texts: Sequence[str], *, special: bool) -> list[int]:
        # Bounded: the ids of many long prompts would take gigabytes.
        batches = (
            list(texts[start : start + _BATCH])
            for start in range(0, len(texts), _BATCH)
        )
        return [
            len(ids)
            for batch in batches
            for ids in self.tokenizer(batch, add_special_tokens=special)[
                "input_ids"
            ]
        ]

    def _rendered(
        self, text: str, arguments: Mapping[str, Any] = NO_ARGUMENTS
    ) -> str:
        messages = [{"role": "user", "content": text}]
        rendered: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **arguments
        )
        return rendered


def load_tokenizer(target: Target) -> TokenCounter:
    """Load the tokenizer that the plan names.

    Raises RunFailure `TokenizerNotFound`, `ModelGated` or `ChatTemplateInvalid`.
    """
    name = target.tokenizer
    if name.startswith((".", "/")) and not Path(name).is_dir():
        problem = f"there is no directory {name} in the client's container"
        raise RunFailure(
            "TokenizerNotFound",
            f"{problem}: check model.source, or name another model.tokenizer",
        )
    try:
        found = transformers().AutoTokenizer.from_pretrained(
            name, revision=target.tokenizer_revision
        )
    # Anything can come out of a foreign library here (OSError, ValueError, KeyError, ImportError,
    # hub errors).
    except Exception as error:
        raise _loading_failure(name, error) from error
    template = (
        None if target.chat_template is None else _template(target.chat_template)
    )
    return TokenCounter(
        found,
        chat_template=template,
        commit=_commit(name, target.tokenizer_revision),
    )


def _commit(name: str, revision: str | None) -> str | None:
    """Return the commit of the hub's repository that the tokenizer was just loaded from.

    The folder in the hub's cache has the commit as its name. None if the files came from elsewhere.
    """
    try:
        hub = transformers().utils.hub
        file = hub.cached_file(
            name, "tokenizer_config.json", revision=revision, local_files_only=True
        )
        found: str | None = hub.extract_commit_hash(file, None)
    except Exception:  # Same as above, and nothing depends on it.
        return None
    return found


def _template(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(4 * MAX_TEMPLATE_CHARACTERS + 1).decode()
    except OSError as error:
        problem = "chatTemplate: its ConfigMap or key does not exist"
        raise RunFailure(
            "ChatTemplateInvalid", f"{problem} ({error.strerror})"
        ) from error
    except UnicodeDecodeError as error:
        raise RunFailure(
            "ChatTemplateInvalid",
            f"chatTemplate is not valid UTF-8 (byte {error.start})",
        ) from error
    if not text.strip() or len(text) > MAX_TEMPLATE_CHARACTERS:
        problem = (
            f"chatTemplate has {len(text):,} characters: 1 to {MAX_TEMPLATE_CHARACTERS:,} are "
            "allowed"
        )
        raise RunFailure("ChatTemplateInvalid", problem)
    return text


def _loading_failure(name: str, error: Exception) -> RunFailure:
    text = str(error).lower()
    # A proxy on the way answers 401 and 403 as well: it is not the hub.
    by_proxy = any(sign in text for sign in ("proxy", "tunnel connection failed"))
    if not by_proxy and any(
        sign in text for sign in ("gated", "401 client error", "403 client error")
    ):
        advice = (
            "give model.source.hub.tokenSecretRef a token whose owner has accepted the model's "
            "terms"
        )
        return RunFailure(
            "ModelGated",
            f"{name} is gated or private: {advice} ({first_line(error)})",
        )
    if "trust_remote_code" in text:
        problem = (
            f"the tokenizer of {name} needs code from its repository, which the "
            "client does not run"
        )
        return RunFailure(
            "TokenizerNotFound", f"{problem}: name another model.tokenizer"
        )
    advice = (
        "Check model.name, model.revision and model.tokenizer, and that the client can reach the "
        "hub or the volume."
    )
    return RunFailure(
        "TokenizerNotFound",
        f"cannot load a tokenizer from {name}: {first_line(error)} {advice}",
    )


def longest_context(tokenizer_name: str) -> int | None:
    """Return an upper bound on the model's context in tokens, from its `config.json`.

    The bound includes rope scaling. None if it cannot be known.
    """
    try:
        config = json.loads((Path(tokenizer_name) / "config.json").read_bytes())
        config = config.get("text_config") or config
        length = config["max_position_embeddings"]
        scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
        factor = scaling.get("factor") or 1
        return int(length * max(float(factor), 1.0))
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        return None
