"""Counting as the server counts, finding words of one token, and telling why a tokenizer cannot be
had."""

import hashlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchrun_client.contract import Api
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import (
    MIN_WORDS,
    TokenCounter,
    _loading_failure,
    load_tokenizer,
    longest_context,
)
from unit.client.plans import plan
from unit.client.words import WORDS, HubTokenizer, Thinker


def test_a_completion_counts_special_tokens() -> None:
    assert TokenCounter(HubTokenizer()).count([WORDS[0]], api="Completions") == [2]


def test_a_chat_counts_the_template_and_no_special_tokens() -> None:
    assert TokenCounter(
        HubTokenizer(
            ["system", "user", "end", *WORDS], chat_template="{{ messages }}"
        )
    ).count([WORDS[0]], api="Chat") == [4]


def test_a_chat_without_a_template_here_counts_as_a_completion() -> None:
    # The server may have been given one; its own count is in the record.
    assert TokenCounter(HubTokenizer()).count([WORDS[0]], api="Chat") == [2]


@pytest.mark.parametrize(
    ("tokens", "api", "template"),
    [
        pytest.param(1, "Completions", None, id="a special token"),
        pytest.param(
            2,
            "Chat",
            "{{ messages }}",
            id="the template's words, without special tokens",
        ),
        pytest.param(1, "Chat", None, id="no template here: as a completion"),
    ],
)
def test_every_prompt_begins_with_the_shared_prefix(
    tokens: int, api: Api, template: str | None
) -> None:
    tokenizer = HubTokenizer(["system", "user", *WORDS], chat_template=template)
    assert TokenCounter(tokenizer).shared_prefix(api=api) == tokens


def loaded(
    template: bytes | None,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tokenizer: object,
) -> TokenCounter:
    """The tokenizer with a template from a file; None: there is no file."""
    hub = SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda *_, **__: tokenizer)
    )
    monkeypatch.setitem(sys.modules, "transformers", hub)
    file = folder / "template.jinja"
    if template is not None:
        file.write_bytes(template)
    return load_tokenizer(
        plan(target={"tokenizer": "org/model", "chat_template": str(file)}).target
    )


def test_a_template_that_is_given_takes_the_place_of_the_tokenizers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "{{ messages }} ü\n"
    tokenizer = HubTokenizer(["system", "user", "end", *WORDS])
    counter = loaded(text.encode(), tmp_path, monkeypatch, tokenizer)
    assert tokenizer.chat_template == counter.chat_template == text
    assert counter.template_digest == hashlib.sha256(text.encode()).hexdigest()
    assert counter.count([WORDS[0]], api="Chat") == [4]
    assert TokenCounter(HubTokenizer()).template_digest is None


COMMIT = "c1899de289a04d12100db370d81485cdf75e47ca"
CACHED = f"/root/.cache/huggingface/hub/models--org--model/snapshots/{COMMIT}/tokenizer_config.json"


@pytest.mark.parametrize(
    ("commit", "file"),
    [(COMMIT, CACHED), (None, "/models/tiny/tokenizer_config.json"), (None, None)],
)
def test_the_commit_is_that_of_the_files_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, commit: str | None, file: str | None
) -> None:
    """By the two functions of transformers.utils.hub, in the form that they have in 4.57 and
    5.0."""
    calls: list[tuple[str, str, dict[str, Any]]] = []

    def cached_file(name: str, filename: str, **options: Any) -> str:
        calls.append((name, filename, options))
        if file is None:
            raise OSError("not in the cache")
        return file

    def extract_commit_hash(path: str, commit_hash: str | None) -> str | None:
        found = re.search(r"snapshots/([0-9a-f]{40})/", path)
        return None if found is None else found[1]

    utils = SimpleNamespace(
        hub=SimpleNamespace(
            cached_file=cached_file, extract_commit_hash=extract_commit_hash
        )
    )
    auto = SimpleNamespace(from_pretrained=lambda *_, **__: HubTokenizer())
    monkeypatch.setitem(
        sys.modules,
        "transformers",
        SimpleNamespace(AutoTokenizer=auto, utils=utils),
    )
    target = plan(
        target={"tokenizer": "org/model", "tokenizer_revision": "main"}
    ).target
    assert load_tokenizer(target).commit == commit
    assert calls == [
        (
            "org/model",
            "tokenizer_config.json",
            {"revision": "main", "local_files_only": True},
        )
    ]


