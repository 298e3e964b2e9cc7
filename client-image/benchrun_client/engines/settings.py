"""Names of what engines have in common, whatever each of them calls it."""

from enum import Enum


class Setting(Enum):
    """A setting of a server. The value describes it in reports."""

    MAX_RUNNING = "most running requests"  # Requests that may run at once, on one engine process.
    MAX_TOKENS = "longest sequence"  # Tokens of a prompt and its answer.
    STEP_TOKENS = (
        "tokens of a step"  # Most prompt and output tokens computed in one step.
    )
    KV_CACHE_TOKENS = "tokens of the KV cache"  # Of one engine process.
    BLOCK_TOKENS = (
        "tokens of a block"  # The unit in which KV cache is given out and shared.
    )
    PREFIX_CACHE = (
        "prefix cache"  # Whether the KV cache of prompts' beginnings is used again.
    )
    CHUNKED_PREFILL = (
        "chunked prefill"  # Whether a prompt may be computed in several steps.
    )
    MEMORY_SHARE = "share of the GPU's memory"  # From 0 to 1, of weights and KV cache together.
    KV_CACHE_BYTES = "bytes of the KV cache"  # On each GPU, in place of a share.
    TENSOR_PARALLEL = "tensor parallel"  # GPUs over which each layer is spread.
    PIPELINE_PARALLEL = (
        "pipeline parallel"  # Groups of GPUs over which the layers are spread.
    )
    DATA_PARALLEL = "data parallel"  # Engine processes, each with requests and a cache of its own.
    EXPERT_PARALLEL = (
        "expert parallel"  # Whether experts are spread over the GPUs whole.
    )
    LOGS_REQUESTS = "logs requests"
    CONFIG_FILE = "file with flags"
