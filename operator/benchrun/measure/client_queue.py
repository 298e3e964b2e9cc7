"""Latencies with the wait in the client, for an open loop under a cap: there a request is due before it may be sent.

Without that wait, a server that can't keep up looks fast: the slower it answers, the longer the client holds back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import add

from benchrun_client.contract import RequestColumns, StageRecord

from benchrun.measure.cells import Pools
from benchrun.measure.percentiles import Distribution

QUEUED_TTFT = "ttft_including_client_queue"
QUEUED_E2EL = "e2el_including_client_queue"
QUEUE_TIME = "client_queue_time"
"""As in the keys of metrics; the last two are vLLM's own names."""


def queue_pools(records: Sequence[StageRecord]) -> Pools:
    """Of all answered requests, in microseconds, by these names."""
    return {name: queue_pool(records, name) for name in _COLUMNS}


def queue_pool(records: Sequence[StageRecord], name: str) -> Distribution:
    """One of them."""
    columns = (record.requests for record in records)
    return Distribution.of(chain.from_iterable(compress(_COLUMNS[name](each), each.ok) for each in columns))


def _since_due(column: Callable[[RequestColumns], Iterable[int]]) -> Callable[[RequestColumns], Iterable[int]]:
    return lambda requests: map(add, column(requests), requests.queue_us)


_COLUMNS: Mapping[str, Callable[[RequestColumns], Iterable[int]]] = {
    QUEUE_TIME: lambda requests: requests.queue_us,
    QUEUED_TTFT: _since_due(lambda requests: requests.ttft_us),
    QUEUED_E2EL: _since_due(lambda requests: requests.e2el_us),
}
