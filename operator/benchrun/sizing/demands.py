"""Demands that a model's config.json and vLLM's flags must meet together.

If a demand is not met, vLLM ends with an error, but only after the pod has got its GPUs.
"""

from collections.abc import Iterator
from dataclasses import replace

from benchrun.sizing.cache_layers import ModelShape
from benchrun.sizing.serve_args import ServeArgs
from benchrun.sizing.weight_formats import FORMATS, contradictions

_VOCABULARY_PADDING = 64
"""The vocabulary is padded to a multiple of this before GPUs share it."""


class Refused(ValueError):
    """vLLM does not start with this model and these flags; the text says why, and what to do."""


def refusals(
    shape: ModelShape, args: ServeArgs, *, has_gpus: bool = True
) -> tuple[str, ...]:
    """Return why vLLM will not start, a sentence for each unmet demand. Raises UnreadableValue.

    If flags change the model, only demands on flags are known. On CPUs the groups of AWQ demand
    nothing that is known.
    """
    if not has_gpus and shape.weights_format == "awq":
        shape = replace(shape, weights_group=1)
    if model_changed_by(args) is not None:
        return refusals_of_flags(args)
    return (
        *_of_tensor_parallelism(shape, args.whole("tensor-parallel-size") or 1),
        *_of_pipelines(shape, args.whole("pipeline-parallel-size") or 1),
        *_of_experts(shape, args),
        *_of_context_parallelism(shape, args),
        *contradictions(shape, args),
        *refusals_of_flags(args),
    )


def refusals_of_flags(args: ServeArgs) -> tuple[str, ...]:
    """Return why vLLM will not start, for demands that only flags have to meet.

    Raises UnreadableValue.
    """
    return (*_of_expert_balancing(args), *_of_batches(args))


def model_changed_by(args: ServeArgs) -> str | None:
    """Return the flag by which the served model is not that of config.json; None without one."""
    return next(
        (
            each
            for each in ("hf-overrides", "hf-config-path")
            if args.is_given(each)
        ),
        None,
    )


def is_parallel(args: ServeArgs) -> bool:
    """Return whether any demand concerns these flags. Raises UnreadableValue."""
    sizes = (
        "tensor-parallel-size",
        "pipeline-parallel-size",
        "decode-context-parallel-size",
    )
    return any((args.whole(each) or 1) > 1 for each in sizes) or args.switched(
        "enable-expert-parallel", default=False
    )


def demand(shape: ModelShape, args: ServeArgs) -> None:
    """Raise Refused if vLLM will not start. May also raise UnreadableValue."""
    if found := refusals(shape, args):
        raise Refused("; ".join(found))


def sizes_that_divide(shape: ModelShape) -> tuple[int, ...]:
    """Return the sizes of tensor parallelism that the model's heads and vocabulary allow."""
    return tuple(
        size
        for size in range(1, shape.query_heads + 1)
        if not [*_undivided(shape, size)]
    )


def _of_tensor_parallelism(shape: ModelShape, size: int) -> Iterator[str]:
    for what in _undivided(shape, size):
        possible = ", ".join(map(str, sizes_that_divide(shape)))
        yield f"--tensor-parallel-size={size} does not divide {what}; possible: {possible}"


