"""Formats of quantised weights: which flags contradict them, and what is not known of them.

What is said here is vLLM 0.32's and 0.33's, which load nothing that `--quantization` contradicts.
"""

from collections.abc import Iterator, Mapping

from benchrun.sizing.cache_layers import ModelShape
from benchrun.sizing.serve_args import ServeArgs

FORMATS = frozenset({
    "auto-round", "awq", "awq_marlin", "bitsandbytes", "compressed-tensors", "experts_int8",
    "fbgemm_fp8", "fp8", "fp_quant", "gptq", "gptq_marlin", "inc", "modelopt", "modelopt_fp4",
    "modelopt_mixed", "modelopt_mxfp8", "moe_wna16", "mxfp4", "mxfp8", "quark", "torchao",
})  # fmt: skip
"""Quantisation methods whose weights are loaded as they are stored."""
_DEPRECATED = ("fbgemm_fp8", "fp_quant")
_NOT_ITS_OWN = ("bitsandbytes",)
"""Formats that vLLM had before 0.32."""
_KERNELS: Mapping[str, frozenset[str]] = {
    "awq": frozenset({"awq", "auto_awq", "awq_marlin", "marlin", "moe_wna16"}),
    "gptq": frozenset({"gptq", "auto_gptq", "gptq_marlin", "marlin", "moe_wna16"}),
    "fp8": frozenset({"fp8", "deepseek_v4_fp8"}),
    **{
        each: frozenset({each})
        for each in (
            *_DEPRECATED,
            *_NOT_ITS_OWN,
            "compressed-tensors",
            "quark",
            "torchao",
        )
    },
}
"""Values of --quantization with which vLLM loads a format that the flag may contradict."""
_OTHERS = frozenset({
    "experts_int8", "fp8_per_block", "fp8_per_channel", "fp8_per_tensor", "inc",
    "int8_per_channel_weight_only", "modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8",
    "mxfp4", "mxfp8", "nvfp4_per_token", "online",
})  # fmt: skip
"""Further values of --quantization that vLLM knows."""
_KNOWN = _OTHERS.union(*_KERNELS.values())
_WHILE_LOADED = frozenset({
    "experts_int8", "fp8", "fp8_per_block", "fp8_per_channel", "fp8_per_tensor", "humming",
    "int8_per_channel_weight_only", "mxfp4", "mxfp8", "nvfp4_per_token", "online", "torchao",
})  # fmt: skip
"""Values of --quantization that quantise plain weights while they are loaded."""


def contradictions(shape: ModelShape, args: ServeArgs) -> Iterator[str]:
    """Yield why vLLM refuses --quantization for the checkpoint's weights."""
    given = args.text("quantization")
    stored = shape.weights_format
    fitting = _KERNELS.get(stored or "")
    if fitting and given in _KNOWN and given not in fitting:
        yield (
            f"--quantization={given} contradicts the checkpoint, whose weights are {stored} "
            "(its quantization_config): drop the flag"
        )


def unknown_of_weights(
    shape: ModelShape, args: ServeArgs, *, has_gpus: bool
) -> Iterator[str]:
    """Yield what is not known of the weights' format, with its reason. Raises UnreadableValue.

    `has_gpus` says whether the server computes on GPUs: CPUs load AWQ in another way.
    """
    given = args.text("quantization")
    stored = shape.weights_format
    if stored is None:
        if given is not None and given not in _WHILE_LOADED:
            yield (
                f"whether the checkpoint has weights for --quantization={given}: config.json has "
                "no quantization_config"
            )
        return
    if stored not in FORMATS:
        yield f"whether vLLM can load the checkpoint's weights ({stored})"
    elif stored in _NOT_ITS_OWN:
        yield (
            f"whether vLLM can load the checkpoint's weights ({stored}): since 0.32 a plugin must "
            "do it"
        )
    elif stored in _DEPRECATED and not args.is_given(
        "allow-deprecated-quantization"
    ):
        yield (
            f"whether vLLM loads the checkpoint's weights ({stored}): since 0.32 it needs "
            "--allow-deprecated-quantization"
        )
    is_known = given == stored or (stored in _KERNELS and given in _KNOWN)
    if given is not None and not is_known:
        yield f"whether --quantization={given} fits the checkpoint's weights ({stored})"
    size = args.whole("tensor-parallel-size") or 1
    why = _indivisible(shape, has_gpus=has_gpus) if size > 1 else None
    if stored in FORMATS and why is not None:
        yield f"whether {size} GPUs can share these weights: {why}"


def _indivisible(shape: ModelShape, *, has_gpus: bool) -> str | None:
    """Return why it is not known whether tensor parallelism divides groups of weights."""
    if shape.weights_group is None:
        return (
            f"the demands of the kernels for {shape.weights_format} are not known"
        )
    if shape.weights_group == 1:
        return None
    if shape.weights_format == "awq" and not has_gpus:
        return "CPUs divide the groups of awq in their own way"
    if shape.experts:
        return (
            f"groups of {shape.weights_group} within experts depend on the kernel"
        )
    if shape.mlp_size is None or shape.attention_size is None:
        groups = f"groups of {shape.weights_group}"
        return f"layers differ, or config.json does not say what {groups} divide"
    return None
