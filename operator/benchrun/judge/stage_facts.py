"""The expected load of a stage, and what its requests show; computed once for all rules."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from operator import sub

from benchrun_client import contract
from benchrun_client.contract import RequestColumns, ServerEdge, StageRecord

from benchrun import measure
from benchrun.api import (
    BenchmarkRunSpec,
    CachePolicy,
    LoadPoint,
    Sample,
    ServerStatus,
    datasets_of,
)
from benchrun.judge.cache_hits import CacheHits, cache_hits
from benchrun.judge.thresholds import Thresholds
from benchrun.plan import (
    answering_args,
    client_fields,
    cpu_limits,
    model_path,
    role_replicas,
    served_name,
)


@dataclass(frozen=True, slots=True)
class ExpectedStage:
    """What the spec says about the stages of a load point, from the load to the servers."""

    load: contract.Load
    api: contract.Api
    ignore_eos: bool
    cache_policy: CachePolicy
    scrape_interval_seconds: float
    through_service: bool = False
    """Whether requests go through a Service. Its pods were listed when the run began; other pods
    may join later."""
    through_gateway: bool = False
    """Whether requests go through a gateway, to servers whose metrics are listed apart."""
    # Whether prompts are random words, in whole or in part.
    random_text: bool = False
    offline: bool = False
    """Whether the engine runs without an API server. Then the gaps between tokens are not known,
    and the engine gets all requests of a load at once."""
    servers: Mapping[str, int] = field(default_factory=dict)
    """Servers that the run starts, by role; empty for an endpoint."""
    cpu_limited: Collection[
        str
    ] = ()  # Roles whose servers have a CPU limit in the spec.
    served_name: str = ""  # Model name in the requests.
    thinking: bool | None = None
    """Whether requests turn thinking on or off; None if they leave it to the chat template."""
    texts: int = 1
    """Texts of a request; a server counts each as a request."""
    has_schema: bool = False
    """Whether requests give a JSON schema for their answers."""
    synthetic_acceptance: bool = False
    """Whether the run's servers are told to accept draft tokens at random."""
    model: str | None = None
    """Hub id or path in the arguments of the run's servers; None for an endpoint."""


def expected_stage(spec: BenchmarkRunSpec, load_point: LoadPoint) -> ExpectedStage:
    """Return what the spec says about the stages of a load point."""
    workload = next(w for w in spec.workloads if w.name == load_point.workload)
    fields = client_fields(workload) or contract.NO_FIELDS
    return ExpectedStage(
        load=load_point.load,
        api=workload.api,
        ignore_eos=workload.ignore_eos,
        cache_policy=spec.measurement.cache_policy,
        scrape_interval_seconds=float(spec.measurement.scrape_interval_seconds),
        random_text=any(
            dataset.single is not None and dataset.single.has_random_words
            for dataset in datasets_of(workload, spec.workloads)
        ),
        offline=spec.offline is not None,
        servers=role_replicas(spec),
        cpu_limited=cpu_limits(spec),
        served_name=served_name(spec.model),
        model=model_path(spec.model) if spec.endpoint is None else None,
        thinking=fields.thinking,
        texts=fields.texts_a_request,
        has_schema=fields.answer_schema is not None,
        synthetic_acceptance=spec.started is not None
        and spec.engine.accepts_by_lot(answering_args(spec)),
        through_service=spec.endpoint is not None
        and spec.endpoint.service_ref is not None
        and spec.endpoint.metrics is None,
        through_gateway=spec.endpoint is not None
        and spec.endpoint.metrics is not None,
    )


# Figures in samples that keep their value from one stage to the next.
GPU_STATES = (
    "gpu_xid",
    "gpu_memory_errors",
)
THROUGHPUT_PARTS = 20
MIN_THROUGHPUT_PARTS = 6
"""Least number of parts. Without the first and the last, four are left; fewer can't show their
noise."""
REQUESTS_A_PART = 5
# Of the requests that servers and client report: else the means of both are not comparable.
COUNTS_AGREE_PERCENT = 1.0


