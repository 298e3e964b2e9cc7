"""The scheduler on the event loop's clock: one timer, tokens handed out as they fall due.

Tokens are never early. They are late by the timer's resolution (at most 1 ms) and by whatever else
the loop is doing, but never by what came before: the scheduler's instants do not drift.
"""

import asyncio
from collections.abc import Callable

from benchrun_simulator.admission import Admission
from benchrun_simulator.engine_metrics import EngineMetrics, Levels, Served
from benchrun_simulator.kv_transfer import KvTransfer
from benchrun_simulator.prefix_cache import KvCache
from benchrun_simulator.scheduler import Scheduler, Totals
from benchrun_simulator.sequence import Sequence

OnToken = Callable[[Served], None]


class Engine:
    """An engine that runs sequences and calls back on each token."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        cache: KvCache,
        admission: Admission,
        transfer: KvTransfer | None,
        new_metrics: Callable[[], EngineMetrics],
        gauges_percent: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._scheduler = scheduler
        self._cache = cache
        self._admission = admission
        self._transfer = transfer
        self._loop = loop
        self._new_metrics = new_metrics
        self._metrics = new_metrics()
        self._gauges_factor = gauges_percent / 100
        self._live: dict[Sequence, tuple[Served, str, OnToken]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def check_admission(self) -> None:
        """Raise HTTP 503 if the server's own limits let no further request in."""
        if self._admission.limited:
            queued = sum(
                len(sequence.prompt)
                for sequence in self._live
                if not sequence.generated
            )
            self._admission.check(unfinished=len(self._live), queued_tokens=queued)

    def run(
        self, sequence: Sequence, *, max_tokens: int, reason: str, on_token: OnToken
    ) -> None:
        """Start generating; `on_token` is called once for each token.

        The finished request is counted under `reason`.
        """
        self._live[sequence] = (
            Served(sequence=sequence, max_tokens=max_tokens),
            reason,
            on_token,
        )
        # Admission counts from arrival: time spent parsing belongs to the simulator, not to the
        # imitated engine.
        self._scheduler.submit(sequence, now=sequence.arrived_at)
        self._arm()

    def abort(self, sequence: Sequence) -> None:
        """Free what a sequence holds, because its client has gone.

        Tokens already counted stay counted.
        """
        if self._live.pop(sequence, None) is not None:
            self._scheduler.abort(sequence, now=self._loop.time())
            self._arm()

    def reset_prefix_cache(self) -> bool:
        """Empty the prefix cache; return False, and change nothing, while any block is held."""
        return self._cache.reset()

    def begin_counters_anew(self) -> None:
        """Set counters and histograms to zero, as a restart does; running sequences continue."""
        self._metrics = self._new_metrics()
        self._scheduler.totals = Totals()
        self._admission.begin_anew()

    def exposition(self) -> str:
        """Return all `vllm:` metric families as text."""
        totals = self._scheduler.totals
        return self._metrics.render(
            Levels(
                running=self._scheduler.running * self._gauges_factor,
                waiting=self._scheduler.waiting * self._gauges_factor,
                rejections=self._admission.rejections,
                kv_cache_usage=self._cache.usage,
                prefix_queries=totals.prefix_queries,
                prefix_hits=totals.prefix_hits,
                external_queries=totals.external_queries if self._transfer else 0,
                external_hits=totals.external_hits,
                preemptions=totals.preemptions,
            )
        )

    def _arm(self) -> None:
        due = self._scheduler.next_due()
        if self._timer is not None:
            if self._timer.when() == due:
                return
            self._timer.cancel()
        self._timer = (
            None if due is None else self._loop.call_at(due, self._deliver)
        )

    def _deliver(self) -> None:
        self._timer = None
        step_tokens = 0
        for sequence, _ in self._scheduler.advance(self._loop.time()):
            served, reason, on_token = self._live[sequence]
            if sequence.finished:
                del self._live[sequence]
            step_tokens += (
                1 if sequence.generated > 1 else 1 + sequence.computed_tokens
            )
            if (
                self._transfer is not None
                and sequence.generated == 1
                and sequence.number
            ):
                self._transfer.prefilled(
                    sequence.prompt, block_size=self._cache.block_size
                )
            self._metrics.token(served, now=self._loop.time())
            on_token(served)
            if sequence.finished:
                self._metrics.finished(served, reason=reason)
        self._metrics.step(step_tokens)
        self._arm()
