"""Requests against the longest sequence."""

from typing import Any

import pytest
from benchrun.api import Workload
from benchrun.preflight.manifest_checks import Known
from benchrun.preflight.request_volume import (
    LongestRequest,
    lengths_of,
    longest_request,
)
from benchrun.sizing import model_shape
from unit.api.spec_cases import workload
from unit.golden_messages import golden
from unit.preflight.checks import checked, messages
from unit.sizing.configs import LLAMA_8B

DATASET = "spec.workloads[0].dataset"
RANDOM = {
    "workloads.0.dataset": {"random": {"inputTokens": 12_000, "outputTokens": 1000}}
}
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
def test_a_request_longer_than_a_sequence_is_an_error(
    args: list[str], known: Known, told_by: str
) -> None:
    text = messages(checked({**RANDOM, "server.args": args}, known=known), "Error")[
        DATASET
    ]
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
def test_rows_that_are_too_long_are_left_out_which_is_no_error(
    members: dict[str, Any], limit: int, fits: bool
) -> None:
    dataset = {"shareGPT": {"file": FILE, **members}}
    found = checked(
        {
            "workloads.0.dataset": dataset,
            "server.args": [f"--max-model-len={limit}"],
        }
    )
    assert DATASET not in messages(found, "Error")
    assert (
        "longer rows are left out" in messages(found, "Note").get(DATASET, "")
    ) is not fits


@pytest.mark.parametrize(
    ("dataset", "tokens"),
    [
        ({"shareGPT": {"file": FILE, "outputTokens": 4096}}, "4,096"),
        (
            {
                "texts": {
                    "file": FILE,
                    "column": "review",
                    "textsPerPrompt": 400,
                    "outputTokensPerText": 10,
                }
            },
            "4,000",
        ),
        ({"custom": {"file": FILE, "outputTokens": 2000}}, "2,000"),
        (
            {
                "huggingFace": {
                    "repository": "openai/gsm8k",
                    "column": "question",
                    "outputTokens": 2000,
                }
            },
            "2,000",
        ),
    ],
)
def test_answers_that_leave_no_room_for_a_prompt_are_an_error(
    dataset: dict[str, Any], tokens: str
) -> None:
    found = checked(
        {"workloads.0.dataset": dataset, "server.args": ["--max-model-len=2000"]}
    )
    golden(messages(found, "Error")[DATASET])


def test_each_part_of_a_mix_is_looked_at() -> None:
    prefixes = {
        "prefixes": 2,
        "prefixTokens": 4000,
        "suffixTokens": 90,
        "outputTokens": 10,
    }
    parts = {
        "a": {"random": {}},
        "b": {"prefixRepetition": prefixes},
        "c": {"agent": {"staticPrefix": {}}},
    }
    workloads = [
        {**workload(), "dataset": {"mix": [{"workload": name} for name in parts]}},
        *({"name": name, "dataset": dataset} for name, dataset in parts.items()),
    ]
    found = checked(
        {"workloads": workloads, "server.args": ["--max-model-len=4096"]}
    )
    assert list(messages(found, "Error")) == [f"{DATASET}.mix[1]"]
    assert f"{DATASET}.mix[2]" in messages(found, "NotChecked")