def _undivided(shape: ModelShape, size: int) -> Iterator[str]:
    """Yield what this size of tensor parallelism does not divide, for the end of a sentence."""
    if shape.query_heads % size:
        yield f"{shape.query_heads} attention heads"
    for heads in _kv_heads(shape):
        # If there are fewer heads than GPUs, each head has an equal number of copies.
        if heads % size and size % heads:
            yield f"{heads} KV heads, and is not a multiple of them"
    yield from _undivided_weights(shape, size)
    groups_of_heads = shape.state_groups or 1
    if groups_of_heads > 1 and groups_of_heads % size:
        yield f"{groups_of_heads} groups of Mamba's heads"
    if shape.vocabulary is not None:
        padded = -(-shape.vocabulary // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
        if padded % size:
            yield f"a vocabulary of {padded:,} (padded to a multiple of {_VOCABULARY_PADDING})"


def _undivided_weights(shape: ModelShape, size: int) -> Iterator[str]:
    group = shape.weights_group or 1
    groups = f" in groups of {group}" if group > 1 else ""
    if size == 1:
        return
    if shape.mlp_size is not None and shape.mlp_size % (size * group):
        yield f"an MLP of {shape.mlp_size:,}{groups}"
    if group > 1 and (shape.attention_size or 0) % (size * group):
        yield f"{shape.attention_size:,} numbers from attention{groups}"


def _kv_heads(shape: ModelShape) -> list[int]:
    return sorted(
        {
            layer.heads
            for layer in shape.caching_layers
            if not layer.is_shared_by_all_heads and layer.heads
        }
    )


def _of_pipelines(shape: ModelShape, size: int) -> Iterator[str]:
    if 0 < shape.hidden_layers < size:
        yield f"--pipeline-parallel-size={size} is more than the {shape.hidden_layers} layers"


def _of_experts(shape: ModelShape, args: ServeArgs) -> Iterator[str]:
    is_spread = args.switched("enable-expert-parallel", default=False)
    if is_spread and not shape.experts:
        yield "--enable-expert-parallel needs a model with experts, unlike this one: drop the flag"


def _of_expert_balancing(args: ServeArgs) -> Iterator[str]:
    is_spread = args.switched("enable-expert-parallel", default=False)
    if args.switched("enable-eplb", default=False) and not is_spread:
        yield "--enable-eplb needs --enable-expert-parallel"


def _of_context_parallelism(shape: ModelShape, args: ServeArgs) -> Iterator[str]:
    size = args.whole("decode-context-parallel-size") or 1
    tensor = args.whole("tensor-parallel-size") or 1
    if size == 1:
        return
    flag = f"--decode-context-parallel-size={size}"
    if args.whole("prefill-context-parallel-size") in (None, 1) and tensor % size:
        yield f"{flag} does not divide --tensor-parallel-size={tensor}"
    for heads in _kv_heads(shape):
        if tensor <= heads:
            yield f"{flag} needs --tensor-parallel-size above the {heads} KV heads, not {tensor}"
        elif size > tensor // heads:
            yield (
                f"{flag} is more than the {tensor // heads} GPUs of a KV head ({tensor} "
                f"GPUs, {heads} KV heads)"
            )
        elif (shape.query_heads // heads) % size:
            yield f"{flag} does not divide the {shape.query_heads // heads} query heads per KV head"


def _of_batches(args: ServeArgs) -> Iterator[str]:
    tokens = args.whole("max-num-batched-tokens")
    sequences = args.whole("max-num-seqs")
    if tokens is not None and sequences is not None and tokens < sequences:
        yield (
            f"--max-num-batched-tokens={tokens} is below --max-num-seqs={sequences}: a "
            "step takes a token of each sequence; raise the first or lower the second"
        )


# Whether the weights that a GPU holds can be computed from those of the checkpoint.

_CHANGES_WEIGHTS = {
    "quantization": "may quantise the weights while they are loaded",
    "cpu-offload-gb": "keeps a part of the weights in the node's memory",
    "enable-eplb": "keeps several copies of experts",
    "load-format": "may load other weights than those of the checkpoint",
    "hf-overrides": "changes the model",
}
_PLAIN = ("bfloat16", "float16", "half")
_LOADED_AS_THEY_ARE = ("auto", "safetensors", "fastsafetensors", "runai_streamer")


def unknown_weights(shape: ModelShape, args: ServeArgs) -> str | None:
    """Return why the bytes of weights on a GPU can't be computed from the checkpoint's size.

    Returns None if they can: all GPUs of an engine then hold the same share.
    """
    harmless = {
        "quantization": (shape.weights_format,),
        "load-format": _LOADED_AS_THEY_ARE,
    }
    for flag, what in _CHANGES_WEIGHTS.items():
        if args.is_given(flag) and args.text(flag) not in harmless.get(flag, ()):
            return f"--{flag} {what}"
    if shape.weights_format not in (None, *FORMATS):
        return (
            f"benchrun does not know weights in the format {shape.weights_format}"
        )
    if shape.experts and (args.whole("data-parallel-size") or 1) > 1:
        return (
            "with data parallelism the experts are spread over the GPUs of all engines, but the "
            "other weights are not"
        )
    computed = args.text("dtype") or "auto"
    if (
        shape.weights_format is None
        and shape.dtype not in _PLAIN
        and computed != "float32"
    ):
        stored = shape.dtype or "a type that config.json does not say"
        return f"the weights are stored in {stored} and loaded in 16 bits"
    return None
