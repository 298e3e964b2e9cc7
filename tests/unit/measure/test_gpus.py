"""Whose GPUs a page tells of, and what they do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from benchrun.api import Sample
from benchrun.judge.result_row import role_figures
from benchrun.measure import GpuFigures, Timeline, UnreadableMetrics, Window, decode, encode, gpu_figures, gpu_values
from unit.measure.gpu_pages import Gpu, gpu_page
from unit.measure.records import sample

OURS = Gpu()
THEIRS = Gpu(number=7, watts=700.0, millijoules=9_000, memory_mib=80_000, clock_mhz=300, pod="another")


def read(*gpus: Gpu) -> Sample:
    return of_gpus(**gpu_values(gpu_page(*gpus), namespace="lab", pod="chat-server-x"))


def of_gpus(**figures: float | None) -> Sample:
    known: dict[str, Any] = figures
    return Sample(at=0, role="", pod="", **known)


def test_one_gpu() -> None:
    found = read(OURS)
    assert (found.gpu_watts, found.gpu_memory_mib, found.sm_clock_mhz) == (412.5, 71_234, 1980)
    assert found.gpu_joules == pytest.approx(196_764.132)


def test_power_and_energy_add_up_memory_is_the_most_and_clocks_are_averaged() -> None:
    second = Gpu(number=1, watts=87.5, millijoules=236_000_000, memory_mib=9, clock_mhz=1000)
    found = read(OURS, second)
    assert (found.gpu_watts, found.gpu_memory_mib, found.sm_clock_mhz) == (500.0, 71_234, 1490)
    assert found.gpu_joules == pytest.approx(432_764.132)


def test_gpus_of_other_pods_are_left_out() -> None:
    assert read(THEIRS, OURS, Gpu(number=6, pod=None)) == read(OURS)


def test_a_pod_of_the_same_name_elsewhere_is_another() -> None:
    with pytest.raises(UnreadableMetrics, match="no GPU of this pod"):
        read(replace(OURS, namespace="prod"))


def test_a_gpu_that_is_listed_for_two_containers_counts_once() -> None:
    assert read(OURS, replace(OURS, container="sidecar")) == read(OURS)


@pytest.mark.parametrize(
    "labels",
    [("exported_container", "exported_namespace", "exported_pod"), ("container_name", "pod_namespace", "pod_name")],
)
def test_pods_are_known_by_other_labels_too(labels: tuple[str, str, str]) -> None:
    assert read(replace(OURS, labels=labels)) == read(OURS)


def test_a_part_of_a_gpu_has_memory_of_its_own_and_no_power() -> None:
    parts = [replace(OURS, instance=number, memory_mib=mib) for number, mib in (("3", 9_000), ("4", 5_000))]
    assert read(*parts) == of_gpus(gpu_memory_mib=9_000)


def test_what_the_page_lacks_is_not_known() -> None:
    assert read(replace(OURS, millijoules=None, clock_mhz=None)) == of_gpus(gpu_watts=412.5, gpu_memory_mib=71_234)
    assert read(replace(OURS, watts=float("nan"))).gpu_watts is None


@pytest.mark.parametrize(
    ("why", "page"),
    [
        ("has no figures of GPUs", "# HELP up Up.\nup 1\n"),
        ("does not say which pods hold its GPUs", gpu_page(replace(OURS, pod=None), replace(THEIRS, pod=None))),
        ("no GPU of this pod", gpu_page(THEIRS)),
        ("not the text of a metrics endpoint", "<html>"),
    ],
)
def test_why_there_is_nothing(why: str, page: str) -> None:
    with pytest.raises(UnreadableMetrics, match=why):
        gpu_values(page, namespace="lab", pod="chat-server-x")


def window(*samples: Sample) -> Window:
    return Window("server", samples, (), expected=len(samples))


def readings(values: Iterable[tuple[float, dict[str, Any]]], *, pod: str = "a") -> list[Sample]:
    return [sample(at, pod=pod, **told) for at, told in values]


def counting(seconds: int, *, watts: float, renewed_every: int, first: float = 0.0, pod: str = "a") -> list[Sample]:
    """One reading a second; the page is renewed every so often."""
    return readings(
        (
            (first + t, {"gpu_joules": watts * (t // renewed_every) * renewed_every, "gpu_watts": 1.0})
            for t in range(seconds)
        ),
        pod=pod,
    )


@pytest.mark.parametrize("renewed_every", [1, 7, 30])
def test_energy_is_taken_from_one_renewal_to_another(renewed_every: int) -> None:
    found = gpu_figures([window(*counting(100, watts=350.0, renewed_every=renewed_every))])
    assert found.gpu_power_mean_watts == pytest.approx(350.0)


def test_without_two_renewals_it_is_what_was_drawn() -> None:
    drawn = readings(((0.0, {"gpu_watts": 300.0}), (1.0, {}), (2.0, {"gpu_watts": 400.0})))
    assert gpu_figures([window(*drawn)]).gpu_power_mean_watts == 350.0
    assert gpu_figures([window(*counting(40, watts=350.0, renewed_every=30))]).gpu_power_mean_watts == 1.0


def test_a_counter_that_fell_tells_nothing() -> None:
    """The driver was loaded anew."""
    fell = readings(
        (t, {"gpu_joules": j, "gpu_watts": 5.0}) for t, j in ((0.0, 10.0), (1.0, 20.0), (2.0, 3.0), (3.0, 9.0))
    )
    assert gpu_figures([window(*fell)]).gpu_power_mean_watts == 5.0


def test_pauses_between_stages_do_not_count() -> None:
    first = counting(50, watts=400.0, renewed_every=1)
    second = [
        *readings([(1000.0, {"gpu_joules": 50_000.0})]),
        *readings((1000.0 + t, {"gpu_joules": 50_000.0 + 200.0 * t}) for t in range(1, 50)),
    ]
    assert gpu_figures([window(*first), window(*second)]).gpu_power_mean_watts == pytest.approx(300.0)


def test_of_several_servers_power_adds_up_memory_is_the_most_and_clocks_are_averaged() -> None:
    a = readings([(0.0, {"gpu_watts": 300.0, "gpu_memory_mib": 70_000.0, "sm_clock_mhz": 1900.0})])
    b = readings([(0.5, {"gpu_watts": 200.0, "gpu_memory_mib": 75_000.0, "sm_clock_mhz": 1500.0})], pod="b")
    assert gpu_figures([window(*a, *b)]) == GpuFigures(500.0, 75_000.0, 1700.0)


def test_a_server_that_does_not_tell_leaves_all_unknown() -> None:
    a = readings([(0.0, {"gpu_watts": 300.0, "gpu_memory_mib": 70_000.0, "sm_clock_mhz": 1900.0})])
    assert gpu_figures([window(*a, *readings([(0.0, {})], pod="b"))]) == GpuFigures()


@pytest.mark.parametrize("samples", [(), tuple(readings([(0.0, {})]))])
def test_without_an_exporter_nothing_is_known(samples: tuple[Sample, ...]) -> None:
    assert gpu_figures([window(*samples)]) == GpuFigures()


def test_the_figures_stand_with_their_role() -> None:
    told = readings([(0.0, {"gpu_watts": 300.00049, "gpu_memory_mib": 70_000.0, "sm_clock_mhz": 1900.0})])
    [role] = role_figures([window(*told)])
    assert (role.gpu_power_mean_watts, role.gpu_memory_max_mib, role.sm_clock_mean_mhz) == (300.0, 70_000.0, 1900.0)


def test_they_are_kept_in_the_timeline() -> None:
    told = tuple(readings([(1.0, {"gpu_watts": 300.25, "gpu_joules": 1e9 + 0.5}), (2.0, {})]))
    assert decode(encode(Timeline(told))).samples == told
