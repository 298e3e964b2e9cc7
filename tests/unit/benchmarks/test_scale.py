"""What the benchmark of a thousand runs is made of: its figures, its limits, and what it plays."""

from dataclasses import replace

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.observe import is_finished
from runs_kit.proxy import Request
from scale_kit import manifests
from scale_kit.figures import (
    LIMITS,
    Figures,
    Window,
    added,
    page_cpu_seconds,
    percentile,
    whole_cores,
    writes_by_run,
)
from scale_kit.players import addresses
from scale_kit.scenario import RUN_NAME

KEPT = Figures(
    runs=1000,
    bare_seconds=10.0,
    children_seconds=12.0,
    children_ratio=1.2,
    writes_per_run=24,
    reconcile_p50_ms=10.0,
    reconcile_p99_ms=250.0,
    rss_mib=150.0,
    cpu_cores=0.5,
    restart_converged_seconds=9.0,
    restart_writes=0,
    scrape_cores_500=0.4,
    other_tenant_release_seconds=1.0,
)


def test_good_figures_keep_every_limit() -> None:
    assert list(KEPT.beyond_limits()) == []


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_is_asserted(name: str) -> None:
    worse = {name: LIMITS[name] + 1}
    lines = list(replace(KEPT, **worse).beyond_limits())  # type: ignore[arg-type]
    assert [line.split()[0] for line in lines] == [name]


def test_a_page_takes_all_that_is_used_while_nothing_else_happens() -> None:
    assert page_cpu_seconds(Window(10.0, 5.0, pages=5000)) == pytest.approx(0.001)
    assert page_cpu_seconds(Window(10.0, 5.0)) == 5.0


def test_pages_that_a_busy_host_did_not_let_it_read_are_added() -> None:
    assert (
        whole_cores(Window(10.0, 3.0, pages=4000), targets=500, a_page=0.001) == 0.4
    )
    assert (
        whole_cores(Window(10.0, 3.0, pages=5100), targets=500, a_page=0.001) == 0.3
    )


def test_percentiles_are_of_all_processes_together() -> None:
    inf = float("inf")
    passes = added([{0.01: 50, 0.1: 50, inf: 50}, {0.01: 0, 0.1: 49, inf: 50}])
    assert (percentile(passes, 0.5), percentile(passes, 0.99)) == (0.01, 0.1)
    assert percentile(passes, 1.0) == inf
    assert percentile({}, 0.5) == 0.0


def test_what_a_run_was_written_for_is_counted() -> None:
    read = Request(0.0, "GET", "configmaps", False, False, "many-0001", ())
    create = replace(read, method="POST")
    live = replace(
        read, method="PATCH", resource="benchmarkruns/status", changes=("live",)
    )
    progress = replace(live, changes=("live", "progress"))
    assert writes_by_run([read, create, create, live, progress]) == {"many-0001": 3}


def test_a_request_is_of_the_run_that_it_names_and_not_of_the_namespace() -> None:
    path = (
        "/api/v1/namespaces/scale-1a2b3c-many/configmaps/br-many-0012-4e20caa2-plan"
    )
    found = RUN_NAME.search(path)
    assert found is not None
    assert found[0] == "many-0012"


def test_runs_are_valid() -> None:
    BenchmarkRunSpec.model_validate(manifests.run("many-0001", "many")["spec"])


def test_the_script_makes_the_same_kinds_and_its_jobs_do_not_begin() -> None:
    made = dict(manifests.alike("bare-0001", "bare"))
    assert list(made) == [
        "BenchmarkRun",
        "ConfigMap",
        "NetworkPolicy",
        "Service",
        "Job",
    ]
    assert made["Job"]["spec"]["suspend"]
    assert made["BenchmarkRun"]["spec"] == manifests.run("any", "bare")["spec"]


def test_a_run_that_has_ended_is_like_one_that_did() -> None:
    conditions = [{"type": "Complete", "status": "True"}]
    like = {
        "spec": {"repeats": 3},
        "status": {"conditions": conditions},
        "metadata": {"uid": "u"},
    }
    body, status = manifests.ended("old-00001", "old", like)
    assert body["metadata"] == {"name": "old-00001", "namespace": "old"}
    assert body["spec"] == like["spec"]
    assert is_finished(status["status"])


def test_every_pod_has_an_address_of_its_own() -> None:
    at = addresses()
    found = [next(at) for _ in range(1005)]
    assert len(set(found)) == 1005
    assert all(each.startswith("127.") for each in found)
