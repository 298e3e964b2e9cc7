"""What one simulated server was told to be: plain values, resolved and checked by `arguments`."""

from dataclasses import dataclass, field
from pathlib import Path

from benchrun_simulator.scheduler import Timing

METRICS_MODES = ("normal", "none", "garbage", "endless", "http500", "old-names")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Deliberate misbehaviour; the defaults misbehave in nothing."""

    fail_start: str | None = None
    """A name of `refusals.FAILING_STARTS`; happens when loading would have ended."""
    error_percent: float = 0.0
    """Share of completions answered with HTTP 500, spread evenly by count."""
    canary_fails: int = 0
    """So many completions, from the first on, get HTTP 500."""
    truncate_after_tokens: int | None = None
    """Streams end with an error event after so many tokens, HTTP status 200 as in vLLM."""
    reset_after_tokens: int | None = None
    """Connections are cut after so many tokens."""
    early_stop_after_tokens: int | None = None
    """The end-of-sequence token comes as this one, unless the request says ignore_eos."""
    die_after_requests: int | None = None
    """The process exits with code 1 at the end of this completion."""
    metrics: str = "normal"
    slow_metrics_seconds: float = 0.0
    health_delay_seconds: float = 0.0
    """/health answers 503 for so long after the port opened."""
    log_noise_megabytes: float = 0.0
    """Log lines written at the start, in 10^6 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One server."""

    model: str
    served_names: tuple[str, ...]
    host: str
    port: int
    version: str
    api_keys: tuple[str, ...] = field(repr=False)
    """Guard /v1 when there are any."""
    development_mode: bool
    max_model_len: int
    max_sequences: int
    max_batched_tokens: int
    """Reported only."""
    block_size: int
    kv_tokens: int
    prefix_caching: bool
    gpu_memory_utilization: float
    seed: int
    jitter_seconds: float
    timing: Timing
    load_seconds: float
    log_stats: bool
    prompt_tokens_details: bool
    request_log: Path | None
    tokenizer_folder: Path
    faults: Faults
    declared: dict[str, object]
    """The flags that were given, by name, as vLLM's log tells them; no secrets."""

    @property
    def kv_blocks(self) -> int:
        return self.kv_tokens // self.block_size
