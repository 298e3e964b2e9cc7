"""Why `trtllm-serve` failed, from its log.

A line begins with instant, rank and level: `[07/08/2025-19:47:15] [TRT-LLM] [RANK 1] [E] ...`. The
phrases come from the source, but for that prefix, which is of a real log.
"""

import re

from benchrun_client.engines import library_causes
from benchrun_client.engines.engine import LogCause

_SOURCE = "TensorRT-LLM 1.4.0rc4, its source"
_CLICK = "click 8"

_HEAD = r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[TRT-LLM\] (?:\[RANK \d{1,5}\] )?\[[A-Z]\]"
PREFIX = re.compile(rf"^{_HEAD} ?")
ERROR_LINES = re.compile(
    rf"^(?:Error: |{_HEAD.replace('[A-Z]', 'E')} (?!Traceback )"
    r"|(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception): )"
)
"""A complaint of click, a line of level E, or a Python exception."""
CAUSES = (
    LogCause(
        "UsageError",
        "This release of TensorRT-LLM has no --set, with which benchrun turns its metrics on",
        "Use an image of 1.4.0rc4 or later. An older one that runs with return_perf_metrics and "
        "enable_iter_perf_stats in its --config file can be measured as an endpoint.",
        {"no such option: --set": _SOURCE},
        exit_code=2,
    ),
    LogCause(
        "UsageError",
        "trtllm-serve refused its arguments",
        "Correct spec.server.args for this version of TensorRT-LLM (trtllm-serve serve --help in "
        "the image lists its flags, which have underscores).",
        {
            "error: no such option": _CLICK,
            "error: missing argument": _CLICK,
            "error: invalid value for": _CLICK,
            "error: got unexpected extra argument": _CLICK,
            "error: option ": _CLICK,
        },
        exit_code=2,  # exit code of click
    ),
    LogCause(
        "OutOfGPUMemory",
        "The GPU ran out of memory",
        "Use a larger GPU, more of them (--tp_size), a smaller or quantized model, or lower "
        "--max_batch_size, --max_num_tokens, --max_seq_len or --free_gpu_memory_fraction.",
        {
            "executor creation failed due to insufficient gpu memory": _SOURCE,
            **library_causes.OUT_OF_GPU_MEMORY,
        },
    ),
    library_causes.NOT_REACHED,  # before the hub's own refusals: a proxy also answers 401 and 403
    library_causes.GATED,  # before not found, whose words mention gating
    library_causes.REFUSED,
    library_causes.not_found({}),
    LogCause(  # parsed, then refused: exit code 1 and the text of pydantic or a ValueError
        "InvalidArgument",
        "TensorRT-LLM refused a value",
        "Correct spec.server.args or spec.model.",
        {
            "validation error for": "pydantic 2",
            "validation errors for": "pydantic 2",
        },
        exit_code=1,
        error_begins="ValueError: ",
    ),
)
