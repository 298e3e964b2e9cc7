"""Why SGLang failed, and how long its start took, from its log.

The log has no known phrases for kernels that were compiled while serving.
"""

import re
from itertools import islice

from benchrun_client.engines import library_causes
from benchrun_client.engines.engine import LogCause, StartupPhases

PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d((?: [A-Z]+\d+)*)\] ?")
"""Instant and ranks: `[2026-07-27 08:54:43 DP0 TP1] `."""
_SOURCE = "SGLang 0.5.23, its source"

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
        "KVCacheTooSmall",
        "The KV cache is too small",
        "Raise --mem-fraction-static, use a larger GPU, more of them (--tp-size), or a smaller or "
        "quantized model.",
        {
            "not enough memory. please try to increase --mem-fraction-static": _SOURCE
        },
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

# Lines about the start, of each rank, in seconds:
#
#     [... TP0] Load weight end. elapsed=12.34 s, type=LlamaForCausalLM, avail mem=..
#     [... TP0] Capture target decode CUDA graph end. elapsed=5.67 s, mem usage=..
#
# Graphs of several kinds add up; older releases write "Time elapsed: 5.67 s". The ranks wait for
# the slowest.

_SECONDS = r"([0-9]{1,9}(?:\.[0-9]{1,9})?) s\b"
_LINES = {
    "load": re.compile(rf"Load weight end\. elapsed={_SECONDS}"),
    "graphs": re.compile(
        rf"Capture .{{0,60}}graph end\. (?:elapsed=|Time elapsed: ){_SECONDS}"
    ),
}
_MAX_LINES = 1000
_MAX_LINE_CHARS = 300


def startup_phases(log: str) -> StartupPhases:
    """Return the phases found in a log: loading weights, and capturing graphs as the warm-up."""
    found: dict[str, dict[str, float]] = {name: {} for name in _LINES}
    lines = (line[:_MAX_LINE_CHARS] for line in log.split("\n"))
    for line in islice((each for each in lines if " end. " in each), _MAX_LINES):
        ranks = PREFIX.match(line)
        for name, pattern in _LINES.items():
            if (told := pattern.search(line)) is not None:
                rank = "" if ranks is None else ranks[1]
                found[name][rank] = found[name].get(rank, 0.0) + float(told[1])
    load, graphs = (max(of.values(), default=None) for of in found.values())
    return StartupPhases(load=load, warm_up=graphs)
