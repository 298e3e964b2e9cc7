"""The GPUs of a pod against the parallel processes in it, and what vLLM demands of the model."""

from collections.abc import Mapping
from typing import Any

import pytest
from benchrun.preflight.manifest_checks import Known
from benchrun.sizing import ServeArgs, model_shape, refusals
from benchrun_client.engines import ENGINES
from unit.preflight.checks import checked, messages
from unit.sizing.configs import DEEPSEEK_V3, LLAMA_8B
from unit.sizing.published import QWEN_2_5_7B

GIB = 2**30
SERVER, PREFILL, DECODE = (
    f"spec.server.{role}args"
    for role in ("", "disaggregated.prefill.", "disaggregated.decode.")
)
SEVEN_B = Known(shape=model_shape(QWEN_2_5_7B))
EXPERTS = Known(
    shape=model_shape(DEEPSEEK_V3 | {"n_routed_experts": 256}),
    gpu_bytes=141 * 10**9,
    weights_bytes=688_586_727_753,
    overhead_bytes=2 * GIB,
)


def one_node(*args: str, gpus: int | None) -> dict[str, Any]:
    limits = {} if gpus is None else {"nvidia.com/gpu": gpus}
    return {"server.args": [*args], "server.resources": {"limits": limits}}


def roles(prefill: list[str], decode: list[str], gpus: int) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": gpus}}
    split = {
        "prefill": {"args": prefill, "resources": limits},
        "decode": {"args": decode, "resources": limits},
        "kvTransfer": {"connector": "NixlConnector"},
    }
    return {"server.disaggregated": split}


def level_of(
    changes: Mapping[str, Any], path: str, known: Known, word: str
) -> str | None:
    """Of the remark on this field with this word."""
    found = checked(changes, known=known).remarks
    return next((r.level for r in found if r.path == path and word in r.text), None)


@pytest.mark.parametrize(
    ("args", "gpus", "level"),
    [
        (("--tensor-parallel-size=2",), 1, "Error"),
        (("--tensor-par=2",), 1, "Error"),
        (("-tp", "2"), 2, None),
        ((), 8, "Warning"),
        ((), 1, None),
        ((), None, None),
        (("-dp=8",), 8, None),
        (("-dp=8", "-tp=2"), 8, "Error"),
        (("-dp=8", "--data-parallel-size-local=4"), 4, None),
        (("-dp=2", "-dpl=4"), 4, "Error"),
        (("-pp=2", "-tp=2"), 8, "Warning"),
        (("-tp=2",), None, "NotChecked"),
        (("-tp=16", "--distributed-executor-backend=ray"), 8, "NotChecked"),
        (("-dp=16", "--data-parallel-rank=3"), 1, "NotChecked"),
        (("-dp=16", "-dpe"), 1, "NotChecked"),
    ],
)
def test_processes_and_gpus_of_one_node(
    args: tuple[str, ...], gpus: int | None, level: str | None
) -> None:
    changes = one_node(*args, gpus=gpus)
    levels = {
        each.level
        for each in checked(changes).remarks
        if each.path == SERVER
        and ("GPU" in each.text or "vLLM will not start" in each.text)
    }
    assert levels == ({level} if level else set())


def test_a_variable_that_hides_gpus_is_not_checked() -> None:
    hidden = {"server.env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]}
    changes = one_node("-tp=2", gpus=1) | hidden
    assert (
        level_of(changes, SERVER, Known(), "CUDA_VISIBLE_DEVICES") == "NotChecked"
    )


def test_each_role_has_gpus_of_its_own() -> None:
    changes = roles(["-tp=4"], [], 2)
    found = checked(changes)
    assert "4 parallel processes" in messages(found, "Error")[PREFILL]
    assert "of which vLLM uses 1" in messages(found, "Warning")[DECODE]


def test_heads_are_held_against_the_flags_of_each_role() -> None:
    found = messages(
        checked(roles(["-tp=8"], ["-tp=4"], 8), known=SEVEN_B), "Error"
    )
    assert "28 attention heads" in found[PREFILL]
    assert DECODE not in found


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--tensor-parallel-size=8",), "28 attention heads"),
        (("--tensor-parallel-size=3",), "4 KV heads"),
        (("--tensor-parallel-size=7",), "4 KV heads"),
        (("--enable-expert-parallel",), "experts"),
        (("--enable-expert",), "experts"),
        (("-ep",), "experts"),
        (("--enable-eplb",), "--enable-expert-parallel"),
        (("-pp=29",), "28 layers"),
        (("-tp=4", "-dcp=2"), "above the 4 KV heads"),
        (("-tp=4", "-dcp=3"), "does not divide"),
        (("--max-num-batched-tokens=64", "--max-num-seqs=128"), "below"),
    ],
)
def test_a_demand_that_is_not_met_is_an_error_without_a_figure(
    args: tuple[str, ...], word: str
) -> None:
    known = Known(
        shape=SEVEN_B.shape,
        gpu_bytes=80 * GIB,
        weights_bytes=15 * GIB,
        overhead_bytes=GIB,
    )
    changes = one_node(*args, gpus=None)
    assert level_of(changes, SERVER, known, word) == "Error"
    assert level_of(changes, SERVER, known, "the KV cache holds") is None


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
LINEAR_ONLY = {
    "modules_to_not_convert": ["lm_head", "model.layers.0.input_layernorm"]
}


