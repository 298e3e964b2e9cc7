"""Whose GPUs a page tells of, and what they do."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from benchrun.api import Sample
from benchrun.measure import (
    NOT_RENEWED,
    GpuFigures,
    UnreadableMetrics,
    Window,
    cpu_values,
    decode,
    encode,
    gpu_figures,
    gpu_values,
    renewed,
    role_figures,
    throttled_percent,
    waiting_for_cpu_percent,
)
from unit.measure.cadvisor_pages import ALONE, KUBELET, cadvisor_page
from unit.measure.gpu_pages import Gpu, gpu_page
from unit.measure.records import sample

OURS = Gpu()
THEIRS = Gpu(
    number=7,
    watts=700.0,
    millijoules=9_000,
    memory_mib=80_000,
    clock_mhz=300,
    pod="another",
)


def read(*gpus: Gpu) -> Sample:
    return of_gpus(
        **gpu_values(gpu_page(*gpus), namespace="lab", pod="chat-server-x")
    )


def of_gpus(**figures: float | None) -> Sample:
    known: dict[str, Any] = figures
    return Sample(at=0, role="", pod="", **known)


def test_one_gpu() -> None:
    found = read(OURS)
    assert (found.gpu_watts, found.gpu_memory_mib, found.sm_clock_mhz) == (
        412.5,
        71_234,
        1980,
    )
    assert found.gpu_joules == pytest.approx(196_764.132)


def test_power_and_energy_add_up_memory_is_the_most_and_the_clock_that_of_the_slowest() -> (
    None
):
    second = Gpu(
        number=1, watts=87.5, millijoules=236_000_000, memory_mib=9, clock_mhz=1000
    )
    found = read(OURS, second)
    assert (found.gpu_watts, found.gpu_memory_mib, found.sm_clock_mhz) == (
        500.0,
        71_234,
        1000,
    )
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
    [
        ("exported_container", "exported_namespace", "exported_pod"),
        ("container_name", "pod_namespace", "pod_name"),
    ],
)
def test_pods_are_known_by_other_labels_too(labels: tuple[str, str, str]) -> None:
    assert read(replace(OURS, labels=labels)) == read(OURS)


def test_a_part_of_a_gpu_has_memory_of_its_own_and_no_power() -> None:
    parts = [
        replace(OURS, instance=number, memory_mib=mib)
        for number, mib in (("3", 9_000), ("4", 5_000))
    ]
    assert read(*parts) == of_gpus(gpu_memory_mib=9_000, gpu_pods=1)


def test_the_memory_of_a_gpu_is_what_is_used_and_what_is_free() -> None:
    second = replace(OURS, number=1, memory_mib=9, free_mib=81_000)
    assert (
        read(
            replace(OURS, free_mib=9_766), second, replace(THEIRS, free_mib=99_999)
        ).gpu_memory_total_mib
        == 81_009
    )
    parts = [
        replace(OURS, instance=number, memory_mib=9_000, free_mib=728)
        for number in ("3", "4")
    ]
    assert read(*parts).gpu_memory_total_mib == 9_728
    assert read(OURS).gpu_memory_total_mib is None


def test_what_the_page_lacks_is_not_known() -> None:
    lacking = read(replace(OURS, millijoules=None, clock_mhz=None))
    assert lacking == of_gpus(gpu_watts=412.5, gpu_memory_mib=71_234, gpu_pods=1)
    assert read(replace(OURS, watts=float("nan"))).gpu_watts is None


@pytest.mark.parametrize(
    ("why", "page"),
    [
        ("have no figures of GPUs", "# HELP up Up.\nup 1\n"),
        (
            "does not say which pod uses which GPU",
            gpu_page(replace(OURS, pod=None), replace(THEIRS, pod=None)),
        ),
        ("no GPU of this pod", gpu_page(THEIRS)),
        ("not the text of a metrics endpoint", "<html>"),
    ],
)
def test_why_there_is_nothing(why: str, page: str) -> None:
    with pytest.raises(UnreadableMetrics, match=why):
        gpu_values(page, namespace="lab", pod="chat-server-x")


IDLE = 0x1
APPLICATION = 0x2
POWER = 0x4
HARDWARE = 0x8
SOFT_HEAT = 0x20
HEAT = 0x40
BRAKE = 0x80


@pytest.mark.parametrize(
    ("slowed", "capped", "reasons"),
    [
        (0.0, 0.0, 0),
        (0.0, 0.0, IDLE | APPLICATION),
        (0.0, 1.0, POWER),
        (1.0, 0.0, HARDWARE),
        (1.0, 0.0, SOFT_HEAT),
        (1.0, 0.0, HEAT),
        (1.0, 1.0, BRAKE | POWER),
    ],
)
def test_reasons_of_lower_clocks(
    slowed: float, capped: float, reasons: int
) -> None:
    for found in (
        read(replace(OURS, reasons=reasons)),
        read(replace(OURS, old_reasons=reasons)),
    ):
        assert (found.gpu_slowed, found.gpu_power_capped) == (slowed, capped)
    half = read(replace(OURS, reasons=reasons), Gpu(number=1, reasons=0))
    assert (half.gpu_slowed, half.gpu_power_capped) == (slowed / 2, capped / 2)


def test_without_reasons_nothing_is_known_of_them() -> None:
    assert (read(OURS).gpu_slowed, read(OURS).gpu_power_capped) == (None, None)


def test_errors_are_those_of_the_pods_gpus_together() -> None:
    found = read(
        replace(OURS, xid=45, double_bit_errors=1, remapped_rows=7),
        Gpu(number=1, xid=31, double_bit_errors=2),
    )
    assert (found.gpu_xid, found.gpu_memory_errors) == (76, 3)
    by_default = read(replace(OURS, remapped_rows=7), replace(THEIRS, xid=79))
    assert (by_default.gpu_xid, by_default.gpu_memory_errors) == (None, 7)


def test_pods_that_share_a_gpu_are_counted() -> None:
    assert read(OURS, replace(OURS, pod="another")).gpu_pods == 2
    assert read(OURS, replace(OURS, pod=None)).gpu_pods == 1
    assert (
        read(
            replace(OURS, instance="3"), replace(OURS, instance="4", pod="another")
        ).gpu_pods
        == 1
    )


def test_samples_count_once_the_exporter_has_renewed_its_figures() -> None:
    stale = [sample(t, gpu_watts=400.0, sm_clock_mhz=1980.0) for t in range(3)]
    fresh = sample(3, gpu_watts=401.0, sm_clock_mhz=1900.0)
    assert renewed([fresh, *stale, sample(2.5)]) == {fresh.pod: [fresh]}
    assert renewed(stale) == {fresh.pod: []}
    assert renewed([sample(0.0)]) == {}


def window(*samples: Sample) -> Window:
    return Window("server", samples, (), expected=len(samples))


def samples_of(
    values: Iterable[tuple[float, dict[str, Any]]], *, pod: str = "a"
) -> list[Sample]:
    return [sample(at, pod=pod, **figures) for at, figures in values]


def counting(
    seconds: int,
    *,
    watts: float,
    renewed_every: int,
    first: float = 0.0,
    pod: str = "a",
) -> list[Sample]:
    """One reading a second; the page is renewed every so often."""
    return samples_of(
        (
            (
                first + t,
                {
                    "gpu_joules": watts * (t // renewed_every) * renewed_every,
                    "gpu_watts": 1.0,
                },
            )
            for t in range(seconds)
        ),
        pod=pod,
    )


@pytest.mark.parametrize("renewed_every", [1, 7, 30])
def test_energy_is_taken_from_one_renewal_to_another(renewed_every: int) -> None:
    found = gpu_figures(
        [window(*counting(100, watts=350.0, renewed_every=renewed_every))]
    )
    assert found.gpu_power_mean_watts == pytest.approx(350.0)


def test_a_figure_renewed_once_reports_nothing_of_the_stage() -> None:
    """It may be of the time before."""
    once = [window(*counting(40, watts=350.0, renewed_every=30))]
    assert gpu_figures(once) == GpuFigures(no_power_reason=NOT_RENEWED)
    assert (
        gpu_figures(
            [window(*counting(80, watts=350.0, renewed_every=30))]
        ).gpu_power_mean_watts
        == 350.0
    )


def test_without_a_counter_it_is_the_power_shown_from_renewal_to_renewal() -> None:
    """900 W are of the time before; 300 W hold for 2 s, 450 W for 1 s."""
    shown = (
        (0.0, 900.0),
        (1.0, 900.0),
        (2.0, 300.0),
        (3.0, 300.0),
        (4.0, 450.0),
        (5.0, 100.0),
        (9.0, 100.0),
    )
    drawn = samples_of((at, {"gpu_watts": watts}) for at, watts in shown)
    assert gpu_figures([window(*drawn)]).gpu_power_mean_watts == 350.0
    assert gpu_figures([window(*drawn[:3])]) == GpuFigures(
        no_power_reason=NOT_RENEWED
    )


def test_tokens_per_joule_are_of_the_time_between_the_renewals() -> None:
    """Renewed at 10 s and 40 s: 30 s of 200 W. Of 1,000 tokens a second those of these 30 s count;
    then the server idles."""
    samples = samples_of(
        (
            t,
            {
                "gpu_joules": 200.0 * ((t + 20) // 30) * 30,
                "generation_tokens": 1000.0 * min(t, 45),
            },
        )
        for t in range(60)
    )
    found = gpu_figures([window(*samples)])
    assert (found.gpu_power_mean_watts, found.output_tokens_per_joule) == (
        200.0,
        5.0,
    )


def test_tokens_are_those_of_the_servers_that_write_answers_and_energy_is_that_of_all() -> (
    None
):
    def of(role: str, watts: float) -> Window:
        values = (
            (t, {"gpu_joules": watts * t, "generation_tokens": 600.0 * t})
            for t in range(10)
        )
        return Window(
            role,
            tuple(replace(s, role=role) for s in samples_of(values, pod=role)),
            (),
            expected=10,
        )

    both = gpu_figures([of("prefill", 100.0), of("decode", 200.0)])
    assert (both.gpu_power_mean_watts, both.output_tokens_per_joule) == (300.0, 2.0)


def test_a_server_that_was_not_scraped_leaves_the_power_of_all_unknown() -> None:
    one = window(*counting(100, watts=350.0, renewed_every=1))
    assert gpu_figures([replace(one, servers=2)]) == GpuFigures()


def test_a_counter_that_fell_reports_nothing() -> None:
    """The driver was loaded anew."""
    fell = samples_of(
        (t, {"gpu_joules": j})
        for t, j in ((0.0, 10.0), (1.0, 20.0), (2.0, 3.0), (3.0, 9.0))
    )
    assert gpu_figures([window(*fell)]) == GpuFigures(no_power_reason=NOT_RENEWED)


def test_where_energy_was_renewed_once_the_power_is_the_watts() -> None:
    shown = samples_of(
        (t, {"gpu_joules": 5.0 if t < 10 else 9.0, "gpu_watts": 300.0 + t % 2})
        for t in range(21)
    )
    found = gpu_figures([window(*shown)])
    assert found.gpu_power_mean_watts == pytest.approx(300.5, abs=0.1)


def test_pauses_between_stages_do_not_count() -> None:
    first = counting(50, watts=400.0, renewed_every=1)
    second = [
        *samples_of([(1000.0, {"gpu_joules": 50_000.0})]),
        *samples_of(
            (1000.0 + t, {"gpu_joules": 50_000.0 + 200.0 * t}) for t in range(1, 50)
        ),
    ]
    assert gpu_figures(
        [window(*first), window(*second)]
    ).gpu_power_mean_watts == pytest.approx(300.0)


def test_several_servers_add_power_take_maximum_memory_and_average_clocks() -> None:
    def of(pod: str, watts: float, mib: float, mhz: float) -> list[Sample]:
        figures = {
            "gpu_memory_mib": mib,
            "sm_clock_mhz": mhz,
            "generation_tokens": None,
        }
        return samples_of(
            ((t, {"gpu_joules": watts * t, **figures}) for t in range(3)), pod=pod
        )

    both = window(
        *of("a", 300.0, 70_000.0, 1900.0), *of("b", 200.0, 75_000.0, 1500.0)
    )
    assert gpu_figures([both]) == GpuFigures(500.0, 75_000.0, 1700.0)


def test_a_server_that_does_not_tell_leaves_all_unknown() -> None:
    a = samples_of(
        [
            (
                0.0,
                {
                    "gpu_watts": 300.0,
                    "gpu_memory_mib": 70_000.0,
                    "sm_clock_mhz": 1900.0,
                },
            )
        ]
    )
    assert (
        gpu_figures([window(*a, *samples_of([(0.0, {})], pod="b"))]) == GpuFigures()
    )


@pytest.mark.parametrize("samples", [(), tuple(samples_of([(0.0, {})]))])
def test_without_an_exporter_nothing_is_known(samples: tuple[Sample, ...]) -> None:
    assert gpu_figures([window(*samples)]) == GpuFigures()


def test_the_figures_stand_with_their_role() -> None:
    figures = samples_of(
        (
            t,
            {
                "gpu_joules": 300.00049 * t,
                "gpu_memory_mib": 70_000.0,
                "sm_clock_mhz": 1900.0,
            },
        )
        for t in range(3)
    )
    [role] = role_figures([window(*figures)])
    assert (
        role.gpu_power_mean_watts,
        role.gpu_memory_max_mib,
        role.sm_clock_mean_mhz,
    ) == (
        300.0,
        70_000.0,
        1900.0,
    )


def test_they_are_kept_in_the_timeline() -> None:
    figures = tuple(
        samples_of(
            [(1.0, {"gpu_watts": 300.25, "gpu_joules": 1e9 + 0.5}), (2.0, {})]
        )
    )
    assert decode(encode(figures)) == figures


# How often servers were stopped at their CPU limit, by what a cAdvisor on their node says.


def read_throttling(page: str) -> dict[str, float | None]:
    return cpu_values(page, namespace="lab", pod="chat-server-x")


@pytest.mark.parametrize("labels", [KUBELET, ALONE])
def test_the_servers_own_container_is_read_and_no_other(
    labels: tuple[str, ...],
) -> None:
    page = cadvisor_page(periods=200, throttled=30, waiting=4.5, labels=labels)
    assert read_throttling(page) == {
        "cpu_periods": 200.0,
        "cpu_throttled_periods": 30.0,
        "cpu_waiting_seconds": 4.5,
    }


def test_a_container_without_a_limit_has_no_periods() -> None:
    page = cadvisor_page(
        periods=200, throttled=30, container=("lab", "another", "server")
    )
    assert read_throttling(page) == dict.fromkeys(
        ("cpu_periods", "cpu_throttled_periods", "cpu_waiting_seconds")
    )


def test_another_page_is_unreadable() -> None:
    with pytest.raises(UnreadableMetrics):
        read_throttling("<html>")


def test_the_share_is_that_between_the_first_renewal_and_the_last() -> None:
    """The first sample may be older than the stage; values that were not renewed are shown
    again."""
    counted = [
        (100.0, 100.0),
        (200.0, 110.0),
        (200.0, 110.0),
        (300.0, 120.0),
        (400.0, 160.0),
        (400.0, 160.0),
    ]
    shown = [
        sample(1000.0 + i, cpu_periods=p, cpu_throttled_periods=t)
        for i, (p, t) in enumerate(counted)
    ]
    other = [
        sample(1000.5 + i, pod="b", cpu_periods=50.0 * i, cpu_throttled_periods=0.0)
        for i in range(4)
    ]
    assert throttled_percent([*other, *shown]) == {
        "br-run-4a49acf8-server-x": 25.0,
        "b": 0.0,
    }


@pytest.mark.parametrize(
    ("percent", "waited"),
    [
        pytest.param(
            10.0,
            [7.0, 8.0, 8.0, 8.5, 9.0, 9.0],
            id="the first second may be older than the stage",
        ),
        pytest.param(
            2.5, [7.0] * 8 + [7.5, 8.0, 8.0], id="most of the time it did not wait"
        ),
    ],
)
def test_waiting_is_a_share_of_the_time(
    percent: float, waited: list[float]
) -> None:
    shown = [
        sample(1000.0 + 2 * i, cpu_waiting_seconds=seconds)
        for i, seconds in enumerate(waited)
    ]
    assert waiting_for_cpu_percent(shown) == {
        "br-run-4a49acf8-server-x": pytest.approx(percent)
    }


@pytest.mark.parametrize(
    "periods", [[], [100.0], [100.0, 100.0, 100.0], [100.0, 200.0]]
)
def test_figures_that_were_not_renewed_twice_say_nothing(
    periods: list[float],
) -> None:
    assert (
        throttled_percent(
            sample(1000.0 + i, cpu_periods=p, cpu_throttled_periods=p)
            for i, p in enumerate(periods)
        )
        == {}
    )
