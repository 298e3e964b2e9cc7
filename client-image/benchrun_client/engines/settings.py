"""The settings that engines have in common, under names that do not depend on the engine.

Each says what else changes in a measurement where it differs between two servers.
"""

from enum import Enum
from typing import Literal, Self

Effect = Literal["Answers", "Speed", "Memory"]
"""What a setting can change: what the model answers, how fast it does, the memory it takes."""


class EngineSetting(Enum):
    """A setting of a server. The enum's value is its description in reports."""

    effects: tuple[Effect, ...]
    """What servers may differ in where they differ in this setting; empty: it says nothing of a
    server that runs, and is not compared."""

    def __new__(cls, description: str, *effects: Effect) -> Self:
        """Make a setting from its description, with its effects as an attribute."""
        member = object.__new__(cls)
        member._value_ = description
        member.effects = effects
        return member

    # The type of the weights that are not quantized, and of what is computed with them.
    DTYPE = "dtype", "Answers", "Speed", "Memory"
    QUANTIZATION = "quantization", "Answers", "Speed", "Memory"  # Of the weights.
    KV_CACHE_DTYPE = "type of the KV cache", "Answers", "Speed", "Memory"
    # Whether the KV cache of prompts' beginnings is used again.
    PREFIX_CACHE = "prefix cache", "Speed"
    # Whether a prompt may be computed in several steps.
    CHUNKED_PREFILL = "chunked prefill", "Speed"
    # Whether kernels are launched one by one, without graphs and without compilation.
    EAGER = "eager execution", "Speed", "Memory"
    # How tokens are guessed before they are computed. Guesses are checked, so answers stay.
    SPECULATION = "speculation", "Speed", "Memory"
    # Requests that may run at once, on one engine process.
    MAX_RUNNING = "most running requests", "Speed", "Memory"
    # Most prompt and output tokens computed in one step.
    STEP_TOKENS = "tokens of a step", "Speed", "Memory"
    # Tokens of a prompt and its answer.
    MAX_TOKENS = "longest sequence", "Speed", "Memory"
    # Of one engine process.
    KV_CACHE_TOKENS = "tokens of the KV cache", "Speed", "Memory"
    # The unit in which KV cache is given out and shared.
    BLOCK_TOKENS = "tokens of a block", "Speed"
    # From 0 to 1, of weights and KV cache together.
    MEMORY_SHARE = "share of the GPU's memory", "Speed", "Memory"
    KV_CACHE_BYTES = "bytes of the KV cache", "Speed", "Memory"  # On each GPU.
    # GPUs over which each layer is spread.
    TENSOR_PARALLEL = "tensor parallel", "Speed", "Memory"
    # Groups of GPUs over which the layers are spread.
    PIPELINE_PARALLEL = "pipeline parallel", "Speed", "Memory"
    # Engine processes, each with requests and a cache of its own.
    DATA_PARALLEL = "data parallel", "Speed", "Memory"
    # Whether experts are spread over the GPUs whole.
    EXPERT_PARALLEL = "expert parallel", "Speed", "Memory"
    ATTENTION_KERNELS = "attention backend", "Speed"
    EXPERT_KERNELS = "experts' backend", "Speed"
    LOGS_REQUESTS = "logs requests", "Speed"
    CONFIG_FILE = "file with flags"
