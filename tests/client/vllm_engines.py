"""Starts vLLM's engine for each model named on standard input and tells what its KV cache holds.

Runs in the Python that has vLLM. Input: JSON, a list of models with the flags of `vllm serve`.
Output: one line of JSON a model. Engines in one process: of the minute that a server takes to
start, most goes into importing vLLM three times."""

import json
import sys
from collections.abc import Sequence

from vllm.distributed import cleanup_dist_env_and_memory
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor import Executor


def cache_of(model: str, flags: Sequence[str]) -> dict[str, int]:
    """What `vllm serve` with these flags would tell in vllm:cache_config_info."""
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(
        ["--model", model, "--enforce-eager", *flags]
    )
    config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config(
        UsageContext.OPENAI_API_SERVER
    )
    core = EngineCore(config, Executor.get_class(config), log_stats=False)
    told = config.cache_config
    found = {
        "num_gpu_blocks": told.num_gpu_blocks,
        "kv_cache_size_tokens": told.kv_cache_size_tokens,
    }
    core.shutdown()
    cleanup_dist_env_and_memory()
    return found


def main() -> None:
    """One line a model."""
    for model, flags in json.load(sys.stdin):
        print(json.dumps(cache_of(model, flags)), flush=True)


if __name__ == "__main__":
    main()
