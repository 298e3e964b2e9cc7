"""`benchrun kv-cache MODEL`: show how large a model's KV cache is, and how much fits.

It needs no cluster and no GPU.
"""

import argparse
import json
from collections.abc import Sequence

from benchrun_client.engines import ENGINES
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.cli import console_tables, errors, model_folder, shared_options
from benchrun.report.exit_codes import PASSED
from benchrun.sizing import (
    SIZED,
    Sizing,
    beyond_context,
    block_pool,
    cache_layers,
    changes,
    demands,
    engine_of,
    serve_args,
    sizing_of,
    unknown_of_weights,
)


def show_sizing(
    console: Console, name: str, sizing: Sizing, notes: Sequence[str]
) -> None:
    engine = sizing.engine
    shape = sizing.shape
    layer_count = sum(row.count for row in sizing.rows)
    about = (
        f"{shape.model_type or 'a model'}, KV cache in {engine.cache_dtype}, {layer_count} layers "
        "with a KV cache"
    )
    console.print(Text.assemble((f"{name}: ", "bold"), about))
    console.print(_layer_table(sizing))
    for sentence in (_token_sentence(sizing), *notes):
        console.print(sentence, markup=False, soft_wrap=True)
    if sizing.fit is not None:
        console.print()
        _show_fit(console, sizing, sizing.fit)
    console.print()
    console.print(_length_table(sizing))


def as_json(sizing: Sizing, notes: Sequence[str]) -> dict[str, object]:
    """Return what `show_sizing` prints as a JSON object, with amounts of memory in bytes."""
    engine = sizing.engine
    fit = sizing.fit
    return {
        "modelType": sizing.shape.model_type,
        "cacheType": engine.cache_dtype,
        "gpusPerEngine": engine.gpus,
        "engines": engine.data_parallel,
        "layers": [
            {
                "kind": row.layer.kind,
                "layers": row.count,
                "kvHeads": row.layer.heads,
                "numbersPerHead": row.layer.values,
                "windowTokens": row.layer.window_tokens,
                "bytesPerTokenLayerAndGpu": row.token_bytes,
            }
            for row in sizing.rows
        ],
        "bytesPerToken": sizing.token_bytes,
        "bytesPerTokenAndGpu": sizing.token_bytes_per_gpu,
        "bytesPerTokenBeyondWindow": sizing.far_token_bytes,
        "blockTokens": engine.block_tokens,
        "blockBytesPerGpu": sizing.pool.block_bytes,
        "blocks": None if fit is None else fit.blocks,
        "cacheBytesPerGpu": None
        if fit is None
        else fit.blocks * sizing.pool.block_bytes,
        "maxModelTokens": engine.max_tokens,
        "cacheTokens": sizing.tokens,
        "longestTokens": None
        if fit is None
        else fit.longest(engine.max_tokens or block_pool.UNLIMITED_TOKENS),
        "lengths": [
            {
                "tokens": tokens,
                "bytesPerGpu": sizing.pool.sequence_bytes(tokens),
                "sequences": None if fit is None else fit.sequences(tokens),
            }
            for tokens in sizing.lengths
        ],
        "notes": list(notes),
    }


def _token_sentence(sizing: Sizing) -> str:
    gpus = sizing.engine.gpus
    memory = serve_args.memory
    each = (
        f", {memory(sizing.token_bytes_per_gpu)} on each of {gpus} GPUs"
        if gpus > 1
        else ""
    )
    beyond = (
        f"; beyond the sliding windows {memory(sizing.far_token_bytes)}"
        if sizing.drops
        else ""
    )
    return f"One token takes {memory(sizing.token_bytes)}{each}{beyond}."


