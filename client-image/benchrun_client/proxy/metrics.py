"""The proxy's metrics in Prometheus text.

All names begin with `benchrun_proxy_`, except the metrics of the process itself.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, get_args

from benchrun_client.http_session import metric_family

Outcome = Literal[
    "ok",
    "refused",
    "prefill_error",
    "prefill_unreachable",
    "decode_error",
    "decode_unreachable",
    "broken",
    "client_gone",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ADDED_BOUNDS = (
    0.00025,
    0.0005,
    0.001,
    0.0015,
    0.002,
    0.003,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.5,
)
STEP_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
LAG_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
PREFIX = "benchrun_proxy_"


class Histogram:
    """A histogram in seconds; `bounds` are upper limits, inclusive, without +Inf."""

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self._name = PREFIX + name
        self._about = about
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def family(self) -> str:
        totals = list(accumulate(self._counts))
        buckets = zip([*map(str, self._bounds), "+Inf"], totals, strict=True)
        samples: dict[str, float] = {
            f'_bucket{{le="{bound}"}}': total for bound, total in buckets
        }
        return metric_family(
            self._name,
            "histogram",
            self._about,
            samples | {"_sum": self._sum, "_count": totals[-1]},
        )


class ProxyMetrics:
    def __init__(self) -> None:
        self._started_unix = time.time()
        self._outcomes: Counter[Outcome] = Counter()
        self.prefill = Histogram(
            "prefill_seconds",
            "Seconds from sending a request to prefill until the answer is read.",
            STEP_BOUNDS,
        )
        self.queue = Histogram(
            "queue_seconds",
            "Seconds that a request waits while --max-in-flight others are under way.",
            STEP_BOUNDS,
        )
        self.added = Histogram(
            "added_seconds",
            "Seconds that the proxy itself adds to a time to first token. They are the sum of "
            "three times: from receiving a request to sending it to prefill, from the answer of "
            "prefill to sending to decode, and from the first bytes of decode to writing them. The "
            "wait while --max-in-flight others are under way is not included.",
            ADDED_BOUNDS,
        )
        self.ttft = Histogram(
            "time_to_first_token_seconds",
            "Seconds from reading a completion to writing the first bytes of the "
            "answer. Before it is read, a completion may wait for the event loop: "
            "benchrun_proxy_loop_lag_seconds shows how long.",
            STEP_BOUNDS,
        )
        self.lag = Histogram(
            "loop_lag_seconds",
            "Seconds by which the event loop was late at ticks 20 ms apart.",
            LAG_BOUNDS,
        )

    def count(self, outcome: Outcome) -> None:
        self._outcomes[outcome] += 1

    def exposition(self, *, in_flight: int, queued: int) -> str:
        ended = {
            f'{{outcome="{outcome}"}}': self._outcomes[outcome]
            for outcome in OUTCOMES
        }
        about_ended = "Completions that have ended, by outcome."
        families = (
            metric_family(f"{PREFIX}requests_total", "counter", about_ended, ended),
            metric_family(
                f"{PREFIX}in_flight",
                "gauge",
                "Completions under way.",
                {"": in_flight},
            ),
            metric_family(
                f"{PREFIX}queued",
                "gauge",
                "Completions that wait because --max-in-flight others are under way.",
                {"": queued},
            ),
            *(
                each.family()
                for each in (
                    self.prefill,
                    self.queue,
                    self.added,
                    self.ttft,
                    self.lag,
                )
            ),
            metric_family(
                "process_cpu_seconds_total",
                "counter",
                "User and system CPU seconds of the proxy.",
                {"": time.process_time()},
            ),
            metric_family(
                "process_start_time_seconds",
                "gauge",
                "Unix time at which the process started, in seconds.",
                {"": self._started_unix},
            ),
        )
        return "".join(families)
