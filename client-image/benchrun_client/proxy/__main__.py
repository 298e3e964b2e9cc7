"""`python -m benchrun_client.proxy --engine=VLLM --prefill=URL --decode=URL`.

Exit codes: 2 for a flag that is not valid, 1 if the port could not be opened, 128 + n on a signal.
"""

import asyncio
import gc
import resource
import sys
from typing import NoReturn

from benchrun_client.processes import end_on_signals
from benchrun_client.proxy.server import Arguments, parse, running_proxy


def main() -> NoReturn:
    end_on_signals()
    arguments = parse(sys.argv[1:])
    # A stream holds two sockets; many machines allow 1024 by default.
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    try:
        asyncio.run(_serve(arguments))
    except OSError as error:
        print(
            f"port {arguments.port}: {error.strerror or error}",
            file=sys.stderr,
            flush=True,
        )
    raise SystemExit(1)


async def _serve(arguments: Arguments) -> NoReturn:
    async with running_proxy(arguments) as proxy:
        print(f"the proxy answers on port {proxy.port}", flush=True)
        # What is there now stays: no collection of garbage need look at it again.
        gc.freeze()
        await proxy.readiness.watch()


if __name__ == "__main__":
    main()
