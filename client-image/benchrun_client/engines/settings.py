"""The settings that engines have in common, under names that do not depend on the engine."""

from enum import Enum


class EngineSetting(Enum):
    """A setting of a server. The enum's value is its description in reports."""

    MAX_RUNNING = "most running requests"  # Requests that may run at once, on one engine process.
    MAX_TOKENS = "longest sequence"  # Tokens of a prompt and its answer.
    # Most prompt and output tokens computed in one step.
    STEP_TOKENS = "tokens of a step"
    KV_CACHE_TOKENS = "tokens of the KV cache"  # Of one engine process.
    # The unit in which KV cache is given out and shared.
    BLOCK_TOKENS = "tokens of a block"
    # Whether the KV cache of prompts' beginnings is used again.
    PREFIX_CACHE = "prefix cache"
    # Whether a prompt may be computed in several steps.
    CHUNKED_PREFILL = "chunked prefill"
    MEMORY_SHARE = "share of the GPU's memory"  # From 0 to 1, of weights and KV cache together.
    KV_CACHE_BYTES = "bytes of the KV cache"  # On each GPU, in place of a share.
    TENSOR_PARALLEL = "tensor parallel"  # GPUs over which each layer is spread.
    # Groups of GPUs over which the layers are spread.
    PIPELINE_PARALLEL = "pipeline parallel"
    DATA_PARALLEL = "data parallel"  # Engine processes, each with requests and a cache of its own.
    # Whether experts are spread over the GPUs whole.
    EXPERT_PARALLEL = "expert parallel"
    LOGS_REQUESTS = "logs requests"
    CONFIG_FILE = "file with flags"
