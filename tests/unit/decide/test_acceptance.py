"""A spec that can't be acted on is refused with the field's path, and nothing is started for it."""

import gc
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from benchrun.api.base import MAX_DEPTH
from unit.decide.scenes import (
    DEPLOYMENT,
    JOB,
    NEWER,
    REFUSED,
    SERVICE_ENDPOINT,
    URL_ENDPOINT,
    Scene,
)
from unit.decide.summaries import applied, deleted, standing
from unit.plan.specs import concurrencies, rates, workload


def _workloads(**changes: Any) -> dict[str, Any]:
    return {"workloads": [workload("fine"), workload("chat", **changes)]}


def _rule(**fields: Any) -> dict[str, Any]:
    rule = {"name": "own", "metric": "failed", "above": "1", **fields}
    return {"validity": {"rules": [rule]}}


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (
            "spec: must set exactly one of server, endpoint and offline",
            {"endpoint": {"url": "http://llm.example"}},
        ),
        ("spec.model.name: ", {"model": {"name": ""}}),
        (
            "spec.model: revision is that of a model on the hub",
            {
                "model": {
                    "name": "m",
                    "revision": "v",
                    "source": {"path": {"path": "/m"}},
                }
            },
        ),
        (
            "spec.server.unknownField: ",
            {"server": {"image": "v", "unknownField": 1}},
        ),
        (
            "spec.server.args[0]: --port belongs to the operator",
            {"server": {"image": "v", "args": ["--port=1"]}},
        ),
        (
            "spec.server.command[2]: vLLM would take o/m",
            {"server": {"image": "v", "command": ["vllm", "serve", "o/m"]}},
        ),
        ("spec.repeats: ", {"repeats": "3"}),
        (
            "spec.validity.rules[0].metric: 'p99_tft_ms' is no figure of a row; did you mean p99_ttft_ms",
            _rule(metric="p99_tft_ms"),
        ),
        (
            'spec.validity.rules[0].metric: p97_ttft_ms is not measured: add "97" to measurement.percentiles',
            _rule(metric="p97_ttft_ms"),
        ),
        (
            'spec.validity.rules[0].when: p98_itl_ms is not measured: add "98" to measurement.percentiles',
            _rule(when="metrics.p98_itl_ms > 1.0"),
        ),
        (
            "spec.validity.rules[0].relativeTo: 'cores2' is no figure",
            _rule(relativeTo="server.cores2"),
        ),
        (
            "spec.validity.rules[0].when: at character 6: a double is compared with a string",
            _rule(when="load > '4'"),
        ),
        (
            "spec.workloads[1].load.requestRates[0]: must be above 0",
            _workloads(load=rates("0")),
        ),
        (
            "spec.workloads[1].load: must set exactly one of",
            _workloads(load=rates("1") | concurrencies(1)),
        ),
        (
            "spec.workloads[1].dataset: must set exactly one of",
            _workloads(dataset={}),
        ),
        (
            "spec.workloads[1]: must set exactly one of requests and durationSeconds",
            _workloads(durationSeconds=5),
        ),
        (
            "spec.workloads[1]: durationSeconds needs finite",
            _workloads(load=rates("inf"), requests=None, durationSeconds=5),
        ),
        (
            "spec.workloads[1]: rate x durationSeconds",
            _workloads(load=rates("2000"), requests=None, durationSeconds=86_400),
        ),
        ("spec.workloads: ", {"workloads": []}),
        (
            "spec.workloads: workloads have 66 load points",
            {
                "workloads": [
                    workload(n, load=concurrencies(*range(1, 23))) for n in "abc"
                ]
            },
        ),
        (
            "spec.repeats: 30 load points x 10 repeats = 300 stages",
            _workloads(load=concurrencies(*range(1, 30))) | {"repeats": 10},
        ),
    ],
)
def test_refused_naming(expected: str, changes: dict[str, Any]) -> None:
    status = Scene().with_spec(**changes).decide().status
    assert (status.message or "").startswith(expected)


def test_a_spec_of_which_nothing_was_kept_is_refused_with_the_reason() -> None:
    decision = replace(Scene().client_created(), spec={}).decide()
    assert "more than 20,000 values" in (decision.status.message or "")
    assert [event.reason for event in decision.events] == ["InvalidSpec"]