@dataclass(frozen=True)
class StageFacts:
    """A measured stage with what is computed from it.

    A failed request counts as in flight until it fails, and does not count in any other figure.
    """

    record: StageRecord
    expected: ExpectedStage
    thresholds: Thresholds = field(default_factory=Thresholds)
    windows: tuple[
        measure.Window, ...
    ] = ()  # The operator's samples of the servers during the stage, by role.
    servers: Sequence[ServerStatus] = ()  # One entry per role, from the status.

    @property
    def load(self) -> contract.Load:
        """Return the load of the stage."""
        return self.expected.load

    @property
    def id(self) -> str:
        """Return the id of the stage."""
        return self.record.stage_id

    @property
    def requests(self) -> RequestColumns:
        """Return the requests of the record as columns, in order of sending."""
        return self.record.requests

    @property
    def edges(self) -> Sequence[ServerEdge]:
        """Return the servers' counters before and after the stage."""
        return self.record.servers

    @property
    def samples(self) -> Sequence[Sample]:
        """Return the samples of all servers."""
        return [sample for window in self.windows for sample in window.samples]

    @cached_property
    def gpus(self) -> Mapping[tuple[str, str], Sequence[float]]:
        """Return the values of each of `GPU_STATES` in order of time, by server and figure.

        A value that stays the same is listed once.
        """
        found = defaultdict[tuple[str, str], list[float]](list)
        for sample in self.samples:
            for name in GPU_STATES:
                if (value := getattr(sample, name)) is not None and found[
                    sample.pod, name
                ][-1:] != [value]:
                    found[sample.pod, name].append(value)
        return found

    @property
    def most_running(self) -> float | None:
        """Return the most requests that ran at once in any sample; None if unknown.

        All servers of a role count together. A request whose texts all run counts as one.
        """
        running = (
            sample.running
            for window in self.windows
            for sample in measure.windows.together(window)
        )
        texts = max(measure.request_figures.known(running), default=None)
        return None if texts is None else texts / self.expected.texts

    @property
    def seconds(self) -> float:
        """Return the time from the first request to the last answer, in seconds."""
        return measure.request_figures.duration_seconds(self.record)

    @cached_property
    def due_us(self) -> Sequence[int]:
        """Return when each request was due, in microseconds; a cap may have delayed its sending."""
        return list(map(sub, self.requests.start_us, self.requests.queue_us))

    @cached_property
    def since_due(self) -> RequestColumns:
        """Return the requests with latencies as figures of the steady part count them."""
        return contract.sent_when_due(self.requests, self.load)

    @cached_property
    def flight(self) -> measure.InFlight:
        """Return the requests in flight over time, each from the moment when it was sent."""
        return measure.in_flight(self.requests)

    @cached_property
    def demand(self) -> measure.InFlight:
        """Return the requests over time that are in flight or that the client's cap holds back."""
        return (
            measure.in_flight(self.requests, with_client_queue=True)
            if self.load.capped
            else self.flight
        )

    @cached_property
    def expected_in_flight(self) -> float | None:
        """Return how many requests are in flight on average if the load is as the spec says.

        For an open loop it is the cap. Return None if nothing bounds the requests in flight.
        """
        return self.load.mean_in_flight(self.e2el_us)

    @cached_property
    def plateau(self) -> measure.Plateau | measure.NoPlateau:
        """Return the part of the stage with the full expected load, or why there is none."""
        return measure.find_plateau(self.requests, self.flight, self.load)

    @cached_property
    def cache_hits(self) -> CacheHits | None:
        """Return the hits to expect of the prefix cache; None if they are not known."""
        return cache_hits(self.record, self.servers)

    @property
    def steady_part(self) -> measure.Plateau | None:
        """Return the part of the stage that latencies are taken from.

        Return None if the load has no steady part, or if the stage is too short for one.
        """
        where = self.plateau
        return (
            where
            if isinstance(where, measure.Plateau) and where.is_steady
            else None
        )

    @cached_property
    def mean_in_flight(self) -> float:
        """Return the mean requests in flight over the whole stage, by Little's law.

        Return 0 if nothing was answered.
        """
        return sum(self.e2el_us) / 1e6 / self.seconds if self.seconds > 0 else 0.0

    @cached_property
    def answered(self) -> Sequence[int]:
        """Return the positions of the answered requests in the record's columns."""
        return list(compress(range(len(self.requests.ok)), self.requests.ok))

    @cached_property
    def ttft_us(self) -> Sequence[int]:
        """Return the TTFT of answered requests in microseconds, in order of sending."""
        return list(compress(self.requests.ttft_us, self.requests.ok))

    @property
    def mean_ttft_ms(self) -> float | None:
        """Return the mean TTFT of answered requests in milliseconds; None if there are none."""
        return (
            sum(self.ttft_us) / len(self.ttft_us) / 1000 if self.ttft_us else None
        )

    @cached_property
    def server_ttft_ms(self) -> float | None:
        """Return the mean TTFT that the servers measured, in milliseconds.

        Return None if the servers counted other requests than those that the client got answers to,
        such as each of several texts of a request. For a disaggregated server this is the proxy's
        TTFT, which includes the transfer between the roles.
        """
        answered = len(self.answered)
        total, count = (
            measure.counters.rise(self.edges, each)
            for each in (measure.counters.TTFT_SUM, measure.counters.TTFT_COUNT)
        )
        if measure.counters.proxy_edges(self.record):
            total, count = measure.counters.proxy_ttft(self.record)
        if (
            total is None
            or not count
            or abs(count - answered) > COUNTS_AGREE_PERCENT / 100 * answered
        ):
            return None
        return 1000 * total / count

    @cached_property
    def running_by_counters(self) -> float | None:
        """Return the mean number of running requests, computed from times by Little's law.

        No gauge is used. A request runs for the servers' own TTFT, less the time in their queue,
        and for the time that the client measured from the first token to the last. Return None if
        the servers counted other requests than those that the client got answers to, or behind a
        proxy.
        """
        queued, count = (
            measure.counters.rise(self.edges, each)
            for each in (
                measure.counters.QUEUE_TIME_SUM,
                measure.counters.QUEUE_TIME_COUNT,
            )
        )
        answered = len(self.answered)
        first_ms = self.server_ttft_ms
        is_unknown = (
            first_ms is None or queued is None or not count or self.seconds <= 0
        )
        if is_unknown or measure.counters.proxy_edges(self.record):
            return None
        if abs((count or 0) - answered) > COUNTS_AGREE_PERCENT / 100 * answered:
            return None
        after_us = sum(self.e2el_us) - sum(self.ttft_us)
        busy = (
            answered * (first_ms or 0.0) / 1000 - (queued or 0.0) + after_us / 1e6
        )
        return busy / self.seconds if busy > 0 else None

    @property
    def ttft_gap_ms(self) -> float | None:
        """Return mean TTFT at the client minus mean TTFT at the servers; None if one is unknown."""
        at_client = self.mean_ttft_ms
        at_server = self.server_ttft_ms
        return (
            None
            if at_client is None or at_server is None
            else at_client - at_server
        )

    @cached_property
    def mean_decode_ms(self) -> float | None:
        """Return the mean time from the first token to the last in milliseconds.

        Only answers with more than one token count; None if there are none.
        """
        rows = zip(self.e2el_us, self.ttft_us, self._tokens, strict=True)
        lasted = [e2el - ttft for e2el, ttft, tokens in rows if tokens > 1]
        return sum(lasted) / len(lasted) / 1000 if lasted else None

    @cached_property
    def e2el_us(self) -> Sequence[int]:
        """Return the E2EL of answered requests in microseconds, in order of sending."""
        return list(compress(self.requests.e2el_us, self.requests.ok))

    @cached_property
    def tpot_us(self) -> Sequence[float]:
        """Return the TPOT of answered requests in microseconds, in order of sending.

        Only requests with more than one token have it.
        """
        return measure.request_figures.known(
            measure.request_figures.request_values(
                self.requests, "tpot", failed=None
            )
        )

    @property
    def has_whole_answers(self) -> bool:
        """Return whether answers came as a whole and have no tokens (embeddings)."""
        return self.record.whole_answers is not None

    @cached_property
    def batches(self) -> Mapping[str, Sequence[float]]:
        """Return the figures in which repeats are compared, each as means of batches.

        Batches are in order of time; a figure without values has none.
        """
        latencies = {
            "meanTtftMs": []
            if self.has_whole_answers
            else compress(self.since_due.ttft_us, self.requests.ok),
            "meanTpotMs": self.tpot_us,
            "meanE2elMs": compress(self.since_due.e2el_us, self.requests.ok),
        }
        batches = {
            name: [mean / 1000 for mean in measure.batches.batch_means(list(us))]
            for name, us in latencies.items()
        }
        return {**batches, "outputTokensPerSecond": self._throughput_batches()}

    def _throughput_batches(self) -> list[float]:
        """Return output tokens a second in equal parts of the stage.

        The tokens of a request are counted at its end. The first part, in which most answers are
        still to come, and the last, in which they run out, are left out. Return an empty list if
        there are too few answers, or if the server counts no tokens.
        """
        parts = min(THROUGHPUT_PARTS, len(self.answered) // REQUESTS_A_PART)
        length = self.seconds / max(1, parts)
        if parts < MIN_THROUGHPUT_PARTS or length <= 0 or not self.counts_tokens:
            return []
        tokens = [0] * (parts + 1)
        starts = compress(self.requests.start_us, self.requests.ok)
        for start, e2el, count in zip(
            starts, self.e2el_us, self._tokens, strict=True
        ):
            tokens[min(parts, int((start + e2el) / 1e6 / length))] += count
        return [count / length for count in tokens[1 : parts - 1]]

    @property
    def sent_again(self) -> int:
        """Return how many requests were sent a second time, on a new connection.

        A server may have received such a request twice; it then counts the first one as aborted.
        """
        return 0 if self.record.streams is None else self.record.streams.reconnected

    @property
    def sent_texts(self) -> int:
        """Return how many requests a server counts if it gets all of the client's once."""
        return len(self.requests.ok) * self.expected.texts

    @property
    def counts_tokens(self) -> bool:
        """Return whether the server counted the tokens of its answers."""
        return measure.request_figures.counts_tokens(self.record)

    @cached_property
    def _tokens(self) -> Sequence[int]:
        return list(compress(self.requests.output_tokens, self.requests.ok))
