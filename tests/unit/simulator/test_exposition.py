"""The text format, read back by Prometheus' own parser."""

from benchrun_simulator.exposition import Histogram, counter, gauge, process_metrics
from prometheus_client.parser import text_string_to_metric_families


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_labels_of_any_content_come_back_as_they_went() -> None:
    odd = 'a "quoted"\\path\nline'
    assert values(gauge("x", "about", [({"name": odd}, 1.5)])) == {("x", (("name", odd),)): 1.5}


def test_a_counter_carries_its_suffix_and_its_creation() -> None:
    text = counter("x", "about", [({}, 3)], created=1.75e9)
    assert values(text) == {("x_total", ()): 3.0, ("x_created", ()): 1.75e9}


def test_buckets_are_cumulative_and_bounds_inclusive() -> None:
    histogram = Histogram("h", "about", (1, 2.5))
    for value in (0.5, 1.0, 2.5, 9.0):
        histogram.observe(value)
    read = values(histogram.render({}, created=1.0))
    assert [read["h_bucket", (("le", bound),)] for bound in ("1.0", "2.5", "+Inf")] == [2.0, 3.0, 4.0]
    assert (read["h_count", ()], read["h_sum", ()]) == (4.0, 13.0)


def test_the_process_tells_when_it_started() -> None:
    assert values(process_metrics(1234.5))["process_start_time_seconds", ()] == 1234.5