def _show_fit(console: Console, sizing: Sizing, fit: block_pool.Fit) -> None:
    engine = sizing.engine
    memory = sizing.memory
    longest = fit.longest()
    if memory is not None:
        amounts = (
            memory.total,
            memory.usable,
            memory.weights,
            memory.overhead,
            memory.cache,
        )
        total, usable, weights, overhead, cache = map(serve_args.memory, amounts)
        product = f"Memory of a GPU: {total} x {memory.utilization:g} = {usable}"
        rest = f"less weights {weights}, less overhead {overhead}: {cache} for the KV cache."
        console.print(f"{product}, {rest}", markup=False, soft_wrap=True)
    if engine.data_parallel > 1:
        console.print(
            f"These figures are for one engine of {engine.data_parallel}.",
            markup=False,
        )
    table = console_tables.empty_table("", "")
    if sizing.tokens is not None:
        figure = f"vLLM's kv_cache_size_tokens, at {engine.max_tokens:,} a sequence"
        table.add_row("tokens that fit", f"{sizing.tokens:,}  ({figure})")
    table.add_row("longest context", _longest(longest, engine.max_tokens))
    block = f"{engine.block_tokens} tokens and {serve_args.memory(sizing.pool.block_bytes)} a GPU"
    table.add_row("blocks", f"{fit.blocks:,} of {block}")
    console.print(table)


def _longest(longest: int, limit: int | None) -> str:
    if limit is None or longest == 0:
        return f"{longest:,} tokens" if longest else "none: nothing fits"
    if longest >= limit:
        return f"{limit:,} tokens, all that the model or --max-model-len allows"
    return f"{longest:,} tokens; vLLM will not start with --max-model-len {limit:,}"


def _layer_table(sizing: Sizing) -> Table:
    table = console_tables.empty_table(
        *(
            "layers",
            "stored",
            "KV heads x values",
            "per token and layer",
            "per token",
        ),
        numbers=("layers", "per token and layer", "per token"),
    )
    for row in sizing.rows:
        token_bytes = row.token_bytes * sizing.engine.tensor_parallel
        sizes = (
            serve_args.memory(token_bytes),
            serve_args.memory(row.count * token_bytes),
        )
        table.add_row(
            str(row.count),
            _kept(row.layer),
            f"{row.layer.heads} x {row.layer.values}",
            *sizes,
        )
    return table


def _kept(layer: cache_layers.Layer) -> str:
    words = {
        "Full": "every token",
        "Latent": "one latent vector for every token",
        "Index": "one index key for every token",
    }
    return words.get(layer.kind) or f"the last {layer.window_tokens:,} tokens"


def _length_table(sizing: Sizing) -> Table:
    gpus = sizing.engine.gpus
    fit = sizing.fit
    headers = (
        "sequence of",
        "takes",
        *(("on each GPU",) if gpus > 1 else ()),
        *(("fit at once",) if fit else ()),
    )
    table = console_tables.empty_table(*headers, numbers=headers)
    for tokens in sizing.lengths:
        each = sizing.pool.sequence_bytes(tokens)
        cells = [f"{tokens:,} tokens", serve_args.memory(each * gpus)]
        cells += [serve_args.memory(each)] if gpus > 1 else []
        cells += [f"{fit.sequences(tokens):,}"] if fit is not None else []
        table.add_row(*cells)
    return table


DEFAULT_OVERHEAD_BYTES = 2 * serve_args.GIB
"""Bytes that a mid-sized model needs for activations, CUDA graphs and communication. After these
and the weights, vLLM logs the rest as "Available KV cache memory"."""


def add_memory_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    amount = shared_options.valid(serve_args.bytes_of)
    add(
        "--gpu-memory",
        type=amount,
        metavar="SIZE",
        help="memory of one GPU, for example 80GiB",
    )
    weights = (
        "size of the weights of the whole model, if no safetensors files are next "
        "to config.json"
    )
    add("--weights", type=amount, metavar="SIZE", help=weights)
    beside = (
        "memory that a GPU needs besides weights and KV cache: activations, CUDA "
        "graphs (default: 2GiB, an estimate)"
    )
    add(
        "--overhead",
        type=amount,
        metavar="SIZE",
        default=DEFAULT_OVERHEAD_BYTES,
        help=beside,
    )