class Refusing(HubTokenizer):
    """Whose template fails, as Jinja's do."""

    def apply_chat_template(
        self, messages: Any, *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        error = ValueError("unexpected '}'")
        error.lineno = 7  # type: ignore[attr-defined]
        raise error


class Silent(HubTokenizer):
    """Whose template is one text for all prompts."""

    def apply_chat_template(
        self, messages: Any, *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        return "hello"


@pytest.mark.parametrize(
    ("template", "tokenizer", "words"),
    [
        pytest.param(
            b"{{", Refusing(), r"line 7.*unexpected '}'", id="does not compile"
        ),
        pytest.param(
            b"hello",
            Silent(),
            "leaves out the user's message",
            id="without the message",
        ),
        pytest.param(b" \n", HubTokenizer(), "2 characters", id="empty"),
        pytest.param(
            b"x" * 65_537, HubTokenizer(), "65,537 characters", id="too long"
        ),
        pytest.param(b"\xff", HubTokenizer(), "not valid UTF-8", id="binary"),
        pytest.param(
            None, HubTokenizer(), "ConfigMap or key does not exist", id="not there"
        ),
    ],
)
def test_a_template_that_cannot_be_used_ends_the_run_before_a_server_is_started(
    template: bytes | None,
    tokenizer: object,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RunFailure, match=words) as failure:
        loaded(template, tmp_path, monkeypatch, tokenizer)
    assert (failure.value.reason, failure.value.exit_code) == (
        "ChatTemplateInvalid",
        2,
    )


def test_words_are_those_of_one_token_without_special_and_broken_ones() -> None:
    vocabulary = ["a", "12", "zwei woerter", "\ufffd", "über", "lang1", *WORDS]
    assert TokenCounter(HubTokenizer(vocabulary)).words() == WORDS


def test_a_vocabulary_of_another_script_has_words_too() -> None:
    words = [chr(0x4E00 + n) for n in range(MIN_WORDS)]
    assert TokenCounter(HubTokenizer(words)).words() == words


def test_a_tokenizer_with_too_few_words_is_rejected() -> None:
    with pytest.raises(RunFailure, match="has 10") as failure:
        TokenCounter(HubTokenizer(WORDS[:10])).words()
    assert failure.value.reason == "TokenizerUnusable"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFailure, match="no directory") as failure:
        load_tokenizer(plan(target={"tokenizer": str(tmp_path / "none")}).target)
    assert failure.value.reason == "TokenizerNotFound"


@pytest.mark.parametrize(
    ("reason", "words", "advice"),
    [
        pytest.param(
            "ModelGated",
            "You are trying to access a gated repo.\nMake sure...",
            "tokenSecretRef",
            id="gated",
        ),
        pytest.param(
            "ModelGated",
            "401 Client Error: Unauthorized for url",
            "tokenSecretRef",
            id="private",
        ),
        pytest.param(
            "TokenizerNotFound",
            "x is not a valid model identifier",
            "model.name",
            id="unknown",
        ),
        pytest.param(
            "TokenizerNotFound",
            "pass `trust_remote_code=True`",
            "model.tokenizer",
            id="remote-code",
        ),
    ],
)
def test_what_the_hub_says_becomes_a_reason_and_advice(
    monkeypatch: pytest.MonkeyPatch, reason: str, words: str, advice: str
) -> None:
    def from_pretrained(name: str, *, revision: str | None) -> object:
        raise OSError(words)

    hub = SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=from_pretrained)
    )
    monkeypatch.setitem(sys.modules, "transformers", hub)
    with pytest.raises(RunFailure, match=advice) as failure:
        load_tokenizer(plan(target={"tokenizer": "org/model"}).target)
    assert failure.value.reason == reason


@pytest.mark.parametrize(
    ("expected", "config"),
    [
        pytest.param(8192, {"max_position_embeddings": 8192}, id="plain"),
        pytest.param(
            32768,
            {"max_position_embeddings": 8192, "rope_scaling": {"factor": 4.0}},
            id="stretched",
        ),
        pytest.param(
            8192,
            {"max_position_embeddings": 8192, "rope_scaling": {"factor": 0.5}},
            id="never-shorter",
        ),
        pytest.param(
            4096,
            {"text_config": {"max_position_embeddings": 4096}},
            id="multimodal",
        ),
        pytest.param(None, {}, id="unknown"),
        pytest.param(None, [], id="no-object"),
        pytest.param(None, {"max_position_embeddings": "many"}, id="no-number"),
        pytest.param(
            None,
            {"max_position_embeddings": 8192, "rope_scaling": {"factor": 1e999}},
            id="without-end",
        ),
    ],
)
def test_the_context_is_read_off_the_config(
    tmp_path: Path, expected: int | None, config: object
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert longest_context(str(tmp_path)) == expected


def test_the_context_of_a_hub_name_is_unknown() -> None:
    assert longest_context("org/model") is None


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("ModelGated", "403 Client Error: Forbidden for url: https://hub/x"),
        (
            "TokenizerNotFound",
            "Caused by ProxyError: Tunnel connection failed: 403 Client Error",
        ),
        (
            "TokenizerNotFound",
            "407 Client Error: Proxy Authentication Required, 401 Client Error",
        ),
    ],
)
def test_a_proxy_that_refuses_is_not_the_hub(reason: str, words: str) -> None:
    assert _loading_failure("acme/tiny", OSError(words)).reason == reason


@pytest.mark.parametrize(
    ("added", "prefix", "arguments"),
    [
        (0, 1, {}),
        (2, 1, {"enable_thinking": False}),
        (0, 1, {"enable_thinking": True}),
        (2, 3, {"effort": "low"}),
    ],
)
def test_arguments_of_the_template_change_prompts(
    added: int, prefix: int, arguments: dict[str, Any]
) -> None:
    words = ["system", "user", "end", *WORDS]
    counter = TokenCounter(Thinker(words, chat_template="{{ messages }}"))
    usual = counter.shared_prefix(api="Chat")
    assert counter.added_by(arguments) == added
    assert (
        counter.shared_prefix(api="Chat", arguments=arguments) - usual == prefix - 1
    )


def test_arguments_that_break_the_template_are_named() -> None:
    counter = TokenCounter(Thinker(chat_template="{{ messages }}"))
    with pytest.raises(
        RunFailure, match=r"request\.chat: .*no such effort"
    ) as failure:
        counter.added_by({"effort": "broken"})
    assert failure.value.reason == "ChatTemplateInvalid"


def test_without_a_template_arguments_add_nothing() -> None:
    assert TokenCounter(Thinker()).added_by({"enable_thinking": False}) == 0
