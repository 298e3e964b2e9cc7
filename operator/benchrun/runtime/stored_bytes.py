"""How many bytes of results the cluster stores in etcd, by namespace, as a metric."""

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest
from operator import itemgetter

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from benchrun.decide import RESULT_ROLES
from benchrun.observe import views

MAX_NAMESPACES = 100
"""Most namespaces with a series of their own: those with most bytes."""
OTHERS = "_others"  # No namespace can be called so.
MAX_OBJECT_BYTES = 1024 * 1024
"""Most bytes of a ConfigMap. Its annotation says how many it has, which anybody may change."""


class StoredBytes(Collector):
    """Bytes of records, timelines and result documents, kept up to date by the index."""

    def __init__(self) -> None:
        self._by_namespace = Counter[str]()

    def note(
        self, namespace: str, before: views.View | None, now: views.View | None
    ) -> None:
        """Record that an object has changed; None: it did not exist, or is gone."""
        if change := _bytes_of(now) - _bytes_of(before):
            self._by_namespace[namespace] += change
            if not self._by_namespace[namespace]:
                del self._by_namespace[namespace]

    def collect(self) -> Iterator[Metric]:
        """Yield the metric: a series for each of the largest namespaces, and one for all others."""
        found = GaugeMetricFamily(
            "benchrun_results_stored_bytes",
            "Bytes of records, timelines and result documents that etcd holds, packed.",
            labels=("namespace",),
        )
        largest = nlargest(
            MAX_NAMESPACES, self._by_namespace.items(), key=itemgetter(1)
        )
        for namespace, size in sorted(largest):
            found.add_metric((namespace,), size)
        if others := self._by_namespace.total() - sum(size for _, size in largest):
            found.add_metric((OTHERS,), others)
        yield found


def _bytes_of(view: views.View | None) -> int:
    if not isinstance(view, views.Child) or view.role not in RESULT_ROLES:
        return 0
    return min(max(view.stored_bytes, 0), MAX_OBJECT_BYTES)
