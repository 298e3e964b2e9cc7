"""Runs `vllm bench serve` for each line of standard input, a JSON list of its arguments.

vLLM is imported once: that takes 13 s of CPU, and would disturb what is measured. Its code is not
changed. Each result goes to standard output as one line of JSON; what vLLM prints goes to standard
error.
"""

import argparse
import asyncio
import json
import sys
from contextlib import redirect_stdout
from importlib import import_module


def main() -> None:
    """Serve the lines until standard input ends."""
    serve = import_module("vllm.benchmarks.serve")
    parser = argparse.ArgumentParser()
    serve.add_cli_args(parser)
    print("ready", flush=True)
    for line in sys.stdin:
        with redirect_stdout(sys.stderr):
            result = asyncio.run(
                serve.main_async(parser.parse_args(json.loads(line)))
            )
        print(json.dumps(result, default=str), flush=True)


if __name__ == "__main__":
    main()
