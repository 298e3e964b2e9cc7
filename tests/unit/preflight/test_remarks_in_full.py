"""Every remark about a run, word for word: its level, the field it names, and what there is to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from benchrun.preflight.manifests import Known
from benchrun.preflight.remark import Level
from benchrun.sizing.config_json import model_shape
from unit.api.spec_cases import absent
from unit.preflight.checks import checked, said
from unit.sizing.configs import LLAMA_8B, QWEN3_NEXT

GIB = 2**30
ARGS, LOAD, DATASET = "spec.server.args", "spec.workloads[0].load", "spec.workloads[0].dataset"
SHAPE = model_shape(LLAMA_8B)
ROOM = Known(shape=SHAPE, gpu_bytes=20 * GIB, weights_bytes=15 * GIB, overhead_bytes=GIB)
"""With --gpu-memory-utilization=1: 4 GiB of cache, 2048 blocks of 16 tokens."""
FULL = "--gpu-memory-utilization=1"
FILE = {"configMap": {"name": "c", "key": "k"}}


def load(**members: Any) -> dict[str, Any]:
    return {"workloads.0.load": members, "server.args": [FULL, "--max-model-len=8192"]}


def dataset(limit: int, **members: Any) -> dict[str, Any]:
    return {"workloads.0.dataset": members, "server.args": [f"--max-model-len={limit}"]}


Case = tuple[dict[str, Any], Known, Level, str, str]
CASES: dict[str, Case] = {
    "an endpoint": (
        {"server": absent(), "endpoint": {"url": "http://llm"}},
        Known(),
        "NotChecked",
        "spec.endpoint",
        "an endpoint's server is not started here: its flags, its longest sequence and its KV cache",
    ),
    "nothing told of model and memory": (
        {},
        Known(),
        "NotChecked",
        ARGS,
        "whether the KV cache has room for the load: give --model, --gpu-memory, --weights",
    ),
    "no memory told": (
        {},
        Known(shape=SHAPE, weights_bytes=1),
        "NotChecked",
        ARGS,
        "whether the KV cache has room for the load: give --gpu-memory",
    ),
    "no weights told": (
        {},
        Known(shape=SHAPE, gpu_bytes=GIB),
        "NotChecked",
        ARGS,
        "whether the KV cache has room for the load: give --weights",
    ),
    "a value that is none": (
        {"server.args": ["--max-num-seqs=many"]},
        Known(),
        "Error",
        ARGS,
        "--max-num-seqs: 'many' is not a whole number; write 8192, 8k (8000) or 8K (8192)",
    ),
    "a limit that is none": (
        {"server.args": ["--max-model-len=0"]},
        Known(),
        "Error",
        ARGS,
        "--max-model-len: 0 is not above 0",
    ),
    "a size of the cache that is none": (
        {"server.args": ["--kv-cache-memory-bytes=half"]},
        Known(shape=SHAPE),
        "Error",
        ARGS,
        "--kv-cache-memory-bytes: 'half' is not an amount of memory; write for example 48GiB",
    ),
    "a type whose size is not known": (
        {"server.args": ["--kv-cache-dtype=fp8_ds_mla"]},
        ROOM,
        "NotChecked",
        ARGS,
        "the KV cache: KV cache type 'fp8_ds_mla' is for latent vectors (MLA), which this model does not have",
    ),
    "weights that leave nothing": (
        {"server.args": ["--gpu-memory-utilization=0.8"]},
        replace(ROOM, overhead_bytes=2 * GIB),
        "Error",
        ARGS,
        "nothing is left for the KV cache: of 20 GiB x 0.8 = 16 GiB a GPU, weights take 15 GiB and overhead 2 GiB; more GPUs, "
        "a smaller type, or more --gpu-memory-utilization",
    ),
    "a cache of one block": (
        {"server.args": ["--num-gpu-blocks-override=1"]},
        Known(shape=SHAPE),
        "Error",
        ARGS,
        "the KV cache is smaller than two blocks: vLLM will not start",
    ),
    "what the cache holds": (
        load(concurrencies=[1]),
        ROOM,
        "Note",
        ARGS,
        "the KV cache holds about 32,768 tokens: 4 GiB a GPU, 128 KiB a token",
    ),
    "what the cache holds, where no limit is known": (
        {"server.args": ["--kv-cache-memory-bytes=1GiB"]},
        Known(shape=replace(SHAPE, context_tokens=None)),
        "Note",
        ARGS,
        "the KV cache holds about 512 blocks: 1 GiB a GPU, 128 KiB a token",
    ),
    "a sequence that does not fit alone": (
        {"server.args": [FULL, "--max-model-len=32768"]},
        ROOM,
        "Error",
        ARGS,
        "vLLM will not start: one sequence of 32,768 tokens does not fit; the longest that does has 32,752 "
        "(--max-model-len=32752)",
    ),
    "layers that are not counted": (
        {"server.args": ["--kv-cache-memory-bytes=1GiB"]},
        Known(shape=model_shape(QWEN3_NEXT)),
        "NotChecked",
        ARGS,
        "the KV cache exactly: 36 layers keep a state of fixed size a sequence (Mamba or linear attention), which is not "
        "counted: less fits than shown",
    ),
    "a flag that is not counted": (
        {"server.args": ["--kv-cache-memory-bytes=1GiB", "--decode-context-parallel-size=1"]},
        Known(shape=SHAPE),
        "NotChecked",
        ARGS,
        "the KV cache exactly: --decode-context-parallel-size is not counted",
    ),
    "a limit beyond the model's": (
        {"server.args": ["--max-model-len=131073"]},
        Known(shape=SHAPE),
        "Error",
        ARGS,
        "--max-model-len 131,073, but the model is made for 131,072 tokens: vLLM will not start; lower it, give "
        "--hf-overrides with the RoPE scaling that is meant, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1",
    ),
    "a limit beyond the model's that is meant": (
        {"server.args": ["--max-model-len=131073", "--hf-overrides={}"]},
        Known(shape=SHAPE),
        "Note",
        ARGS,
        "--max-model-len 131,073, but the model is made for 131,072 tokens: output beyond that may be noise",
    ),
    "more users than fit": (
        load(concurrencies=[8, 29, 64]),
        ROOM,
        "Warning",
        LOAD,
        "29, 64 requests at once of up to 1,152 tokens, but 28 of that length fit the KV cache: beyond that requests wait "
        "or are preempted, and latencies show that",
    ),
    "more users than seats": (
        {"workloads.0.load": {"concurrencies": [1, 2048]}, "server.args": ["--max-num-seqs=1024"]},
        Known(),
        "Warning",
        LOAD,
        "2,048 users at once, but --max-num-seqs lets 1,024 run: the others wait, which TTFT then shows",
    ),
    "lengths without a limit": (
        {},
        Known(),
        "NotChecked",
        DATASET,
        "whether its requests fit the model: no --max-model-len among the arguments, and no --model here",
    ),
    "answers longer than a sequence": (
        dataset(2000, random={"inputTokens": 1, "outputTokens": 2000}),
        Known(),
        "Error",
        DATASET,
        "answers of 2,000 tokens leave no room for a prompt: a sequence has at most 2,000 (--max-model-len)",
    ),
    "requests longer than a sequence": (
        dataset(1151, random={}),
        Known(),
        "Error",
        DATASET,
        "1,024 tokens of prompt and 128 of answer are 1,152, but a sequence has at most 1,151 (--max-model-len): vLLM "
        "refuses the request",
    ),
    "rows longer than a sequence": (
        dataset(2047, shareGPT={"file": FILE}),
        Known(),
        "Note",
        DATASET,
        "1,024 tokens of prompt and 1,024 of answer are 2,048, but a sequence has at most 2,047 (--max-model-len): longer "
        "rows are left out, and counted",
    ),
    "a chat template without room": (
        dataset(1215, random={}) | {"workloads.0.api": "Chat"},
        Known(),
        "Note",
        DATASET,
        "1,024 tokens of prompt and 128 of answer are 1,152, which leaves 63 for the chat template: a sequence has at most "
        "1,215 (--max-model-len)",
    ),
    "prompts that only the data tells of": (
        dataset(4096, agent={"staticPrefix": {}}),
        Known(),
        "NotChecked",
        DATASET,
        "how long its prompts get depends on the data",
    ),
    "too few requests": (
        {"workloads.0.requests": 300},
        Known(),
        "Warning",
        "spec.workloads[0].requests",
        "300 requests a load point give p99 no 95 % interval: p99 takes 368; up to p95 is bounded",
    ),
    "an objective out of reach": (
        {"objectives": [{"metric": "E2EL", "percentile": "99", "maxMilliseconds": 1}]},
        Known(),
        "Warning",
        "spec.objectives",
        "with so few requests E2EL p99 can't be Met, only Missed or Inconclusive",
    ),
    "one repeat": (
        {"repeats": 1},
        Known(),
        "Note",
        "spec.repeats",
        "1: one repeat does not show the noise; 3 repeats do",
    ),
    "a deadline before the stages end": (
        {"runDeadlineSeconds": 124},
        Known(),
        "Error",
        "spec.runDeadlineSeconds",
        "124 s, but the stages take 125 s at least: the run would be ended before",
    ),
    "a deadline that warm-up may use up": (
        {"runDeadlineSeconds": 184},
        Known(),
        "Warning",
        "spec.runDeadlineSeconds",
        "184 s; stages take 125 s at least and warm-up up to 60 s",
    ),
}


@pytest.mark.parametrize(("changes", "known", "level", "path", "text"), CASES.values(), ids=CASES)
def test_remark(changes: dict[str, Any], known: Known, level: Level, path: str, text: str) -> None:
    remarks = [(r.level, r.path, r.text) for r in checked(changes, known=known).remarks]
    assert (level, path, text) in remarks


@pytest.mark.parametrize(
    ("changes", "known", "silent"),
    [
        pytest.param(load(concurrencies=[28]), ROOM, LOAD, id="as many users as fit"),
        pytest.param(
            {"workloads.0.load": {"concurrencies": [32]}, "server.args": ["--max-num-seqs=32"]},
            Known(),
            LOAD,
            id="as many users as seats",
        ),
        pytest.param(
            dataset(1216, random={}) | {"workloads.0.api": "Chat"}, Known(), DATASET, id="room for a template"
        ),
        pytest.param(dataset(1152, random={}), Known(), DATASET, id="a request that just fits"),
        pytest.param(dataset(2048, shareGPT={"file": FILE}), Known(), DATASET, id="rows that just fit"),
        pytest.param(dataset(129, texts={"file": FILE, "column": "c"}), Known(), DATASET, id="rows of any length"),
        pytest.param({"workloads.0.requests": 368}, Known(), "spec.workloads[0].requests", id="enough requests"),
        pytest.param({"repeats": 2}, Known(), "spec.repeats", id="two repeats"),
        pytest.param({"runDeadlineSeconds": 185}, Known(), "spec.runDeadlineSeconds", id="time enough"),
        pytest.param({"runDeadlineSeconds": 0}, Known(), "spec.runDeadlineSeconds", id="time without limit"),
    ],
)
def test_where_all_is_well_nothing_is_said(changes: dict[str, Any], known: Known, silent: str) -> None:
    assert [remark for remark in checked(changes, known=known).remarks if remark.path == silent] == []


def test_a_cache_that_just_holds_the_limit_starts() -> None:
    found = checked({"server.args": [FULL, "--max-model-len=32752"]}, known=ROOM)
    assert said(found, "Error") == {}


def test_weights_are_divided_by_the_gpus_of_an_engine() -> None:
    for flags in (["-tp=4"], ["-pp=4"], ["-tp=2", "-pp=2"], ["-tp=4", "-dp=2"]):
        known = replace(ROOM, weights_bytes=60 * GIB)
        note = said(checked({"server.args": [FULL, "--max-model-len=8192", *flags]}, known=known), "Note")[ARGS]
        assert "4 GiB a GPU" in note
