"""The end of a run: the servers go first, then what is left is stored, looked up, judged and
written, each as long as it takes."""

from typing import Any

import pytest
from benchrun.api import ClientStatus, Judgement
from benchrun.decide import Answer, Compilations, Ending, Judging
from benchrun_client.engines import ENGINES
from unit.decide.scenes import (
    HEALTHY,
    SCHEDULED,
    SERVER_DIED,
    URL_ENDPOINT,
    Scene,
    text,
)
from unit.decide.summaries import applied, deleted, standing

VLLM = ENGINES["VLLM"]

STORED = Scene().measuring().stored(0).at(300)
LAST_RECORD = STORED.arrived(1)
CANCELLED = STORED.with_spec(cancel=True)
LOG = Compilations("server-1", "server", since=text(HEALTHY - 10), engine=VLLM)
TO_THE_END = Judging(ended_early=False)
EARLY = Judging(ended_early=True)
NOT_JUDGED: Answer[Judgement] = Answer(
    None, "the judge was killed: it took more than 256 MiB"
)


# ---- measured to its end
# -------------------------------------------------------------------------------------------


def test_the_last_record_releases_the_server_and_is_stored() -> None:
    decision = LAST_RECORD.decide()
    assert (deleted(decision), applied(decision)) == (
        ["Deployment"],
        ["ConfigMap stage 1"],
    )
    assert (decision.lookups, decision.forget, decision.acknowledge) == (
        (LOG,),
        False,
        2,
    )
    assert (decision.status.phase, decision.status.results) == ("Collecting", [])


def test_then_it_is_judged_and_the_client_is_still_followed() -> None:
    decision = LAST_RECORD.with_answers({LOG: Answer(None)}).decide()
    assert (decision.lookups, decision.forget, decision.status.phase) == (
        (LOG, TO_THE_END),
        False,
        "Collecting",
    )
    assert decision.pull is not None


def test_whoever_waits_for_an_answer_asks_for_no_pass() -> None:
    """Hundreds may wait for the judge: a pass a second of each took a whole core from those that
    let go of their servers."""
    waiting = LAST_RECORD.without("Deployment", "server")
    for_the_judge = waiting.with_answers({LOG: Answer(None)})
    assert [
        each.decide().requeue_after_seconds for each in (waiting, for_the_judge)
    ] == [None] * 2
    assert (
        for_the_judge.ended().requeue_after_seconds is not None
    )  # its client, its TTL


def test_the_judge_gets_servers_and_client_as_in_the_status() -> None:
    scene = LAST_RECORD.with_answers({LOG: Answer(None)}).pod(
        "client", image="client:7", image_digest="sha256:1"
    )
    _, query = scene.decide().lookups
    assert isinstance(query, Judging)
    assert [server.pod for server in query.servers] == ["server-1"]
    assert query.client == ClientStatus(image="client:7", image_digest="sha256:1")


def test_with_a_judgement_the_run_has_ended() -> None:
    decision = LAST_RECORD.ended()
    assert (decision.forget, decision.status.phase) == (True, "Completed")
    assert [r.verdict for r in decision.status.results] == ["Valid", "Valid"]
    assert [event.reason for event in decision.events] == ["Completed"]


def test_a_run_that_cannot_be_judged_ends_all_the_same() -> None:
    """Once: a judgement that raised was made again for ever."""
    status = (
        LAST_RECORD.with_answers({LOG: Answer(None), TO_THE_END: NOT_JUDGED})
        .decide()
        .status
    )
    assert (status.phase, status.verdict, status.results) == (
        "Completed",
        "Unknown",
        [],
    )
    assert standing(status, "Complete", "Valid", "Succeeded", "Stalled") == {
        "Complete": "True (Measured)",
        "Valid": "Unknown (NotJudged)",
        "Succeeded": "False (NotJudged)",
        "Stalled": "True (NotJudged)",
    }
    assert "more than 256 MiB" in (status.message or "")
    assert status.results_ref is not None


def test_objectives_that_nobody_judged_are_unknown() -> None:
    objectives = [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 25}]
    scene = Scene().with_spec(objectives=objectives).measuring().arrived(0, 1)
    status = (
        scene.with_answers({LOG: Answer(None), TO_THE_END: NOT_JUDGED})
        .decide()
        .status
    )
    assert standing(status, "ObjectivesMet")["ObjectivesMet"].startswith("Unknown")


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(
            Scene().measuring().arrived(0, 1), id="the last record has come"
        ),
        pytest.param(
            Scene(spec=URL_ENDPOINT).measuring().arrived(0, 1), id="at an endpoint"
        ),
        pytest.param(
            Scene().measuring().arrived(0).with_spec(cancel=True),
            id="the run is cancelled",
        ),
        pytest.param(
            Scene().measuring().arrived(0).pod("server", restarts=1),
            id="the server is another one",
        ),
    ],
)
def test_nothing_of_a_server_is_held_for_what_is_to_be_judged(scene: Scene) -> None:
    decision = scene.decide()
    assert (decision.forget, decision.status.results) == (False, [])
    assert deleted(decision)[:1] == [
        c.kind for c in scene.objects if c.kind == "Deployment"
    ]


