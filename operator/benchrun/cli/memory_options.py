"""What a command is told about the memory of a GPU."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchrun.sizing.amounts import GIB, bytes_of, tokens_of
from benchrun.sizing.engine import Engine
from benchrun.sizing.fit import Memory

DEFAULT_OVERHEAD_BYTES = 2 * GIB
"""Activations, CUDA graphs and communication of a mid-sized model. vLLM's log line "Available KV cache memory" tells the
true figure: what is missing there is this."""


def add_memory_options(parser: argparse.ArgumentParser) -> None:
    """`--gpu-memory`, `--weights` and `--overhead`."""
    parser.add_argument("--gpu-memory", type=amount, metavar="SIZE", help="memory of one GPU, for example 80GiB")
    parser.add_argument(
        "--weights",
        type=amount,
        metavar="SIZE",
        help="size of the whole model's weights, where no safetensors files lie beside config.json",
    )
    parser.add_argument(
        "--overhead",
        type=amount,
        metavar="SIZE",
        default=DEFAULT_OVERHEAD_BYTES,
        help="what a GPU holds beside weights and KV cache: activations, CUDA graphs (default: 2GiB, a guess)",
    )


def memory_of(options: argparse.Namespace, engine: Engine, *, weights: int | None) -> Memory | None:
    """The memory of one GPU; None where it or the weights are not known."""
    if options.gpu_memory is None or weights is None:
        return None
    share = -(-weights // engine.gpus)
    return Memory(total=options.gpu_memory, utilization=engine.utilization, weights=share, overhead=options.overhead)


def amount(text: str) -> int:
    """An amount of memory, as an argument."""
    return _argument(bytes_of, text)


def tokens(text: str) -> int:
    """A number of tokens above 0, as an argument."""
    number = _argument(tokens_of, text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def _argument(read: Callable[[str], int], text: str) -> int:
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
