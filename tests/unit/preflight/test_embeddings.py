"""What `benchrun check` says of a server of embeddings."""

from typing import Any

import pytest
from unit.preflight.checks import checked, messages

ARGS = "spec.server.args"
API = {"workloads.0.api": "Embeddings"}


def of_prompts(tokens: int, *args: str) -> dict[str, Any]:
    return API | {
        "server.args": ["--max-model-len=512", *args],
        "workloads.0.dataset": {"random": {"inputTokens": tokens}},
    }


def test_only_the_prompt_must_fit_the_model() -> None:
    assert not checked(of_prompts(512)).has_errors
    errors = messages(checked(of_prompts(513)), "Error")
    assert errors.keys() == {"spec.workloads[0].dataset"}
    texts = of_prompts(512) | {"workloads.0.api": "Completions"}
    assert checked(texts).has_errors


def test_the_cache_is_not_computed() -> None:
    found = messages(checked(of_prompts(64)), "NotChecked")
    assert "embeddings" in found[ARGS]


@pytest.mark.parametrize(
    ("args", "is_told"), [((), True), (("--runner=pooling",), False)]
)
def test_a_model_that_writes_texts_needs_a_runner(
    args: tuple[str, ...], is_told: bool
) -> None:
    notes = messages(checked(of_prompts(64, *args)), "Note")
    assert ("--runner=pooling" in notes.get(ARGS, "")) is is_told


def test_a_server_of_texts_is_told_nothing_of_it() -> None:
    found = checked({"server.args": ["--max-model-len=512"]})
    every = [each.text for each in found.remarks]
    assert not [text for text in every if "embeddings" in text]