# ---- ended early
# ---------------------------------------------------------------------------------------------------


def test_a_run_that_measured_nothing_has_nothing_to_judge() -> None:
    decision = Scene().measuring().with_spec(cancel=True).decide()
    assert (decision.lookups, decision.forget, decision.status.phase) == (
        (),
        True,
        "Cancelled",
    )


def test_a_run_that_ends_early_lets_go_first_too() -> None:
    decision = CANCELLED.decide()
    assert deleted(decision) == ["Deployment", "Job"]
    assert (decision.lookups, decision.forget) == ((EARLY,), False)
    assert decision.ending == Ending("Cancelled", "cancelled by spec.cancel")
    assert standing(decision.status, "Failed", "Complete") == {
        "Failed": "False (Cancelled)",
        "Complete": "False (Cancelled)",
    }
    status = CANCELLED.ended().status
    assert (status.phase, [r.repeats for r in status.results]) == (
        "Cancelled",
        [1, 0],
    )


def test_cancelled_servers_go_at_once_with_records_unstored() -> None:
    decision = Scene().measuring().arrived(0).with_spec(cancel=True).decide()
    assert (deleted(decision), applied(decision)) == (
        ["Deployment", "Job"],
        ["ConfigMap stage 0"],
    )
    assert not decision.forget


def test_what_was_measured_of_a_run_that_ends_early_may_stay_unjudged() -> None:
    status = CANCELLED.with_answers({EARLY: NOT_JUDGED}).decide().status
    assert (status.phase, status.verdict, status.results) == (
        "Cancelled",
        "Unknown",
        [],
    )
    assert standing(status, "Failed", "Valid") == {
        "Failed": "True (Cancelled)",
        "Valid": "Unknown (Cancelled)",
    }
    assert "more than 256 MiB" in (status.message or "")


DIED = STORED.pod("server", restarts=1).log_read()


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(lambda s: s, id="by memory"),
        pytest.param(
            Scene.operator_restarted,
            id="by the status: the operator was started again",
        ),
    ],
)
def test_why_it_ends_is_kept_until_it_has_ended(later: Any) -> None:
    first = DIED.decide()
    assert first.ending is not None
    assert DIED.settled().status["ending"]["reason"] == "ServerRestarted"
    scene = (
        later(DIED.knowing(ending=first.ending).settled())
        .without("Deployment", "server")
        .without("Job", "client")
    )
    waiting = scene.at(400).decide()
    assert (waiting.status.phase, waiting.lookups, waiting.ending) == (
        "Collecting",
        (EARLY,),
        first.ending,
    )
    assert waiting.apply == ()
    ended = scene.at(400).ended().status
    assert standing(ended, "Failed") == {"Failed": "True (ServerRestarted)"}
    assert (ended.server_released_time, ended.ending) == (
        "2026-01-01T00:05:00Z",
        None,
    )


def test_an_end_that_is_kept_is_not_undone_by_a_better_world() -> None:
    ending = Ending("ServerRestarted", "it restarted")
    healthy_again = (
        STORED.knowing(ending=ending)
        .settled()
        .operator_restarted()
        .reports(phase="Measuring")
    )
    assert healthy_again.decide().ending == ending
    assert "Deployment" in deleted(healthy_again.decide())


def test_suspending_a_run_that_ends_does_not_bring_it_back() -> None:
    ending = (
        Scene()
        .server_loading()
        .pod("server", terminated=SERVER_DIED)
        .settled()
        .operator_restarted()
    )
    assert ending.status["ending"]["reason"] == "UsageError"
    gone = ending.without("Deployment", "server").with_spec(suspend=True)
    assert gone.decide().status.phase == "Failed"


# ---- the server's log
# ----------------------------------------------------------------------------------------------

MEASURED = Scene().measuring().arrived(0, 1).at(300)


def test_compilations_from_the_log_are_judged() -> None:
    within = MEASURED.measured[0].first_send_unix_us / 1e6 + 0.1
    status = MEASURED.with_answers({LOG: Answer((within,))}).ended().status
    assert "CompilationInWindow" in {finding.code for finding in status.findings}


@pytest.mark.parametrize("found", [(), (1.0, 2.5)])
def test_what_the_log_held_stands_with_the_server_even_if_it_is_nothing(
    found: tuple[float, ...],
) -> None:
    (server,) = MEASURED.with_answers({LOG: Answer(found)}).ended().status.servers
    assert server.compilations is not None
    assert (server.compilations.count, tuple(server.compilations.at)) == (
        len(found),
        found,
    )


def test_a_log_that_could_not_be_read_is_left_out_and_holds_up_nothing() -> None:
    status = MEASURED.ended().status
    assert (status.phase, status.servers[0].compilations) == ("Completed", None)


