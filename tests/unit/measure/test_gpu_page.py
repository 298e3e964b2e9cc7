"""Whose GPUs a page tells of, and what they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from benchrun.measure.exposition import UnreadablePage
from benchrun.measure.gpus import gpu_values
from benchrun.measure.server_figures import Sample
from unit.measure.gpu_pages import Gpu, gpu_page

OURS = Gpu()
THEIRS = Gpu(number=7, watts=700.0, millijoules=9_000, memory_mib=80_000, clock_mhz=300, pod="another")


def read(*gpus: Gpu) -> Sample:
    return sample(**gpu_values(gpu_page(*gpus), namespace="lab", pod="chat-server-x"))


def sample(**figures: float | None) -> Sample:
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
    with pytest.raises(UnreadablePage, match="no GPU of this pod"):
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
    assert read(*parts) == sample(gpu_memory_mib=9_000)


def test_what_the_page_lacks_is_not_known() -> None:
    assert read(replace(OURS, millijoules=None, clock_mhz=None)) == sample(gpu_watts=412.5, gpu_memory_mib=71_234)
    assert read(replace(OURS, watts=float("nan"))).gpu_watts is None


@pytest.mark.parametrize(
    ("why", "page"),
    [
        ("has no figures of GPUs", "# HELP up Up.\nup 1\n"),
        ("does not say which pods hold its GPUs", gpu_page(replace(OURS, pod=None), replace(THEIRS, pod=None))),
        ("no GPU of this pod", gpu_page(THEIRS)),
        ("not a metrics page", "<html>"),
    ],
)
def test_why_there_is_nothing(why: str, page: str) -> None:
    with pytest.raises(UnreadablePage, match=why):
        gpu_values(page, namespace="lab", pod="chat-server-x")
