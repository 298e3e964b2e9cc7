"""vLLM 0.32's metric families, filled from what the simulated engine does.

Names, label sets and bucket bounds are vLLM's (`vllm/v1/metrics/loggers.py`, `buckets.py`). So is
the timing of updates: first-token and inter-token times are observed at once, all others when a
request finishes, and an aborted request counts its tokens but no request.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from benchrun_simulator.exposition import Histogram, Labels, Series, counter, gauge
from benchrun_simulator.sequence import Sequence

LATENCY = (
    0.3,
    0.5,
    0.8,
    1,
    1.5,
    2,
    2.5,
    5,
    10,
    15,
    20,
    30,
    40,
    50,
    60,
    120,
    240,
    480,
    960,
    1920,
    7680,
)
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
)
INTER_TOKEN = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
)
PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)
PARAMS_N = (1, 2, 5, 10, 20)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
ALWAYS_ZERO = (
    *("mm_cache_queries", "mm_cache_hits"),
    *(
        "estimated_flops_per_gpu",
        "estimated_read_bytes_per_gpu",
        "estimated_write_bytes_per_gpu",
    ),
)
"""Counters of parts that the simulator has not."""
FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")


@dataclass(slots=True, kw_only=True)
class Served:
    """The instants at which one request's tokens really left, in seconds on the server's clock."""

    sequence: Sequence
    max_tokens: int
    first_token_at: float = 0.0
    last_token_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The present values of the gauges and of the scheduler's own counters."""

    running: float
    waiting: float
    rejections: Mapping[str, int]
    """Requests that the admission limits refused, by reason."""
    kv_cache_usage: float
    prefix_queries: int
    prefix_hits: int
    external_queries: int
    external_hits: int
    """Tokens that other servers were asked for, and those that they handed over."""
    preemptions: int