def _tokens(text: str) -> int:
    number = serve_args.tokens_of(text)
    if number < 1:
        raise ValueError(f"{text} is not above 0")
    return number


SUMMARY = "compute the size of a model's KV cache from its config.json"
DESCRIPTION = """\
Compute the size of a model's KV cache as vLLM does: bytes a token, tokens that fit, \
the longest context, sequences at a length.

After --serve come the flags of `vllm serve`, verbatim; those that change the cache are counted. \
What fits is shown
where the memory is given: by --gpu-memory (and --weights, where no weight files are next to \
config.json), or by
--kv-cache-memory-bytes among the flags."""
EPILOG = """\
for example:
  benchrun kv-cache models/Qwen2.5-32B-Instruct --length 131072
  benchrun kv-cache config.json --gpu-memory 48GiB --weights 61GiB --serve --tensor-parallel-size 4

exit codes: 0 sized; 1 the model can't be read, or nothing is known about its attention."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        help=(
            "folder of the model, its config.json, or the id of a model in the "
            "local cache of the Hugging Face hub"
        ),
    )
    add_memory_options(parser)
    length = (
        "length of a sequence in tokens, prompt and answer together; may be "
        "repeated (default: several, up to the longest)"
    )
    tokens = shared_options.valid(_tokens)
    parser.add_argument(
        "--length",
        action="append",
        type=tokens,
        default=[],
        metavar="TOKENS",
        help=length,
    )
    shared_options.add_output(parser)
    flags = "the rest of the line are flags of `vllm serve`, unchanged"
    parser.add_argument(
        "--serve", nargs=argparse.REMAINDER, default=[], metavar="FLAG", help=flags
    )


def run(options: argparse.Namespace, console: Console) -> int:
    sizing, unknown = _sizing(options)
    beyond = beyond_context(
        serve_args.ServeArgs.of(options.serve, ENGINES[SIZED]),
        sizing.shape,
        is_allowed=False,
    )
    notes = (
        *changes(sizing),
        *([beyond[1]] if beyond is not None else []),
        *unknown,
    )
    if options.output == "json":
        print(json.dumps(as_json(sizing, notes), indent=2))
    else:
        show_sizing(console, options.model, sizing, notes)
    return PASSED


def _sizing(options: argparse.Namespace) -> tuple[Sizing, list[str]]:
    """Return the sizing for the options, and a list of what is unknown. Raises CommandError."""
    path = model_folder.config_path(options.model)
    shape = model_folder.shape_at(path)
    args = serve_args.ServeArgs.of(options.serve, ENGINES[SIZED])
    try:
        demands.demand(shape, args)
        engine = engine_of(args, shape, gpu_bytes=options.gpu_memory)
        weights = options.weights
        if weights is None:
            weights = model_folder.weights_beside(path)
        if (
            options.gpu_memory is not None
            and weights is None
            and engine.cache_bytes is None
        ):
            raise errors.CommandError(
                f"no weight files are next to {path}; give their size with --weights"
            )
        memory = block_pool.memory_of(
            engine, options.gpu_memory, weights=weights, overhead=options.overhead
        )
        why = demands.unknown_weights(shape, args) if memory is not None else None
        sized = sizing_of(
            shape,
            engine,
            memory=memory if why is None else None,
            lengths=options.length,
        )
        unknown = [
            f"It is not known {each}."
            for each in unknown_of_weights(shape, args, has_gpus=True)
            if demands.model_changed_by(args) is None
        ]
        return sized, [
            *unknown,
            *([] if why is None else [f"What fits is not known: {why}."]),
        ]
    except demands.Refused as error:
        raise errors.CommandError(f"vLLM will not start: {error}") from error
    except (serve_args.UnreadableValue, cache_layers.UnknownCacheType) as error:
        raise errors.CommandError(str(error)) from error
