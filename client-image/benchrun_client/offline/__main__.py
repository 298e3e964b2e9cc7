"""`python -m benchrun_client.offline [--port N] FLAGS`: vLLM's engine behind a small HTTP server.

It takes vLLM's own flags. Exit codes: 2 for a flag that vLLM does not know, 1 if the engine could
not be loaded or died; 128 + n on a signal.
"""

import importlib
import importlib.metadata
import os
import sys
import traceback
from typing import Any, NoReturn

from benchrun_client.failures import error_text, shorten
from benchrun_client.http_session import BackgroundLoop
from benchrun_client.offline.engine_server import (
    EngineServer,
    NoTimesKept,
    OfflineAnswer,
    OfflineLoad,
    generated,
)
from benchrun_client.processes import end_on_signals

PORT = 8000
CANARY_TOKENS = 2
MAX_ERROR_CHARACTERS = 1000
_REFUSALS = (
    ValueError,
    TypeError,
    NoTimesKept,
)
"""Exceptions with which vLLM refuses a request; after any other the process ends."""


def main() -> NoReturn:
    end_on_signals()
    arguments = _parser().parse_args()
    engine_args = importlib.import_module(
        "vllm.engine.arg_utils"
    ).EngineArgs.from_cli_args(arguments)
    llm = importlib.import_module("vllm").LLM(**vars(engine_args))
    # The first pass through the engine may compile: it is healthy once it has answered.
    generated(
        llm, OfflineLoad(prompts=("say anything",), output_tokens=(CANARY_TOKENS,))
    )
    names = arguments.served_model_name
    server = EngineServer(
        version=importlib.metadata.version("vllm"),
        model=str(
            names[0] if isinstance(names, list) else names or arguments.model
        ),
        context_tokens=int(llm.llm_engine.model_config.max_model_len),
        metrics=importlib.import_module("prometheus_client").generate_latest,
    )
    bound = BackgroundLoop().run(
        server.start(address="0.0.0.0", port=arguments.port)
    )
    print(f"the engine answers on port {bound}", flush=True)
    while True:
        load, done = server.jobs.get()
        done.set_result(_answer(llm, load))


def _parser() -> Any:
    arguments = importlib.import_module("vllm.engine.arg_utils")
    try:
        parsers = importlib.import_module("vllm.utils.argparse_utils")
    except ImportError:
        # Before 0.12 it is in the package itself.
        parsers = importlib.import_module("vllm.utils")
    parser = parsers.FlexibleArgumentParser(prog="vllm (offline)")
    parser.add_argument("--port", type=int, default=PORT)
    return arguments.EngineArgs.add_cli_args(parser)


def _answer(llm: Any, load: OfflineLoad) -> OfflineAnswer:
    try:
        return OfflineAnswer(times=generated(llm, load))
    except _REFUSALS as error:
        return OfflineAnswer(error=shorten(error_text(error), MAX_ERROR_CHARACTERS))
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
