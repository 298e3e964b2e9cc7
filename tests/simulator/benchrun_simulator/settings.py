"""The settings of one simulated server: plain values, resolved and checked by `arguments`."""

from dataclasses import dataclass, field
from pathlib import Path

from benchrun_simulator.kv_transfer import KvTransfer
from benchrun_simulator.pace import Disturbances, Timing

METRICS_MODES = ("normal", "none", "garbage", "endless", "http500", "old-names")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Deliberate misbehaviour; by default there is none."""

    fail_start: str | None = None
    """A name of `refusals.FAILING_STARTS`; happens when loading would have ended."""
    error_percent: float = 0.0
    """Share of completions answered with HTTP 500, spread evenly by count, as all shares here."""
    reject_percent: float = 0.0
    """Share of completions answered with HTTP 429, as by a gateway: the server's own counters know
    nothing of it."""
    canary_fails: int = 0
    """So many completions, from the first on, get HTTP 500."""
    truncate_after_tokens: int | None = None
    """Streams end with an error event after so many tokens, HTTP status 200 as in vLLM."""
    reset_after_tokens: int | None = None
    """Connections are cut after so many tokens."""
    early_stop_after_tokens: int | None = None
    """The end-of-sequence token comes as this one, unless the request says ignore_eos."""
    ignore_ignore_eos: bool = False
    """`early_stop_after_tokens` holds for those requests too."""
    output_percent: float = 100.0
    """All answers end after this share of the tokens asked for, whatever the request says."""
    drop_end_percent: float = 0.0
    """Share of streams that end without error, but without their last tokens, usage and end
    mark."""
    usage_percent: float = 100.0
    """What usage counts say, in percent of what is true; the server's own counters stay right."""
    die_after_requests: int | None = None
    """The process exits with code 1 at the end of this completion."""
    metrics: str = "normal"
    slow_metrics_seconds: float = 0.0
    metrics_fail_percent: float = 0.0
    """Share of scrapes answered with HTTP 500."""
    gauges_percent: float = 100.0
    """What the gauges of running and waiting requests say, in percent of what is true."""
    counters_fall_at_request: int | None = None
    """All `vllm:` counters and histograms begin anew when this completion comes."""
    restart_look_at_request: int | None = None
    """From this completion on the process says that it has started just then."""
    reset_fails: int = 0
    """So many resets of the prefix cache, from the first on, answer that they did not succeed."""
    reset_lies: bool = False
    """Resets of the prefix cache answer that they succeeded, and do nothing."""
    health_delay_seconds: float = 0.0
    """/health answers 503 for so long after the port opened."""
    log_noise_megabytes: float = 0.0
    """Log lines written at the start, in 10^6 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Traffic of other clients on this server; by default there is none."""

    requests_per_second: float = 0.0
    prompt_tokens: int = 64
    output_tokens: int = 16
    hits_percent: float = 0.0
    """Of every prompt, the share that the prefix cache holds as if others had sent it before, in
    whole blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one server."""

    engine: str
    """A name in `dialects.DIALECTS`: whose paths and metric names it has. All else is vLLM's."""
    model: str
    served_names: tuple[str, ...]
    root: str
    """Where /v1/models says that the model comes from: `model`, unless it serves another."""
    host: str
    port: int
    headless: bool
    """A worker of a server over several nodes: it loads, and answers nobody."""
    version: str
    api_keys: tuple[str, ...] = field(repr=False)
    """Guard /v1 when there are any."""
    development_mode: bool
    max_model_len: int
    max_sequences: int
    max_batched_tokens: int
    max_queued_requests: int | None
    max_queued_tokens: int | None
    stream_interval: int
    """Tokens a chunk, but for the first and the last."""
    block_size: int
    kv_tokens: int
    prefix_caching: bool
    kv_transfer: KvTransfer | None
    gpu_memory_utilization: float
    seed: int
    jitter_seconds: float
    timing: Timing
    disturbances: Disturbances
    prefill_serial: bool
    """Prefills share the engine and `max_batched_tokens`."""
    reasoning_tokens: int
    """Answers of chats begin with so many tokens of reasoning, unless the request turns it off."""
    thinks_anyway: bool
    """Requests can't turn it off."""
    ignores_schema: bool
    """Answers are words, whatever `response_format` says."""
    pooling: bool
    """It makes embeddings, and writes no texts (`--runner pooling`)."""
    adapters: tuple[str, ...]
    """Names of LoRA adapters, by which requests may ask for them."""
    preempted_request: int | None
    """This request is preempted once, after its first token, though there are blocks."""
    frontend_seconds: float
    """CPU time that each completion costs the process before the engine sees it."""
    template_tokens: int
    """Put before every prompt, as by a chat template that is not the client's."""
    way_seconds: float
    """Everything that is written leaves so much later, counted and logged as if it had left."""
    foreign: Foreign
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
