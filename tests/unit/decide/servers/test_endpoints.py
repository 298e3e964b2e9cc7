"""An endpoint's pods are looked up before the plan is written, and again after a restart without
disturbing the run."""

from benchrun.decide import EndpointPods
from unit.decide.scenes import SERVICE_ENDPOINT, URL_ENDPOINT, Scene
from unit.decide.summaries import applied, deleted

ASKED = EndpointPods("prod", 8000)
FRESH = Scene(spec=SERVICE_ENDPOINT)


def test_first_its_pods_are_looked_up() -> None:
    decision = FRESH.decide()
    assert (
        decision.lookups,
        applied(decision),
        decision.requeue_after_seconds,
    ) == (
        (ASKED,),
        [],
        5.0,
    )


def test_without_pods_the_run_waits_and_retries() -> None:
    decision = FRESH.endpoint_found().decide()
    assert (
        decision.lookups,
        applied(decision),
        decision.requeue_after_seconds,
    ) == (
        (ASKED,),
        [],
        5.0,
    )
    assert "Service prod has no ready pods" in (decision.status.message or "")


def test_with_pods_the_client_is_started_and_gets_their_addresses() -> None:
    decision = FRESH.endpoint_found("10.0.0.7:8000").decide()
    assert applied(decision) == ["ConfigMap plan", "Job client"]
    assert "http://10.0.0.7:8000/metrics" in decision.apply[0]["data"]["plan.json"]


def test_after_a_restart_they_are_looked_up_while_the_run_goes_on() -> None:
    decision = FRESH.measuring().operator_restarted().decide()
    assert (decision.lookups, decision.status.phase, decision.pull is not None) == (
        (ASKED,),
        "Running",
        True,
    )
    assert (applied(decision), deleted(decision)) == ([], [])


def test_pods_that_are_gone_later_do_not_stop_the_run() -> None:
    decision = FRESH.measuring().endpoint_found().decide()
    assert (applied(decision), deleted(decision), decision.status.phase) == (
        [],
        [],
        "Running",
    )


def test_their_pages_are_read_once_the_endpoint_is_healthy() -> None:
    assert FRESH.client_ready().decide().scrape == ()
    assert [t.url for t in FRESH.measuring().decide().scrape] == [
        "http://10.0.0.7:8000/metrics"
    ]


def test_behind_a_url_nothing_is_looked_up_or_read_by_the_operator() -> None:
    decision = Scene(spec=URL_ENDPOINT).measuring().decide()
    assert (decision.lookups, decision.scrape) == ((), ())
