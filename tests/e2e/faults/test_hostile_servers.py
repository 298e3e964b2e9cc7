"""Servers that answer nonsense, all at once: refused, counted, no crash, and never a number without
saying so."""

from collections.abc import Iterator

import pytest
from e2e.conftest import in_a_namespace
from kit.kubectl import Namespace
from kit.runs import condition, finished, simulated_run

PAGES = ("garbage", "endless", "http500", "none")
HOSTILE = {
    **{f"page-{page}": f"--sim-metrics={page}" for page in PAGES},
    "failing": "--sim-error-percent=50",
    "noisy": "--sim-log-noise-mb=100",
    "impostor": "--sim-root=facebook/opt-125m",
}
OTHER = "exec vllm serve facebook/opt-125m --served-model-name=tiny --port=8000"
"""A script as the server's command, of which nothing can be known before: it starts another model
under the name of the run's."""


@pytest.fixture(scope="module")
def together(operator: Namespace) -> Iterator[Namespace]:
    """A namespace in which a run against each of them was started, at the same instant."""
    with in_a_namespace() as namespace:
        namespace.apply(
            *(simulated_run(name, args=(flag,)) for name, flag in HOSTILE.items())
        )
        namespace.apply(
            simulated_run("other", server={"command": ["sh", "-c", OTHER]})
        )
        yield namespace


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PAGES)
def test_a_metrics_page_of_nonsense_leaves_figures_empty_and_the_run_whole(
    together: Namespace, page: str
) -> None:
    run = finished(together, f"page-{page}", timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    row = run["status"]["results"][0]
    assert row["metrics"]["completed"] == 8
    assert all(
        r.get("runningMean") is None and r.get("prefixHitPercent") is None
        for r in row["roles"]
    )
    unchecked = next(
        f for f in run["status"]["findings"] if f["code"] == "NotChecked"
    )
    assert "PrefixCacheContaminated" in unchecked["evidence"]


@pytest.mark.timeout(240)
def test_failed_requests_beyond_the_threshold_make_the_load_point_invalid(
    together: Namespace,
) -> None:
    run = finished(together, "failing", timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert condition(run, "Valid")["status"] == "False"
    assert run["status"]["results"][0]["verdict"] == "Invalid"
    assert "RequestsFailed" in run["status"]["results"][0]["findings"]
    assert run["status"].get("headline") is None


@pytest.mark.timeout(240)
def test_a_hundred_megabytes_of_log_noise_hurt_nobody(together: Namespace) -> None:
    run = finished(together, "noisy", timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert run["status"]["verdict"] in ("Valid", "Suspect")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["impostor", "other"])
def test_a_server_of_another_model_under_the_name_that_was_asked_for_is_invalid(
    together: Namespace, name: str
) -> None:
    run = finished(together, name, timeout_seconds=200)
    assert condition(run, "Valid")["status"] == "False"
    wrong = next(
        finding
        for finding in run["status"]["findings"]
        if finding["code"] == "WrongModel"
    )
    assert (wrong["severity"], wrong["evidence"]["listedModel"]) == (
        "Invalid",
        "facebook/opt-125m",
    )
    assert run["status"].get("headline") is None
