"""The frame of the checks: which ending counts, how often it happened, which diagnosis wins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchrun.observe.failures.check import Check, Evidence, diagnosis_of, evidence_of, first_diagnosis, sentence
from benchrun.observe.failures.diagnosis import SERVER_CHECKS
from benchrun.observe.failures.pods import evicted
from benchrun.observe.last_words import CAUSE_IS_ABOVE
from benchrun.observe.trim import pod_of
from benchrun.observe.views import Diagnosis, Pod
from unit.observe.bodies import ended, gone, pod_body, waiting

RUNNING = pod_of(pod_body())
CRASHED = {"terminated": {"exitCode": 1, "reason": "Error", "message": "x"}}


@pytest.mark.parametrize(
    ("endings", "pod"),
    [
        pytest.param(0, RUNNING, id="never"),
        pytest.param(1, ended(1), id="once, just now"),
        pytest.param(1, ended(1, restarts=1, again=True), id="once, and runs again"),
        pytest.param(2, ended(1, restarts=1), id="twice, just now"),
        pytest.param(3, waiting("CrashLoopBackOff", restartCount=2, lastState=CRASHED), id="three times, and waits"),
        pytest.param(0, waiting("ContainerCreating"), id="not even begun"),
    ],
)
def test_how_often_a_container_ended(endings: int, pod: Pod) -> None:
    assert evidence_of(pod, None).endings == endings


HIDDEN = f"RuntimeError: Engine core initialization failed. {CAUSE_IS_ABOVE}"


@pytest.mark.parametrize(
    ("log", "tail", "pod"),
    [
        pytest.param("message", None, ended(1, "message"), id="its termination message"),
        pytest.param("message", None, ended(1, "message", restarts=1, again=True), id="that of the time before"),
        pytest.param("message", "tail", ended(1, "message"), id="its message even when a tail was fetched"),
        pytest.param("tail", "tail", ended(1, ""), id="the fetched tail where there is no message"),
        pytest.param("tail", "tail", ended(1, HIDDEN), id="the fetched tail where the message points further up"),
        pytest.param(HIDDEN, "", ended(1, HIDDEN), id="unless that is empty"),
        pytest.param("", "tail", RUNNING, id="nothing of a container that never ended"),
    ],
)
def test_which_log_is_read(log: str, tail: str | None, pod: Pod) -> None:
    assert evidence_of(pod, tail).log == log


def says(word: str, *, terminal: bool) -> Check:
    """A check that fires where the log has the word."""

    def check(evidence: Evidence) -> Diagnosis | None:
        return Diagnosis(word, word, terminal) if evidence.says(word) else None

    return check


HOPELESS, HOPEFUL = says("hopeless", terminal=True), says("hopeful", terminal=False)


@pytest.mark.parametrize(
    ("reason", "logs"),
    [
        pytest.param("hopeful", ["hopeful"], id="one that may resolve"),
        pytest.param("hopeless", ["hopeful", "hopeless"], id="the hopeless one of two pods"),
        pytest.param("hopeful", ["hopeful hopeless"], id="of one pod the first check"),
        pytest.param(None, ["fine"], id="none"),
        pytest.param(None, [], id="no pods"),
    ],
)
def test_which_diagnosis_wins(reason: str | None, logs: list[str]) -> None:
    found = first_diagnosis((evidence_of(ended(1, log), None) for log in logs), [HOPEFUL, HOPELESS])
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize(
    ("reason", "pods"),
    [
        pytest.param("Evicted", [gone("PreemptionByScheduler", deleting=True)], id="why it leaves"),
        pytest.param(
            None, [replace(ended(1, "hopeless"), deleting=True)], id="how its container ended then is no cause"
        ),
        pytest.param(
            "hopeless", [gone("Evicted", deleting=True), ended(1, "hopeless")], id="a hopeless pod that stays"
        ),
        pytest.param("Evicted", [gone("Evicted", deleting=True), ended(1, "hopeful")], id="is more than a hopeful one"),
    ],
)
def test_pods_that_are_being_deleted(reason: str | None, pods: list[Pod]) -> None:
    found = diagnosis_of(pods, [HOPEFUL, HOPELESS], if_deleted=evicted, log_tail=None)
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize("check", SERVER_CHECKS, ids=lambda check: check.__name__)
def test_every_check_is_silent_of_a_server_that_loads(check: Check) -> None:
    assert check(evidence_of(RUNNING, None)) is None


@pytest.mark.parametrize("check", SERVER_CHECKS, ids=lambda check: check.__name__)
def test_every_check_says_what_it_looks_for(check: Check) -> None:
    assert check.__doc__


@pytest.mark.parametrize("what", ["It broke", "It broke.", "It broke. "])
def test_a_sentence_has_one_full_stop(what: str) -> None:
    assert sentence(what, remedy="Mend it.") == "It broke. Mend it."