class EngineMetrics:
    """A collector of events that renders the text of all `vllm:` families."""

    def __init__(
        self,
        *,
        model_name: str,
        max_model_len: int,
        cache_config: Labels,
        consumes: bool,
        created: float,
    ) -> None:
        self._model = {"model_name": model_name}
        self._labels = {"engine": "0", "model_name": model_name}
        self._cache_config = {"engine": "0", **cache_config}
        self._consumes = consumes
        self._created = created
        self._prompt_tokens = self._cached_tokens = self._fetched_tokens = (
            self._generation_tokens
        ) = 0
        self._finished: Counter[str] = Counter()
        tokens = _one_two_five(max_model_len)
        named = Histogram
        self._first_token = named(
            "vllm:time_to_first_token_seconds", "Time to first token.", FIRST_TOKEN
        )
        self._inter_token = named(
            "vllm:inter_token_latency_seconds", "Inter-token latency.", INTER_TOKEN
        )
        self._per_token = named(
            "vllm:request_time_per_output_token_seconds",
            "Mean of a request.",
            INTER_TOKEN,
        )
        self._e2e = named(
            "vllm:e2e_request_latency_seconds", "Sealed to last token.", LATENCY
        )
        self._queue = named(
            "vllm:request_queue_time_seconds", "Time spent waiting.", LATENCY
        )
        self._inference = named(
            "vllm:request_inference_time_seconds",
            "Admission to last token.",
            LATENCY,
        )
        self._prefill = named(
            "vllm:request_prefill_time_seconds",
            "Admission to first token.",
            LATENCY,
        )
        self._decode = named(
            "vllm:request_decode_time_seconds", "First to last token.", LATENCY
        )
        self._prompt = named(
            "vllm:request_prompt_tokens", "Prompt tokens of a request.", tokens
        )
        self._generated = named(
            "vllm:request_generation_tokens",
            "Generated tokens of a request.",
            tokens,
        )
        self._most_generated = named(
            "vllm:request_max_num_generation_tokens",
            "Longest of a request's n answers.",
            tokens,
        )
        self._max_tokens = named(
            "vllm:request_params_max_tokens", "The max_tokens parameter.", tokens
        )
        self._preempted = named(
            "vllm:request_num_preemptions", "Preemptions of a request.", PREEMPTIONS
        )
        self._computed = named(
            "vllm:request_prefill_kv_computed_tokens",
            "Prompt tokens not cached.",
            tokens,
        )
        self._step = named(
            "vllm:iteration_tokens_total", "Tokens of an engine step.", STEP_TOKENS
        )
        self._n = named("vllm:request_params_n", "The n parameter.", PARAMS_N)

    def token(self, served: Served, *, now: float) -> None:
        """Count one token that has just left."""
        sequence = served.sequence
        self._generation_tokens += not sequence.pooled
        if sequence.generated == 1:
            self._prompt_tokens += len(sequence.prompt)
            self._cached_tokens += sequence.cached_tokens
            self._fetched_tokens += sequence.fetched_tokens
            self._first_token.observe(now - sequence.arrived_at)
            served.first_token_at = now
        else:
            self._inter_token.observe(now - served.last_token_at)
        served.last_token_at = now

    def step(self, tokens: int) -> None:
        """Observe one step of the engine that computed so many tokens, prompts included."""
        if tokens:
            self._step.observe(tokens)

    def finished(self, served: Served, *, reason: str) -> None:
        """Observe everything that is known only at the end of a request."""
        sequence = served.sequence
        scheduled_at = (
            sequence.scheduled_at
            if sequence.scheduled_at is not None
            else sequence.arrived_at
        )
        decode = served.last_token_at - served.first_token_at
        self._finished[reason] += 1
        self._e2e.observe(served.last_token_at - sequence.arrived_at)
        self._queue.observe(scheduled_at - sequence.arrived_at)
        self._prefill.observe(served.first_token_at - scheduled_at)
        self._decode.observe(decode)
        self._inference.observe(served.last_token_at - scheduled_at)
        self._per_token.observe(
            decode / (sequence.generated - 1) if sequence.generated > 1 else 0.0
        )
        self._prompt.observe(len(sequence.prompt))
        generated = 0 if sequence.pooled else sequence.generated
        self._generated.observe(generated)
        self._most_generated.observe(generated)
        self._max_tokens.observe(served.max_tokens)
        self._n.observe(1)
        self._preempted.observe(sequence.preemptions)
        self._computed.observe(sequence.computed_tokens)

    def render(self, levels: Levels) -> str:
        """Return all families as Prometheus text."""
        return "".join(
            (self._gauges(levels), self._counters(levels), self._histograms())
        )

    def _gauges(self, levels: Levels) -> str:
        awake = {"awake": 1, "weights_offloaded": 0, "discard_all": 0}
        waiting = {"capacity": levels.waiting, "deferred": 0}
        only = self._only
        return "".join(
            (
                gauge(
                    "vllm:num_requests_running",
                    "Requests in execution.",
                    only(levels.running),
                ),
                gauge(
                    "vllm:num_requests_waiting",
                    "Requests waiting.",
                    only(levels.waiting),
                ),
                gauge(
                    "vllm:num_requests_waiting_by_reason",
                    "Waiting, by reason.",
                    self._by("reason", waiting),
                ),
                gauge(
                    "vllm:engine_sleep_state",
                    "Engine sleep state.",
                    self._by("sleep_state", awake),
                ),
                gauge(
                    "vllm:kv_cache_usage_perc",
                    "KV-cache usage, 1 = all.",
                    only(levels.kv_cache_usage),
                ),
                gauge(
                    "vllm:cache_config_info",
                    "The CacheConfig.",
                    [(self._cache_config, 1)],
                ),
                self._fetching(),
            )
        )

    def _fetching(self) -> str:
        """Return the gauge of requests that wait for blocks, which is always 0.

        Empty if this server fetches no blocks.
        """
        if not self._consumes:
            return ""
        stages = dict.fromkeys(
            ("waiting_to_start", "in_progress", "completed_waiting"), 0
        )
        return gauge(
            "vllm:num_requests_kv_fetch_by_stage",
            "Waiting for blocks.",
            self._by("stage", stages),
        )

    def _counters(self, levels: Levels) -> str:
        known = self._cached_tokens + self._fetched_tokens
        reasons = {reason: self._finished[reason] for reason in FINISHED_REASONS}
        sources = {
            "local_compute": self._prompt_tokens - known,
            "local_cache_hit": self._cached_tokens,
            "external_kv_transfer": self._fetched_tokens,
        }
        tiers = {"device": levels.prefix_hits, "host": 0, "p2p": 0, "disk": 0}
        tiers["external_unspecified"] = levels.external_hits
        families: tuple[tuple[str, str, list[Series]], ...] = (
            (
                "prefix_cache_queries",
                "Tokens looked up in the prefix cache.",
                self._only(levels.prefix_queries),
            ),
            (
                "prefix_cache_hits",
                "Tokens found in the prefix cache.",
                self._only(levels.prefix_hits),
            ),
            (
                "external_prefix_cache_queries",
                "Tokens asked of others.",
                self._only(levels.external_queries),
            ),
            (
                "external_prefix_cache_hits",
                "Tokens had from others.",
                self._only(levels.external_hits),
            ),
            ("num_preemptions", "Preemptions.", self._only(levels.preemptions)),
            (
                "prompt_tokens",
                "Prefill tokens processed.",
                self._only(self._prompt_tokens),
            ),
            (
                "prompt_tokens_by_source",
                "Prompt tokens by source.",
                self._by("source", sources),
            ),
            ("prompt_tokens_cached", "Cached prompt tokens.", self._only(known)),
            (
                "prompt_tokens_cached_by_source",
                "Cached prompt tokens by tier.",
                self._by("source", tiers),
            ),
            (
                "generation_tokens",
                "Generation tokens processed.",
                self._only(self._generation_tokens),
            ),
            (
                "request_success",
                "Finished requests.",
                self._by("finished_reason", reasons),
            ),
        )
        untouched = tuple(
            (name, "Not simulated.", self._only(0)) for name in ALWAYS_ZERO
        )
        rejections: list[Series] = [
            ({**self._model, "reason": key}, n)
            for key, n in levels.rejections.items()
        ]
        refused = (
            (
                "admission_rejections",
                "Requests refused by a queue limit.",
                rejections,
            ),
        )
        return "".join(
            counter(f"vllm:{name}", text, series, created=self._created)
            for name, text, series in families + untouched + refused
        )

    def _histograms(self) -> str:
        families = (
            *(
                self._first_token,
                self._inter_token,
                self._per_token,
                self._e2e,
                self._queue,
                self._inference,
            ),
            *(
                self._prefill,
                self._decode,
                self._prompt,
                self._generated,
                self._max_tokens,
                self._preempted,
            ),
            *(self._computed, self._most_generated, self._step, self._n),
        )
        return "".join(
            family.render(self._labels, created=self._created)
            for family in families
        )

    def _only(self, value: float) -> list[Series]:
        return [(self._labels, value)]

    def _by(self, label: str, values: Mapping[str, float]) -> list[Series]:
        return [
            ({**self._labels, label: key}, value) for key, value in values.items()
        ]


OLD_NAMES = {
    "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
    "vllm:prefix_cache_": "vllm:gpu_prefix_cache_",
    "vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
}
"""Names of 0.12 and later, and what they were called before."""


def with_old_names(text: str) -> str:
    """Rename families to their names in vLLM before 0.12."""
    for new, old in OLD_NAMES.items():
        text = text.replace(new, old)
    return text


def _one_two_five(largest: int) -> list[float]:
    bounds: list[float] = []
    exponent = 0
    while True:
        for mantissa in (1, 2, 5):
            bound = mantissa * 10**exponent
            if bound > largest:
                return bounds
            bounds.append(bound)
        exponent += 1