@pytest.mark.parametrize(
    "changes",
    [
        {
            "server.args": [
                "--max-model-len=16384",
                "--hf-overrides.rope_scaling.factor=2",
            ]
        },
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


# The KV cache against the load that is asked for.

GIB = 2**30
LOAD = "spec.workloads[0].load"
ARGS = "spec.server.args"
SHAPE = model_shape(LLAMA_8B)
"""128 KiB a token, 2 MiB a block."""
ROOM = Known(
    shape=SHAPE, gpu_bytes=20 * GIB, weights_bytes=15 * GIB, overhead_bytes=GIB
)
"""4 GiB at a utilisation of 1: 2048 blocks, of which 2047 can be used."""
SEARCHABLE: dict[str, Any] = {
    "objectives": [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 500}]
}
ALL = "--gpu-memory-utilization=1"


def load(**members: Any) -> dict[str, Any]:
    """1024 + 128 tokens a request: 72 blocks, so 28 fit."""
    return {
        "workloads.0.load": members,
        "server.args": [ALL, "--max-model-len=8192"],
    }


@pytest.mark.parametrize(
    ("changes", "too_many"),
    [
        (load(concurrencies=[8, 28]), None),
        (load(concurrencies=[8, 29, 64]), "29, 64"),
        (load(requestRates=["1"], maxConcurrency=64), "64"),
        (load(requestRates=["1", "inf"]), "100"),
        (load(requestRates=["1"]), None),
        (
            load(search={"axis": "Concurrency", "from": "1", "to": "512"})
            | SEARCHABLE,
            "512",
        ),
        (
            load(search={"axis": "RequestRate", "from": "1", "to": "512"})
            | SEARCHABLE,
            None,
        ),
    ],
)
def test_more_at_once_than_fit_is_a_warning(
    changes: dict[str, Any], too_many: str | None
) -> None:
    warnings = messages(checked(changes, known=ROOM), "Warning")
    if too_many is None:
        assert LOAD not in warnings
    else:
        assert warnings[LOAD].startswith(
            f"{too_many} requests are in flight at once, each of up to 1,152 tokens, but only 28 of that "
        )


def test_requests_that_only_the_data_tells_the_length_of_are_left_out() -> None:
    changes = load(concurrencies=[5000]) | {
        "workloads.0.dataset": {"agent": {"staticPrefix": {}}}
    }
    assert LOAD not in messages(checked(changes, known=ROOM), "Warning")


def test_engines_side_by_side_hold_more() -> None:
    changes = load(concurrencies=[56])
    changes["server.args"] = [*changes["server.args"], "--data-parallel-size=2"]
    assert LOAD not in messages(checked(changes, known=ROOM), "Warning")


def test_a_size_among_the_arguments_needs_no_gpu_memory() -> None:
    changes = {
        "server.args": ["--kv-cache-memory-bytes=1GiB", "--max-model-len=4096"]
    }
    assert (
        "8,192 tokens"
        in messages(checked(changes, known=Known(shape=SHAPE)), "Note")[ARGS]
    )


# How long the requests of each dataset get.

FILE_LENGTHS_OF = {"path": "/data/rows"}


def workload_with(dataset: dict[str, Any]) -> Workload:
    return Workload.model_validate(workload(dataset=dataset))


@pytest.mark.parametrize(
    ("dataset", "lengths", "total"),
    [
        ({"random": {}}, LongestRequest(1024, 128, drops_long_rows=False), 1152),
        (
            {"random": {"inputTokens": 7, "outputTokens": 9}},
            LongestRequest(7, 9, drops_long_rows=False),
            16,
        ),
        (
            {
                "random": {
                    "inputLengths": {"mean": 7, "stdev": 2, "min": 1, "max": 70},
                    "outputTokens": 9,
                }
            },
            LongestRequest(70, 9, drops_long_rows=False),
            79,
        ),
        (
            {
                "random": {
                    "outputLengths": {"mean": 7, "stdev": 2, "min": 1, "max": 70}
                }
            },
            LongestRequest(1024, 70, drops_long_rows=False),
            1094,
        ),
        (
            {"prefixRepetition": {}},
            LongestRequest(512, 128, drops_long_rows=False),
            640,
        ),
        (
            {
                "prefixRepetition": {
                    "prefixTokens": 100,
                    "suffixTokens": 20,
                    "outputTokens": 3,
                }
            },
            LongestRequest(120, 3, drops_long_rows=False),
            123,
        ),
        (
            {"shareGPT": {"file": FILE_LENGTHS_OF}},
            LongestRequest(1024, 1024, drops_long_rows=True),
            2048,
        ),
        (
            {"shareGPT": {"file": FILE_LENGTHS_OF, "maxPromptTokens": 2000}},
            LongestRequest(2000, 48, drops_long_rows=True),
            2048,
        ),
        (
            {"shareGPT": {"file": FILE_LENGTHS_OF, "maxPromptTokens": 9000}},
            LongestRequest(9000, 1, drops_long_rows=True),
            9001,
        ),
        (
            {"shareGPT": {"file": FILE_LENGTHS_OF, "maxTotalTokens": 5000}},
            LongestRequest(1024, 3976, drops_long_rows=True),
            5000,
        ),
        (
            {"shareGPT": {"file": FILE_LENGTHS_OF, "outputTokens": 7}},
            LongestRequest(1024, 7, drops_long_rows=True),
            1031,
        ),
        (
            {"texts": {"file": FILE_LENGTHS_OF, "column": "c"}},
            LongestRequest(None, 1, drops_long_rows=True),
            None,
        ),
        (
            {
                "texts": {
                    "file": FILE_LENGTHS_OF,
                    "column": "c",
                    "textsPerPrompt": 40,
                    "outputTokensPerText": 3,
                }
            },
            LongestRequest(None, 120, drops_long_rows=True),
            None,
        ),
        (
            {"custom": {"file": FILE_LENGTHS_OF}},
            LongestRequest(None, None, drops_long_rows=True),
            None,
        ),
        (
            {"custom": {"file": FILE_LENGTHS_OF, "outputTokens": 9}},
            LongestRequest(None, 9, drops_long_rows=True),
            None,
        ),
        (
            {
                "huggingFace": {
                    "repository": "a/b",
                    "column": "c",
                    "outputTokens": 9,
                }
            },
            LongestRequest(None, 9, drops_long_rows=True),
            None,
        ),
        (
            {"agent": {"staticPrefix": {}}},
            LongestRequest(None, None, drops_long_rows=False),
            None,
        ),
        (
            {"agent": {"dynamicPrefix": {}, "outputTokens": 9}},
            LongestRequest(None, None, drops_long_rows=False),
            None,
        ),
        (
            {"timedTrace": {"file": FILE_LENGTHS_OF}},
            LongestRequest(None, None, drops_long_rows=True),
            None,
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_lengths(
    dataset: dict[str, Any], lengths: LongestRequest, total: int | None
) -> None:
    sent = workload_with(dataset)
    found = lengths_of(sent.dataset, sent)
    assert (found, found.total) == (lengths, total)


SHORT: dict[str, Any] = {"random": {"inputTokens": 10, "outputTokens": 1}}
LONG: dict[str, Any] = {"random": {"inputTokens": 100, "outputTokens": 1}}
OPEN: dict[str, Any] = {"custom": {"file": FILE_LENGTHS_OF}}


@pytest.mark.parametrize(
    ("dataset", "max_tokens", "longest"),
    [
        pytest.param(SHORT, None, 11, id="without a limit"),
        pytest.param(SHORT, 8, 8, id="cut by the limit"),
        pytest.param(SHORT, 11, 11, id="as long as the limit"),
        pytest.param(
            {"mix": [{"workload": "s"}, {"workload": "l"}]},
            None,
            101,
            id="the longest part of a mix",
        ),
        pytest.param(
            {"mix": [{"workload": "l"}, {"workload": "s"}]},
            50,
            50,
            id="cut as well",
        ),
        pytest.param(
            {"mix": [{"workload": "l"}, {"workload": "o"}]},
            50,
            None,
            id="one part that only its data tells of",
        ),
        pytest.param(OPEN, 50, None, id="only data"),
    ],
)
def test_the_longest_request_that_the_model_takes(
    dataset: dict[str, Any], max_tokens: int | None, longest: int | None
) -> None:
    named = [
        workload_with(each).model_copy(update={"name": name})
        for name, each in (("s", SHORT), ("l", LONG), ("o", OPEN))
    ]
    assert (
        longest_request(workload_with(dataset), named, max_tokens=max_tokens)
        == longest
    )
