"""Every remark about a run, word for word: its level, the field it names, and what there is to
do."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.preflight.manifest_checks import Known
from benchrun.preflight.remark import Level
from benchrun.sizing import model_shape
from unit.api.spec_cases import absent
from unit.golden_messages import assert_golden
from unit.preflight.checks import checked, messages
from unit.sizing.configs import LLAMA_8B, QWEN3_NEXT

GIB = 2**30
ARGS = "spec.server.args"
LOAD = "spec.workloads[0].load"
DATASET = "spec.workloads[0].dataset"
SHAPE = model_shape(LLAMA_8B)
ROOM = Known(
    shape=SHAPE, gpu_bytes=20 * GIB, weights_bytes=15 * GIB, overhead_bytes=GIB
)
"""With --gpu-memory-utilization=1: 4 GiB of cache, 2048 blocks of 16 tokens."""
FULL = "--gpu-memory-utilization=1"
FILE = {"configMap": {"name": "c", "key": "k"}}


def load(**members: Any) -> dict[str, Any]:
    return {
        "workloads.0.load": members,
        "server.args": [FULL, "--max-model-len=8192"],
    }


def dataset(limit: int, **members: Any) -> dict[str, Any]:
    return {
        "workloads.0.dataset": members,
        "server.args": [f"--max-model-len={limit}"],
    }


Case = tuple[dict[str, Any], Known, Level, str]
CASES: dict[str, Case] = {
    "an endpoint": (
        {"server": absent(), "endpoint": {"url": "http://llm"}},
        Known(),
        "NotChecked",
        "spec.endpoint",
    ),
    "nothing told of model and memory": ({}, Known(), "NotChecked", ARGS),
    "no memory told": ({}, Known(shape=SHAPE, weights_bytes=1), "NotChecked", ARGS),
    "no weights told": ({}, Known(shape=SHAPE, gpu_bytes=GIB), "NotChecked", ARGS),
    "a value that is none": (
        {"server.args": ["--max-num-seqs=many"]},
        Known(),
        "Error",
        ARGS,
    ),
    "a limit that is none": (
        {"server.args": ["--max-model-len=0"]},
        Known(),
        "Error",
        ARGS,
    ),
    "a size of the cache that is none": (
        {"server.args": ["--kv-cache-memory-bytes=half"]},
        Known(shape=SHAPE),
        "Error",
        ARGS,
    ),
    "a type whose size is not known": (
        {"server.args": ["--kv-cache-dtype=fp8_ds_mla"]},
        ROOM,
        "NotChecked",
        ARGS,
    ),
    "weights that leave nothing": (
        {"server.args": ["--gpu-memory-utilization=0.8"]},
        replace(ROOM, overhead_bytes=2 * GIB),
        "Error",
        ARGS,
    ),
    "a cache of one block": (
        {"server.args": ["--num-gpu-blocks-override=1"]},
        Known(shape=SHAPE),
        "Error",
        ARGS,
    ),
    "what the cache holds": (load(concurrencies=[1]), ROOM, "Note", ARGS),
    "what the cache holds, where no limit is known": (
        {"server.args": ["--kv-cache-memory-bytes=1GiB"]},
        Known(shape=replace(SHAPE, context_tokens=None, default_tokens=None)),
        "Note",
        ARGS,
    ),
    "a sequence that does not fit alone": (
        {"server.args": [FULL, "--max-model-len=32768"]},
        ROOM,
        "Error",
        ARGS,
    ),
    "layers that are not counted": (
        {"server.args": ["--kv-cache-memory-bytes=1GiB"]},
        Known(shape=model_shape(QWEN3_NEXT)),
        "NotChecked",
        ARGS,
    ),
    "a flag that is not counted": (
        {
            "server.args": [
                "--kv-cache-memory-bytes=1GiB",
                "--decode-context-parallel-size=1",
            ]
        },
        Known(shape=SHAPE),
        "NotChecked",
        ARGS,
    ),
    "a limit beyond the model's": (
        {"server.args": ["--max-model-len=131073"]},
        Known(shape=SHAPE),
        "Error",
        ARGS,
    ),
    "a limit beyond the model's that is meant": (
        {"server.args": ["--max-model-len=131073", "--hf-overrides={}"]},
        Known(shape=SHAPE),
        "Note",
        ARGS,
    ),
    "more users than fit": (load(concurrencies=[8, 29, 64]), ROOM, "Warning", LOAD),
    "more users than seats": (
        {
            "workloads.0.load": {"concurrencies": [1, 2048]},
            "server.args": ["--max-num-seqs=1024"],
        },
        Known(),
        "Warning",
        LOAD,
    ),
    "lengths without a limit": ({}, Known(), "NotChecked", DATASET),
    "answers longer than a sequence": (
        dataset(2000, random={"inputTokens": 1, "outputTokens": 2000}),
        Known(),
        "Error",
        DATASET,
    ),
    "requests longer than a sequence": (
        dataset(1151, random={}),
        Known(),
        "Error",
        DATASET,
    ),
    "rows longer than a sequence": (
        dataset(2047, shareGPT={"file": FILE}),
        Known(),
        "Note",
        DATASET,
    ),
    "a chat template without room": (
        dataset(1215, random={}) | {"workloads.0.api": "Chat"},
        Known(),
        "Note",
        DATASET,
    ),
    "prompts that only the data tells of": (
        dataset(4096, agent={"staticPrefix": {}}),
        Known(),
        "NotChecked",
        DATASET,
    ),
    "too few requests": (
        {"workloads.0.requests": 300},
        Known(),
        "Warning",
        "spec.workloads[0].requests",
    ),
    "an objective out of reach": (
        {
            "objectives": [
                {"metric": "E2EL", "percentile": "99", "maxMilliseconds": 1}
            ]
        },
        Known(),
        "Warning",
        "spec.objectives",
    ),
    "one repeat": ({"repeats": 1}, Known(), "Note", "spec.repeats"),
    "a deadline before the stages end": (
        {"runDeadlineSeconds": 124},
        Known(),
        "Error",
        "spec.runDeadlineSeconds",
    ),
    "a deadline that warm-up may use up": (
        {"runDeadlineSeconds": 184},
        Known(),
        "Warning",
        "spec.runDeadlineSeconds",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_remark(case: str) -> None:
    changes, known, level, path = CASES[case]
    remarks = checked(changes, known=known).remarks
    assert_golden(
        "check",
        case,
        *(r.text for r in remarks if (r.level, r.path) == (level, path)),
    )


@pytest.mark.parametrize(
    ("changes", "known", "silent"),
    [
        pytest.param(
            load(concurrencies=[28]), ROOM, LOAD, id="as many users as fit"
        ),
        pytest.param(
            {
                "workloads.0.load": {"concurrencies": [32]},
                "server.args": ["--max-num-seqs=32"],
            },
            Known(),
            LOAD,
            id="as many users as seats",
        ),
        pytest.param(
            dataset(1216, random={}) | {"workloads.0.api": "Chat"},
            Known(),
            DATASET,
            id="room for a template",
        ),
        pytest.param(
            dataset(1152, random={}),
            Known(),
            DATASET,
            id="a request that just fits",
        ),
        pytest.param(
            dataset(2048, shareGPT={"file": FILE}),
            Known(),
            DATASET,
            id="rows that just fit",
        ),
        pytest.param(
            dataset(129, texts={"file": FILE, "column": "c"}),
            Known(),
            DATASET,
            id="rows of any length",
        ),
        pytest.param(
            {"workloads.0.requests": 500},
            Known(),
            "spec.workloads[0].requests",
            id="enough requests",
        ),
        pytest.param({"repeats": 2}, Known(), "spec.repeats", id="two repeats"),
        pytest.param(
            {"runDeadlineSeconds": 185},
            Known(),
            "spec.runDeadlineSeconds",
            id="time enough",
        ),
        pytest.param(
            {"runDeadlineSeconds": 0},
            Known(),
            "spec.runDeadlineSeconds",
            id="time without limit",
        ),
    ],
)
def test_a_good_run_prints_no_remark(
    changes: dict[str, Any], known: Known, silent: str
) -> None:
    assert [
        remark
        for remark in checked(changes, known=known).remarks
        if remark.path == silent
    ] == []


def test_a_cache_that_just_holds_the_limit_starts() -> None:
    found = checked({"server.args": [FULL, "--max-model-len=32752"]}, known=ROOM)
    assert messages(found, "Error") == {}


def test_weights_are_divided_by_the_gpus_of_an_engine() -> None:
    for flags in (["-tp=4"], ["-pp=4"], ["-tp=2", "-pp=2"], ["-tp=4", "-dp=2"]):
        known = replace(ROOM, weights_bytes=60 * GIB)
        note = messages(
            checked(
                {"server.args": [FULL, "--max-model-len=8192", *flags]}, known=known
            ),
            "Note",
        )[ARGS]
        assert "4 GiB a GPU" in note
