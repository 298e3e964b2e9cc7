"""Why SGLang failed, from its log.

The log has no known phrases for the duration of the parts of a start, or for kernels that were
compiled while serving.
"""

import re

from benchrun_client.engines import library_causes
from benchrun_client.engines.engine import LogCause

PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]+\d+)*\] ?")
"""Instant and ranks: `[2026-07-27 08:54:43 DP0 TP1] `."""
CAUSES = (
    LogCause(
        "UsageError",
        "SGLang refused its arguments",
        "Correct spec.server.args for this version of SGLang (python3 -m sglang.launch_server "
        "--help in the image lists its flags).",
        library_causes.USAGE,
        exit_code=2,  # exit code of argparse
    ),
    LogCause(
        "OutOfGPUMemory",
        "The GPU ran out of memory",
        "Use a larger GPU, more of them (--tp-size), a smaller or quantized model, or lower "
        "--mem-fraction-static.",
        library_causes.OUT_OF_GPU_MEMORY,
    ),
    library_causes.NOT_REACHED,  # before the hub's own refusals: a proxy also answers 401 and 403
    library_causes.GATED,  # before not found, whose words mention gating
    library_causes.REFUSED,
    library_causes.not_found({}),
)