def test_the_plans_that_are_remembered_keep_no_spec() -> None:
    """Each may hold more than a megabyte."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for n in range(20):
            affinity = {"a": f"{n}" + "a" * 200_000}
            assert (
                Scene()
                .with_spec(server={"image": "v", "pod": {"affinity": affinity}})
                .decide()
                .apply
            )
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 2_000_000


def nested(levels: int) -> object:
    found: object = "end"
    for level in range(levels):
        found = [found] if level % 2 else {"a": found}
    return found


@pytest.mark.parametrize("levels", [MAX_DEPTH, 254, 300, 9_000])
def test_a_free_field_that_is_nested_too_deep_is_refused_at_its_place(
    levels: int,
) -> None:
    """pydantic writes no more than 255 levels; the API server takes 10,000."""
    pod = {"affinity": {"nodeAffinity": nested(levels)}}
    decision = Scene().with_spec(server={"image": "v", "pod": pod}).decide()
    assert standing(decision.status, "Accepted") == {
        "Accepted": "False (InvalidSpec)"
    }
    assert "spec.server.pod.affinity.nodeAffinity: " in (
        decision.status.message or ""
    )


def test_a_free_field_may_be_as_deep_as_any_of_kubernetes_is() -> None:
    pod = {"affinity": {"nodeAffinity": nested(MAX_DEPTH - 1)}}
    assert Scene().with_spec(server={"image": "v", "pod": pod}).decide().apply


@pytest.mark.parametrize("repeats", ["two", 0])
def test_a_number_or_a_word_is_one_problem_that_names_both(repeats: object) -> None:
    message = Scene().with_spec(repeats=repeats).decide().status.message or ""
    assert message == "spec.repeats: must be a whole number from 1 to 100, or Auto"


def test_the_number_of_further_problems_is_reported() -> None:
    assert (
        Scene().with_spec(repeats=0, model={"name": ""}).decide().status.message
        or ""
    ).endswith("(and 1 more)")


def test_refused_is_terminal_and_starts_nothing() -> None:
    refused = Scene().with_spec(repeats=0)
    decision = refused.decide()
    assert (decision.status.phase, applied(decision), decision.forget) == (
        "Failed",
        [],
        True,
    )
    assert standing(decision.status, "Accepted", "Failed", "Stalled", "Ready") == {
        "Accepted": "False (InvalidSpec)",
        "Failed": "True (InvalidSpec)",
        "Stalled": "True (InvalidSpec)",
        "Ready": "False (InvalidSpec)",
    }
    assert refused.settled().decide().status == decision.status


UNREADABLE = Scene().measuring().arrived(0).with_spec(**REFUSED)


def test_a_field_of_a_newer_operator_stops_no_run_that_it_accepted() -> None:
    decision = Scene().measuring().arrived(0).with_spec(**NEWER).decide()
    assert (decision.status.phase, applied(decision)) == (
        "Running",
        ["ConfigMap stage 0"],
    )
    assert Scene().with_spec(**NEWER).decide().status.phase == "Failed"


def test_what_it_accepted_and_we_cannot_read_is_left_alone_and_says_so() -> None:
    decision = UNREADABLE.decide()
    assert (applied(decision), deleted(decision), decision.forget) == (
        [],
        [],
        False,
    )
    assert decision.status.phase == "Running"
    assert "accepted by an operator of another version" in (
        decision.status.message or ""
    )
    assert "spec.repeats" in (decision.status.message or "")


def test_cancelled_it_is_let_go_all_the_same() -> None:
    decision = UNREADABLE.with_spec(cancel=True).decide()
    assert (deleted(decision), decision.status.phase, decision.forget) == (
        ["Deployment", "Job"],
        "Failed",
        True,
    )


def test_a_server_that_was_to_go_still_goes() -> None:
    scene = Scene().measuring().arrived(0, 1).settled().with_spec(**REFUSED)
    assert deleted(scene.decide()) == ["Deployment"]


def test_what_is_left_of_a_refused_run_is_removed_in_every_pass() -> None:
    refused = UNREADABLE.with_spec(cancel=True).settled()
    assert deleted(refused.decide()) == ["Deployment", "Job"]
    assert deleted(refused.without("Deployment", "server").decide()) == ["Job"]


SUSPENDED = Scene().with_spec(suspend=True)


def test_nothing_is_created() -> None:
    decision = SUSPENDED.decide()
    assert (
        applied(decision),
        deleted(decision),
        decision.requeue_after_seconds,
    ) == ([], [], None)


def test_a_client_that_waits_is_let_go() -> None:
    assert deleted(Scene().client_ready().with_spec(suspend=True).decide()) == [
        "Job"
    ]


def test_a_client_that_is_stopped_by_it_has_not_failed() -> None:
    stopped = (
        Scene()
        .client_created()
        .with_spec(suspend=True)
        .pod("client", phase="Failed", ready=False, deleting=True)
    )
    assert stopped.decide().status.phase == "Suspended"


def test_a_suspended_run_sets_its_conditions() -> None:
    assert standing(
        SUSPENDED.decide().status, "Ready", "Reconciling", "Stalled", "Accepted"
    ) == {
        "Ready": "False (Suspended)",
        "Reconciling": "True (Suspended)",
        "Stalled": "False (Suspended)",
        "Accepted": "True (Accepted)",
    }


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(URL_ENDPOINT, id="url"),
        pytest.param(SERVICE_ENDPOINT, id="service"),
        pytest.param({}, id="server"),
    ],
)
def test_no_deadline_runs_while_suspended_nor_counts_that_time_afterwards(
    spec: dict[str, object],
) -> None:
    scene = (
        (Scene(spec=spec) if spec else Scene())
        .with_spec(suspend=True, startupDeadlineSeconds=60)
        .settled()
    )
    long_after = scene.at(100_000)
    assert long_after.decide().status.phase == "Suspended"
    assert long_after.settled().with_spec(suspend=False).decide().status.phase in (
        "Preparing",
        "Pending",
    )


def test_going_on_starts_like_a_fresh_run() -> None:
    resumed = SUSPENDED.settled().with_spec(suspend=False)
    assert applied(resumed.decide()) == [
        "ConfigMap plan",
        "Job client",
        "Service server",
    ]


def test_going_on_waits_until_the_old_client_has_left() -> None:
    leaving = Scene().client_ready().without(*JOB).having(JOB, deleting=True)
    resumed = (
        leaving.with_spec(suspend=True)
        .pod("client", deleting=True)
        .settled()
        .with_spec(suspend=False)
    )
    assert applied(resumed.decide()) == []


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(Scene().client_ready().having(DEPLOYMENT), id="server exists"),
        pytest.param(Scene().measuring(), id="measuring"),
        pytest.param(
            Scene(spec=URL_ENDPOINT).server_healthy(),
            id="endpoint is being warmed up",
        ),
    ],
)
def test_suspending_a_run_that_has_its_server_changes_nothing(scene: Scene) -> None:
    decision = scene.with_spec(suspend=True).decide()
    assert (decision.status.phase, deleted(decision)) == (
        scene.decide().status.phase,
        [],
    )


@pytest.mark.parametrize(
    ("gone", "scene"),
    [
        pytest.param([], Scene(), id="before anything"),
        pytest.param(["Job"], Scene().client_created(), id="preparing"),
        pytest.param(
            ["Deployment", "Job"], Scene().server_pending(), id="waiting for a node"
        ),
        pytest.param(["Deployment", "Job"], Scene().server_loading(), id="loading"),
        pytest.param(["Deployment", "Job"], Scene().measuring(), id="measuring"),
        pytest.param(
            ["Job"],
            Scene(spec=URL_ENDPOINT).measuring(),
            id="measuring an endpoint",
        ),
        pytest.param([], Scene().with_spec(suspend=True), id="suspended"),
    ],
)
def test_everything_is_let_go_the_gpu_first(gone: list[str], scene: Scene) -> None:
    decision = scene.with_spec(cancel=True).ended()
    assert deleted(decision) == gone
    assert (decision.status.phase, applied(decision)) == ("Cancelled", [])
    assert decision.last_words is None


def test_the_instant_of_release_is_noted() -> None:
    assert (
        Scene()
        .measuring()
        .with_spec(cancel=True)
        .at(100)
        .ended()
        .status.server_released_time
        == "2026-01-01T00:01:40Z"
    )


def test_a_record_that_just_came_is_stored_and_judged() -> None:
    decision = Scene().measuring().arrived(0).with_spec(cancel=True).ended()
    assert applied(decision) == ["ConfigMap stage 0", "ConfigMap result"]
    assert [(r.load_point, r.verdict) for r in decision.status.results] == [
        ("chat/rate=1", "Valid"),
        ("chat/rate=4", "Invalid"),
    ]


def test_cancelling_wins_over_a_failure() -> None:
    failing = Scene().measuring().fails("CanaryFailed", "no").with_spec(cancel=True)
    assert failing.ended().status.phase == "Cancelled"
