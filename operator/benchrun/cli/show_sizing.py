"""A sizing on a terminal, and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.sizing.amounts import memory as amount
from benchrun.sizing.fit import UNLIMITED_TOKENS, Fit
from benchrun.sizing.layers import Layer
from benchrun.sizing.sizing import Sizing


def show_sizing(console: Console, name: str, sizing: Sizing, notes: Sequence[str]) -> None:
    """Layers first, then one token, then what is to be said of it, then what fits."""
    engine, shape = sizing.engine, sizing.shape
    layers = sum(row.count for row in sizing.rows)
    about = f"{shape.model_type or 'a model'}, KV cache in {engine.cache_dtype}, {layers} layers that keep one"
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
    """The same, with amounts in bytes."""
    engine, fit = sizing.engine, sizing.fit
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
        "cacheBytesPerGpu": None if fit is None else fit.blocks * sizing.pool.block_bytes,
        "maxModelTokens": engine.max_tokens,
        "cacheTokens": sizing.tokens,
        "longestTokens": None if fit is None else fit.longest(engine.max_tokens or UNLIMITED_TOKENS),
        "lengths": [
            {"tokens": row.tokens, "bytesPerGpu": row.bytes_per_gpu, "sequences": row.sequences}
            for row in sizing.lengths
        ],
        "notes": list(notes),
    }


def _token_sentence(sizing: Sizing) -> str:
    beyond = f"; beyond the windows {amount(sizing.far_token_bytes)}" if sizing.drops else ""
    return f"One token takes {amount(sizing.token_bytes)}{_each(sizing, sizing.token_bytes_per_gpu)}{beyond}."


def _each(sizing: Sizing, per_gpu: float) -> str:
    gpus = sizing.engine.gpus
    return f", {amount(per_gpu)} on each of {gpus} GPUs" if gpus > 1 else ""


def _show_fit(console: Console, sizing: Sizing, fit: Fit) -> None:
    engine, memory = sizing.engine, sizing.memory
    if memory is not None:
        console.print(
            f"Memory of a GPU: {amount(memory.total)} x {memory.utilization:g} = {amount(memory.usable)}, less weights "
            f"{amount(memory.weights)}, less overhead {amount(memory.overhead)}: {amount(memory.cache)} for the KV cache.",
            markup=False,
            soft_wrap=True,
        )
    if engine.data_parallel > 1:
        console.print(f"The figures are those of one engine; there are {engine.data_parallel}.", markup=False)
    table = _table("", "")
    longest = fit.longest()
    if sizing.tokens is not None:
        table.add_row(
            "tokens that fit", f"{sizing.tokens:,}  (vLLM's kv_cache_size_tokens, at {engine.max_tokens:,} a sequence)"
        )
    table.add_row("longest context", _longest(longest, engine.max_tokens))
    table.add_row(
        "blocks", f"{fit.blocks:,} of {engine.block_tokens} tokens and {amount(sizing.pool.block_bytes)} a GPU"
    )
    console.print(table)


def _longest(longest: int, limit: int | None) -> str:
    if limit is None or longest == 0:
        return f"{longest:,} tokens" if longest else "none: nothing fits"
    if longest >= limit:
        return f"{limit:,} tokens, all that the model or --max-model-len allows"
    return f"{longest:,} tokens; vLLM will not start with --max-model-len {limit:,}"


def _layer_table(sizing: Sizing) -> Table:
    table = _table("layers", "keep", "KV heads x numbers", "a token and layer", "all of them", numbers=(0, 3, 4))
    for row in sizing.rows:
        table.add_row(
            str(row.count),
            _kept(row.layer),
            f"{row.layer.heads} x {row.layer.values}",
            amount(row.token_bytes * sizing.engine.tensor_parallel),
            amount(row.count * row.token_bytes * sizing.engine.tensor_parallel),
        )
    return table


def _kept(layer: Layer) -> str:
    words = {"Full": "every token", "Latent": "a latent vector of every token", "Index": "an index key of every token"}
    return words.get(layer.kind) or f"the last {layer.window_tokens:,} tokens"


def _length_table(sizing: Sizing) -> Table:
    known = sizing.fit is not None
    gpus = sizing.engine.gpus
    headers = ("sequence of", "takes", *(("on each GPU",) if gpus > 1 else ()), *(("fit at once",) if known else ()))
    table = _table(*headers, numbers=range(len(headers)))
    for row in sizing.lengths:
        cells = [f"{row.tokens:,} tokens", amount(row.bytes_per_gpu * gpus)]
        cells += [amount(row.bytes_per_gpu)] if gpus > 1 else []
        cells += [f"{row.sequences:,}"] if row.sequences is not None else []
        table.add_row(*cells)
    return table


def _table(*headers: str, numbers: range | tuple[int, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(headers))
    for place, header in enumerate(headers):
        table.add_column(header, justify="right" if place in numbers else "left", overflow="fold")
    return table