def test_the_log_of_the_measurement_is_looked_up_while_the_server_goes() -> None:
    decision = MEASURED.decide()
    assert (deleted(decision), decision.lookups, decision.forget) == (
        ["Deployment"],
        (LOG,),
        False,
    )


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(
            Scene(spec=URL_ENDPOINT).measuring().arrived(0, 1),
            id="an endpoint's is not ours",
        ),
        pytest.param(
            MEASURED.with_spec(server={"image": "v", "replicas": 2}),
            id="one of several vouches for none",
        ),
        pytest.param(
            MEASURED.with_answers({LOG: Answer((1.0,))})
            .settled()
            .operator_restarted(),
            id="it stands in the status",
        ),
        pytest.param(
            Scene().measuring().arrived(0).with_spec(cancel=True),
            id="the run ends early",
        ),
        pytest.param(Scene().measuring().arrived(0), id="it goes on"),
    ],
)
def test_no_log_is_looked_up(scene: Scene) -> None:
    assert not any(
        isinstance(query, Compilations) for query in scene.decide().lookups
    )


# ---- what holds nobody up
# ------------------------------------------------------------------------------------------

DIED_LOADING = Scene().server_loading().pod("server", terminated=SERVER_DIED)


def test_a_log_that_cannot_be_read_never_keeps_a_server() -> None:
    """Once: the deletion came with the pass after the log, and that pass raised for ever."""
    first = DIED_LOADING.at(SCHEDULED + 60).decide()
    assert first.last_words is not None
    assert deleted(first) == ["Deployment", "Job"]
    answered = (
        DIED_LOADING.at(SCHEDULED + 60)
        .with_answers({first.last_words: Answer(None, "500 from the kubelet")})
        .decide()
    )
    assert (
        answered.status.phase,
        answered.status.log_tail,
        answered.last_words,
    ) == (
        "Failed",
        None,
        None,
    )


@pytest.mark.parametrize(
    "through",
    [{"silent": True}, {"mismatch": "the client speaks version 1, the operator 2"}],
)
def test_a_client_that_cannot_be_heard_moves_no_deadline(
    through: dict[str, Any],
) -> None:
    """Once: nothing but silence of the network counted, and a client that talked nonsense put all
    ends off."""
    late = (
        Scene()
        .measuring()
        .settled()
        .operator_restarted()
        .with_spec(runDeadlineSeconds=10)
        .at(5000)
    )
    assert late.decide().ending is None
    known = late.client(**through).decide()
    assert known.ending is not None
    assert deleted(known) == ["Deployment", "Job"]


def test_a_measured_endpoint_is_not_taken_for_one_that_never_answered_after_a_restart() -> (
    None
):
    """Once: the client that a new operator had not heard yet was not ready in time, however long it
    had measured."""
    limits = {"startupDeadlineSeconds": 600, "runDeadlineSeconds": 100_000}
    scene = (
        Scene(spec=URL_ENDPOINT | limits)
        .measuring()
        .settled()
        .operator_restarted()
        .client(silent=True)
    )
    assert scene.at(5000).decide().ending is None
    assert scene.at(200_000).decide().ending is not None


def test_a_client_that_speaks_another_contract_ends_the_run() -> None:
    scene = (
        Scene()
        .client_ready()
        .client(
            progress=None, mismatch="the client speaks version 1, the operator 2"
        )
    )
    decision = scene.decide()
    assert standing(decision.status, "Failed") == {
        "Failed": "True (ContractMismatch)"
    }
    assert "version 1" in (decision.status.message or "")
    assert decision.forget


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(
            STORED.client(lost_record=1), id="it was acknowledged and is not stored"
        ),
        pytest.param(
            STORED.pod("client", phase="Succeeded"), id="the client has left"
        ),
    ],
)
def test_a_run_whose_records_are_nowhere_ends(scene: Scene) -> None:
    """Once: exit 0 with a record missing was waited on until the run's deadline."""
    decision = scene.decide()
    assert decision.ending is not None
    assert decision.ending.reason == "RecordsMissing"
    assert deleted(decision)[:1] == ["Deployment"]
    assert standing(scene.ended().status, "Failed") == {
        "Failed": "True (RecordsMissing)"
    }


def test_a_record_that_was_found_after_all_is_not_missing() -> None:
    assert STORED.client(lost_record=0).decide().status.phase == "Running"


def test_a_client_that_has_left_with_everything_stored_is_no_end() -> None:
    assert (
        STORED.stored(1).pod("client", phase="Succeeded").ended().status.phase
        == "Completed"
    )


def test_the_clients_clock_moves_no_deadline() -> None:
    """Once: a client a year ahead had a year and a run's time, and one behind ended the run at
    once."""
    limited = Scene().with_spec(runDeadlineSeconds=100).server_loading()
    for wrong in (3e7, -3e7):
        ready = (
            limited.reports(
                phase="WarmingUp", healthy_unix_us=int((1767225600 + wrong) * 1e6)
            )
            .at(HEALTHY)
            .settled()
        )
        assert (
            ready.at(HEALTHY + 50 if wrong > 0 else SCHEDULED + 50).decide().ending
            is None
        )
        ends = ready.at(HEALTHY + 101).decide()
        assert ends.ending is not None
        assert ends.ending.reason == "RunDeadlineExceeded"
