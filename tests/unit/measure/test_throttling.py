"""How often servers were stopped at their CPU limit, by what a cAdvisor on their node says."""

import pytest
from benchrun.measure import UnreadableMetrics, cpu_values, throttled_percent
from unit.measure.cadvisor_pages import ALONE, KUBELET, cadvisor_page
from unit.measure.records import sample


def read(page: str) -> dict[str, float | None]:
    return cpu_values(page, namespace="lab", pod="chat-server-x")


@pytest.mark.parametrize("labels", [KUBELET, ALONE])
def test_the_servers_own_container_is_read_and_no_other(labels: tuple[str, ...]) -> None:
    page = cadvisor_page(periods=200, throttled=30, labels=labels)
    assert read(page) == {"cpu_periods": 200.0, "cpu_throttled_periods": 30.0}


def test_a_container_without_a_limit_has_no_periods() -> None:
    page = cadvisor_page(periods=200, throttled=30, container=("lab", "another", "vllm"))
    assert read(page) == {"cpu_periods": None, "cpu_throttled_periods": None}


def test_another_page_is_unreadable() -> None:
    with pytest.raises(UnreadableMetrics):
        read("<html>")


def test_the_share_is_that_between_the_first_renewal_and_the_last() -> None:
    """The first sample may be older than the stage; values that were not renewed are shown again."""
    counted = [(100.0, 100.0), (200.0, 110.0), (200.0, 110.0), (300.0, 120.0), (400.0, 160.0), (400.0, 160.0)]
    shown = [sample(1000.0 + i, cpu_periods=p, cpu_throttled_periods=t) for i, (p, t) in enumerate(counted)]
    other = [sample(1000.5 + i, pod="b", cpu_periods=50.0 * i, cpu_throttled_periods=0.0) for i in range(4)]
    assert throttled_percent([*other, *shown]) == {"br-run-4a49acf8-server-x": 25.0, "b": 0.0}


@pytest.mark.parametrize("periods", [[], [100.0], [100.0, 100.0, 100.0], [100.0, 200.0]])
def test_figures_that_were_not_renewed_twice_say_nothing(periods: list[float]) -> None:
    assert (
        throttled_percent(sample(1000.0 + i, cpu_periods=p, cpu_throttled_periods=p) for i, p in enumerate(periods))
        == {}
    )
