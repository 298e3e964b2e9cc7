"""Requests against the longest sequence."""

from typing import Any

import pytest
from benchrun.preflight.manifest_checks import Known
from benchrun.sizing import model_shape
from unit.api.spec_cases import workload
from unit.golden_messages import golden
from unit.preflight.checks import checked, messages
from unit.sizing.configs import LLAMA_8B

DATASET = "spec.workloads[0].dataset"
RANDOM = {"workloads.0.dataset": {"random": {"inputTokens": 12_000, "outputTokens": 1000}}}
SHORT_MODEL = Known(shape=model_shape(LLAMA_8B | {"max_position_embeddings": 8192}))
FILE = {"configMap": {"name": "c", "key": "k"}}


@pytest.mark.parametrize(
    ("args", "known", "told_by"),
    [
        (["--max-model-len=12k"], Known(), "--max-model-len"),
        ([], SHORT_MODEL, "config.json"),
        (["--max-model-len=auto"], SHORT_MODEL, "config.json"),
    ],
)
def test_a_request_longer_than_a_sequence_is_an_error(args: list[str], known: Known, told_by: str) -> None:
    text = messages(checked({**RANDOM, "server.args": args}, known=known), "Error")[DATASET]
    assert f"({told_by})" in text
    golden(text)


@pytest.mark.parametrize(
    ("members", "limit", "fits"),
    [
        ({}, 2048, True),
        ({}, 2047, False),
        ({"outputTokens": 4096}, 5120, True),
        ({"maxTotalTokens": 4096}, 4095, False),
    ],
)
def test_rows_that_are_too_long_are_left_out_which_is_no_error(members: dict[str, Any], limit: int, fits: bool) -> None:
    dataset = {"shareGPT": {"file": FILE, **members}}
    found = checked({"workloads.0.dataset": dataset, "server.args": [f"--max-model-len={limit}"]})
    assert DATASET not in messages(found, "Error")
    assert ("longer rows are left out" in messages(found, "Note").get(DATASET, "")) is not fits


@pytest.mark.parametrize(
    ("dataset", "tokens"),
    [
        ({"shareGPT": {"file": FILE, "outputTokens": 4096}}, "4,096"),
        ({"texts": {"file": FILE, "column": "review", "textsPerPrompt": 400, "outputTokensPerText": 10}}, "4,000"),
        ({"custom": {"file": FILE, "outputTokens": 2000}}, "2,000"),
        ({"huggingFace": {"repository": "openai/gsm8k", "column": "question", "outputTokens": 2000}}, "2,000"),
    ],
)
def test_answers_that_leave_no_room_for_a_prompt_are_an_error(dataset: dict[str, Any], tokens: str) -> None:
    found = checked({"workloads.0.dataset": dataset, "server.args": ["--max-model-len=2000"]})
    golden(messages(found, "Error")[DATASET])


def test_each_part_of_a_mix_is_looked_at() -> None:
    prefixes = {"prefixes": 2, "prefixTokens": 4000, "suffixTokens": 90, "outputTokens": 10}
    parts = {"a": {"random": {}}, "b": {"prefixRepetition": prefixes}, "c": {"agent": {"staticPrefix": {}}}}
    workloads = [
        {**workload(), "dataset": {"mix": [{"workload": name} for name in parts]}},
        *({"name": name, "dataset": dataset} for name, dataset in parts.items()),
    ]
    found = checked({"workloads": workloads, "server.args": ["--max-model-len=4096"]})
    assert list(messages(found, "Error")) == [f"{DATASET}.mix[1]"]
    assert f"{DATASET}.mix[2]" in messages(found, "NotChecked")


@pytest.mark.parametrize(
    "changes",
    [
        {"server.args": ["--max-model-len=16384", "--hf-overrides.rope_scaling.factor=2"]},
        {
            "server.args": ["--max-model-len=16384"],
            "server.env": [{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}],
        },
    ],
)
def test_an_allowed_longer_context_gives_a_note(changes: dict[str, Any]) -> None:
    found = checked(changes, known=SHORT_MODEL)
    assert "made for 8,192 tokens" in messages(found, "Note")["spec.server.args"]
    assert messages(found, "Error") == {}
