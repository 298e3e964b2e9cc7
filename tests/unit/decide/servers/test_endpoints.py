"""An endpoint's pods are looked up before the plan is written, and again after a restart without
disturbing the run."""

from benchrun.decide import Answer, EndpointPods, LabelledPods
from unit.decide.scenes import (
    GATEWAY_ENDPOINT,
    SERVICE_ENDPOINT,
    URL_ENDPOINT,
    Scene,
)
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


LABELLED = LabelledPods((("a", "1"), ("b", "2")), 8001)


def behind_gateway(*addresses: str) -> Scene:
    return Scene(spec=GATEWAY_ENDPOINT).with_answers({LABELLED: Answer(addresses)})


def test_pods_behind_a_gateway_are_looked_up_before_the_plan_is_written() -> None:
    first = Scene(spec=GATEWAY_ENDPOINT).decide()
    assert (first.lookups, applied(first)) == ((LABELLED,), [])
    without = behind_gateway().decide()
    assert (without.lookups, applied(without)) == ((LABELLED,), [])
    assert "endpoint.metrics.pods (a=1,b=2) has no ready pods" in (
        without.status.message or ""
    )
    decision = behind_gateway("10.0.0.7:8001", "10.0.0.8:8001").decide()
    assert applied(decision) == ["ConfigMap plan", "Job client"]
    for page in ("http://10.0.0.7:8001/metrics", "http://10.0.0.8:8001/metrics"):
        assert page in decision.apply[0]["data"]["plan.json"]


def test_replicas_that_come_and_go_are_followed_while_the_run_goes_on() -> None:
    followed = (("10.0.0.7:8001",), ("10.0.0.8:8001", "10.0.0.9:8001"), ())
    for addresses in followed:
        decision = behind_gateway(*addresses).measuring().decide()
        assert [t.url for t in decision.scrape] == [
            f"http://{each}/metrics" for each in addresses
        ]
        assert decision.lookups == (LABELLED,)
        assert (decision.requeue_after_seconds or 99) <= 5


def test_listed_pages_are_the_clients_alone() -> None:
    page = "http://replica.example:8000/metrics"
    spec = URL_ENDPOINT | {
        "endpoint": {"url": "http://llm.example", "metrics": {"urls": [page]}}
    }
    assert page in Scene(spec=spec).decide().apply[0]["data"]["plan.json"]
    decision = Scene(spec=spec).measuring().decide()
    assert (decision.lookups, decision.scrape) == ((), ())