@pytest.mark.parametrize(
    ("size", "weights", "gpus", "is_refused"),
    [
        # Qwen2 72B in AWQ, before its MLP was padded to 29,696.
        (29_568, AWQ, 8, True),
        (29_568, AWQ, 2, True),
        (29_696, AWQ, 8, False),
        (29_568, AWQ, 1, False),
        (29_568, AWQ | {"group_size": -1}, 8, False),
        (29_568, {"quant_method": "awq", "q_group_size": 64}, 2, False),
        (29_568, None, 8, False),
        # Qwen3 4B in FP8.
        (9728, FP8, 8, True),
        (9728, FP8 | LINEAR_ONLY, 8, True),
        (9728, FP8, 4, False),
        (9728, {"quant_method": "fp8"}, 8, False),
        (
            9728,
            FP8 | {"modules_to_not_convert": ["model.layers.0.mlp.down_proj"]},
            8,
            False,
        ),
        # What is not known is no reason to refuse; it is told (below).
        (9728, FP8 | {"modules_to_not_convert": [7]}, 8, False),
        (9728, {"quant_method": "gptq", "group_size": 128}, 8, False),
        (9732, None, 8, True),
    ],
)
def test_weights_are_divided_between_their_groups_only(
    size: int, weights: dict[str, Any] | None, gpus: int, is_refused: bool
) -> None:
    config = LLAMA_8B | {"intermediate_size": size, "quantization_config": weights}
    args = ServeArgs.of([f"--tensor-parallel-size={gpus}"], ENGINES["VLLM"])
    assert bool(refusals(model_shape(config), args)) is is_refused


QWEN_05B_AWQ = QWEN_2_5_7B | {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "quantization_config": AWQ,
}
EXPERTS_FP8 = DEEPSEEK_V3 | {"n_routed_experts": 256, "quantization_config": FP8}


def in_format(method: str, **more: Any) -> dict[str, Any]:
    quantization = {"quant_method": method, **more}
    return LLAMA_8B | {
        "intermediate_size": 14_336,
        "quantization_config": quantization,
    }


@pytest.mark.parametrize(
    ("config", "args", "level"),
    [
        # vLLM's "Quantization method specified in the model config (awq) does not match ...".
        (in_format("awq", group_size=128), "-q=gptq", "Error"),
        (in_format("awq", group_size=128), "-q=awq_marlin", None),
        (in_format("AWQ", group_size=128), "-q=awq", None),
        (in_format("gptq", group_size=128), "-q=fp8", "Error"),
        (in_format("gptq", group_size=128), "-q=gptq_marlin", None),
        (in_format("gptq", group_size=128), "-q=gptq_bitblas", "NotChecked"),
        (in_format("compressed_tensors"), "-q=compressed-tensors", None),
        (in_format("compressed-tensors"), "-q=fp8", "Error"),
        (in_format("fp8"), "-q=fp8_per_block", "Error"),
        (in_format("quark"), "-q=awq", "Error"),
        (in_format("bitsandbytes"), "", "NotChecked"),
        # ModelOpt's own file says what it is, and vLLM takes it whatever the flag says.
        (in_format("modelopt", quant_algo="NVFP4"), "-q=modelopt", None),
        (in_format("modelopt", quant_algo="NVFP4"), "-q=awq", "NotChecked"),
        (in_format("hqq"), "", "NotChecked"),
        (in_format("fbgemm_fp8"), "", "NotChecked"),
        (in_format("fbgemm_fp8"), "--allow-deprecated-quantization", None),
        (LLAMA_8B | {"quantization_config": {"bits": 4}}, "-q=awq", "NotChecked"),
        (LLAMA_8B, "-q=awq", "NotChecked"),
        (LLAMA_8B, "-q=fp8", None),
        # Groups of numbers against the GPUs that share a row.
        (in_format("gptq", group_size=128), "-tp=4", "NotChecked"),
        (in_format("gptq", group_size=128), "-tp=1", None),
        (in_format("compressed-tensors"), "-tp=4", "NotChecked"),
        (in_format("modelopt", quant_algo="NVFP4"), "-tp=4", "NotChecked"),
        (in_format("mxfp4"), "-tp=4", "NotChecked"),
        (in_format("bitsandbytes"), "-tp=4", "NotChecked"),
        (in_format("fp8"), "-tp=4", None),
        (EXPERTS_FP8, "-tp=8", "NotChecked"),
        (QWEN_05B_AWQ, "-tp=2", "Error"),  # 448 numbers from attention a GPU
        (
            in_format("awq", group_size=128, modules_to_not_convert=["visual"]),
            "-tp=4",
            None,
        ),
    ],
)
def test_formats_of_weights_and_flags(
    config: dict[str, Any], args: str, level: str | None
) -> None:
    changes = one_node(*args.split(), gpus=8)
    known = Known(shape=model_shape(config))
    words = ("quantization", "the checkpoint's weights", "attention in", "share")
    levels = {
        each.level
        for each in checked(changes, known=known).remarks
        if each.path == SERVER and any(word in each.text for word in words)
    }
    assert levels == ({level} if level else set())


