"""Counting as the server counts, finding words of one token, and telling why a tokenizer cannot be had."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import MIN_WORDS, Api, TokenCounter, load_tokenizer, longest_context
from unit.client.plans import plan
from unit.client.words import WORDS, HubTokenizer


def test_a_completion_counts_special_tokens() -> None:
    assert TokenCounter(HubTokenizer()).count([WORDS[0]], api="Completions") == [2]


def test_a_chat_counts_the_template_and_no_special_tokens() -> None:
    assert TokenCounter(HubTokenizer(["system", "user", "end", *WORDS], chat_template="{{ messages }}")).count(
        [WORDS[0]], api="Chat"
    ) == [4]


def test_a_chat_without_a_template_here_counts_as_a_completion() -> None:
    # The server may have been given one; its own count is in the record.
    assert TokenCounter(HubTokenizer()).count([WORDS[0]], api="Chat") == [2]


@pytest.mark.parametrize(
    ("tokens", "api", "template"),
    [
        pytest.param(1, "Completions", None, id="a special token"),
        pytest.param(2, "Chat", "{{ messages }}", id="the template's words, without special tokens"),
        pytest.param(1, "Chat", None, id="no template here: as a completion"),
    ],
)
def test_what_every_prompt_begins_with(tokens: int, api: Api, template: str | None) -> None:
    tokenizer = HubTokenizer(["system", "user", *WORDS], chat_template=template)
    assert TokenCounter(tokenizer).shared_prefix(api=api) == tokens


def test_words_are_those_of_one_token_without_special_and_broken_ones() -> None:
    vocabulary = ["a", "12", "zwei woerter", "\ufffd", "über", "lang1", *WORDS]
    assert TokenCounter(HubTokenizer(vocabulary)).words() == WORDS


def test_a_vocabulary_of_another_script_has_words_too() -> None:
    words = [chr(0x4E00 + n) for n in range(MIN_WORDS)]
    assert TokenCounter(HubTokenizer(words)).words() == words


def test_a_tokenizer_with_too_few_words_is_refused() -> None:
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
            "ModelGated", "You are trying to access a gated repo.\nMake sure...", "tokenSecretRef", id="gated"
        ),
        pytest.param("ModelGated", "401 Client Error: Unauthorized for url", "tokenSecretRef", id="private"),
        pytest.param("TokenizerNotFound", "x is not a valid model identifier", "model.name", id="unknown"),
        pytest.param("TokenizerNotFound", "pass `trust_remote_code=True`", "model.tokenizer", id="remote-code"),
    ],
)
def test_what_the_hub_says_becomes_a_reason_and_advice(
    monkeypatch: pytest.MonkeyPatch, reason: str, words: str, advice: str
) -> None:
    def from_pretrained(name: str, *, revision: str | None) -> object:
        raise OSError(words)

    hub = SimpleNamespace(AutoTokenizer=SimpleNamespace(from_pretrained=from_pretrained))
    monkeypatch.setitem(sys.modules, "transformers", hub)
    with pytest.raises(RunFailure, match=advice) as failure:
        load_tokenizer(plan(target={"tokenizer": "org/model"}).target)
    assert failure.value.reason == reason


@pytest.mark.parametrize(
    ("expected", "config"),
    [
        pytest.param(8192, {"max_position_embeddings": 8192}, id="plain"),
        pytest.param(32768, {"max_position_embeddings": 8192, "rope_scaling": {"factor": 4.0}}, id="stretched"),
        pytest.param(8192, {"max_position_embeddings": 8192, "rope_scaling": {"factor": 0.5}}, id="never-shorter"),
        pytest.param(4096, {"text_config": {"max_position_embeddings": 4096}}, id="multimodal"),
        pytest.param(None, {}, id="unknown"),
        pytest.param(None, [], id="no-object"),
        pytest.param(None, {"max_position_embeddings": "many"}, id="no-number"),
    ],
)
def test_the_context_is_read_off_the_config(tmp_path: Path, expected: int | None, config: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert longest_context(str(tmp_path)) == expected


def test_the_context_of_a_hub_name_is_unknown() -> None:
    assert longest_context("org/model") is None
