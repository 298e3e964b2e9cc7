"""`benchrun kv-cache MODEL`: how large the KV cache of a model is, and how much fits. Needs no cluster and no GPU."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console

from benchrun.cli.errors import CommandError
from benchrun.cli.memory_options import add_memory_options, memory_of, tokens
from benchrun.cli.model_folder import config_path, shape_at, weights_beside
from benchrun.cli.show_sizing import as_json, show_sizing
from benchrun.report.exit_codes import PASSED
from benchrun.sizing.cache_dtypes import UnknownCacheType
from benchrun.sizing.changes import changes
from benchrun.sizing.context import beyond_context
from benchrun.sizing.engine import engine_of
from benchrun.sizing.serve_args import ServeArgs, UnreadableValue
from benchrun.sizing.sizing import Sizing, sizing_of

DESCRIPTION = """\
Size a model's KV cache by vLLM's own arithmetic: bytes a token, tokens that fit, the longest context, sequences at a length.

After --serve come the flags of `vllm serve`, verbatim; those that change the cache are counted. What fits is told where
the memory is: by --gpu-memory (and --weights, where no weights lie beside config.json), or by --kv-cache-memory-bytes
among the flags."""
EPILOG = """\
for example:
  benchrun kv-cache models/Qwen2.5-32B-Instruct --length 131072
  benchrun kv-cache config.json --gpu-memory 48GiB --weights 61GiB --serve --tensor-parallel-size 4

exit codes: 0 told; 1 the model can't be read, or nothing is known about its attention."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "kv-cache",
        help="size a model's KV cache from its config.json",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="folder of the model, its config.json, or an id that the hub's local cache has")
    add_memory_options(parser)
    parser.add_argument(
        "--length",
        action="append",
        type=tokens,
        default=[],
        metavar="TOKENS",
        help="length of a sequence, prompt and answer; may be repeated (default: some, up to the longest)",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument(
        "--serve",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="FLAG",
        help="the rest of the line is flags of `vllm serve`, verbatim",
    )
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Size the model and show it. Raises CommandError."""
    sizing = _sizing(options)
    beyond = beyond_context(ServeArgs.of(options.serve), sizing.shape, is_allowed=False)
    notes = (*changes(sizing), *([beyond.sentence] if beyond is not None else []))
    if options.output == "json":
        print(json.dumps(as_json(sizing, notes), indent=2))
    else:
        show_sizing(console, options.model, sizing, notes)
    return PASSED


def _sizing(options: argparse.Namespace) -> Sizing:
    path = config_path(options.model)
    shape = shape_at(path)
    try:
        engine = engine_of(ServeArgs.of(options.serve), shape, gpu_bytes=options.gpu_memory)
        weights = options.weights or weights_beside(path)
        if options.gpu_memory is not None and weights is None and engine.cache_bytes is None:
            raise CommandError(f"no weights lie beside {path}; give their size with --weights")
        memory = memory_of(options, engine, weights=weights)
        return sizing_of(shape, engine, memory=memory, lengths=options.length)
    except (UnreadableValue, UnknownCacheType) as error:
        raise CommandError(str(error)) from error