def test_on_cpus_the_groups_of_awq_are_not_checked() -> None:
    known = Known(shape=model_shape(QWEN_05B_AWQ))
    assert level_of(one_node("-tp=2", gpus=2), SERVER, known, "groups of 128") == (
        "Error"
    )
    assert level_of(one_node("-tp=2", gpus=None), SERVER, known, "groups of") == (
        "NotChecked"
    )


@pytest.mark.parametrize("flag", ["", "--hf-overrides={}"])
def test_quantization_of_an_unknown_model_is_not_checked(flag: str) -> None:
    changes = one_node("-q=awq", *flag.split(), gpus=1)
    known = SEVEN_B if flag else Known()
    assert level_of(changes, SERVER, known, "--quantization=awq") == "NotChecked"


@pytest.mark.parametrize(
    "flag", ["--hf-overrides={}", "--hf-overrides.a=1", "--hf-config-path=/m"]
)
def test_of_a_model_that_flags_change_nothing_is_claimed(flag: str) -> None:
    changes = one_node("-tp=8", flag, gpus=8)
    found = checked(changes, known=SEVEN_B)
    assert "28 attention heads" not in str(messages(found, "Error"))
    assert level_of(changes, SERVER, SEVEN_B, "changes the model") == "NotChecked"
    unknown = messages(found, "NotChecked")["spec.workloads[0].dataset"]
    assert flag.partition("=")[0].partition(".")[0] in unknown


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (
            ("--max-num-batched-tokens=64", "--max-num-seqs=128"),
            "--max-num-seqs=128",
        ),
        (("--enable-eplb",), "--enable-eplb needs"),
    ],
)
def test_demands_on_flags_alone_need_no_model(
    args: tuple[str, ...], word: str
) -> None:
    assert level_of(one_node(*args, gpus=1), SERVER, Known(), word) == "Error"
    assert level_of(one_node(gpus=1), SERVER, Known(), word) is None


def test_without_a_model_demands_are_not_checked_where_there_are_any() -> None:
    assert (
        level_of(one_node("-tp=2", gpus=2), SERVER, Known(), "heads")
        == "NotChecked"
    )
    assert level_of(one_node(gpus=1), SERVER, Known(), "heads") is None


@pytest.mark.parametrize(
    "args",
    [
        ("-dp=8", "--enable-expert-parallel"),
        ("-dp=8",),
        ("-tp=8", "-q=fp8_per_tensor"),
        ("-tp=8", "--cpu-offload-gb=40"),
        ("-tp=8", "--hf-overrides={}"),
    ],
)
def test_weights_that_do_not_follow_from_the_checkpoint_are_not_checked(
    args: tuple[str, ...],
) -> None:
    changes = one_node(*args, gpus=8)
    found = checked(changes, known=EXPERTS)
    assert messages(found, "Error") == {}
    assert (
        level_of(changes, SERVER, EXPERTS, "the weights on a GPU") == "NotChecked"
    )
    assert level_of(changes, SERVER, EXPERTS, "the KV cache holds") is None


def test_weights_in_32_bits_are_not_those_on_the_gpu() -> None:
    known = Known(
        shape=model_shape(LLAMA_8B | {"torch_dtype": "float32"}),
        gpu_bytes=24 * GIB,
        weights_bytes=30 * GIB,
        overhead_bytes=GIB,
    )
    changes = one_node(gpus=1)
    assert level_of(changes, SERVER, known, "float32") == "NotChecked"
    assert messages(checked(changes, known=known), "Error") == {}


def test_what_a_script_gives_is_not_taken_for_nothing() -> None:
    known = Known(
        shape=SEVEN_B.shape,
        gpu_bytes=80 * GIB,
        weights_bytes=15 * GIB,
        overhead_bytes=GIB,
    )
    script = {"server.command": ["bash", "-c", "vllm serve $(MODEL) -tp 4"]}
    changes = one_node(gpus=4) | script
    assert level_of(changes, SERVER, known, "script") == "NotChecked"
    assert level_of(changes, SERVER, known, "the KV cache holds") is None


def test_a_variable_that_changes_the_cache_is_not_checked() -> None:
    env = {"server.env": [{"name": "VLLM_MLA_DISABLE", "value": "1"}]}
    changes = one_node("-tp=8", gpus=8) | env
    assert level_of(changes, SERVER, EXPERTS, "VLLM_MLA_DISABLE") == "NotChecked"
