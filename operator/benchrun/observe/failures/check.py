"""What a check gets and returns. Checks are pure, look at one pod, and stay silent unless they are sure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchrun.names import ROLE_CLIENT, ROLE_DECODE, ROLE_PREFILL, ROLE_PROXY
from benchrun.observe.last_words import CAUSE_IS_ABOVE, last_words
from benchrun.observe.views import Diagnosis, Pod, Termination

_SPLIT = "spec.server.disaggregated"
_PATHS = {ROLE_CLIENT: "spec.client", ROLE_PROXY: f"{_SPLIT}.proxy"}
_OWN_RESOURCES = {role: f"{_SPLIT}.{role}" for role in (ROLE_PREFILL, ROLE_DECODE)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A pod, and what its main container left behind."""

    pod: Pod
    log: str
    """End of the container's log: the fetched tail where there is one, else its termination message."""
    words: str
    """The error in it, without the traceback."""

    @property
    def ending(self) -> Termination | None:
        """How the container ended last; a container that was started again is told by its ending before."""
        return self.pod.terminated or self.pod.last_terminated

    @property
    def exit_code(self) -> int | None:
        """Exit code of that ending."""
        return None if self.ending is None else self.ending.exit_code

    @property
    def endings(self) -> int:
        """How often the container has ended; while it runs again, its restarts are its endings."""
        runs_now = self.pod.terminated is None and self.pod.waiting_reason is None
        return 0 if self.ending is None else self.pod.restarts + (0 if runs_now else 1)

    @property
    def spec_path(self) -> str:
        """Where in the spec this pod is described."""
        return _PATHS.get(self.pod.role, "spec.server")

    @property
    def resources_path(self) -> str:
        """Where its resources are asked for."""
        return f"{_OWN_RESOURCES.get(self.pod.role, self.spec_path)}.resources"

    @property
    def is_cause_hidden(self) -> bool:
        """The error only points to one further up in the log than this reaches."""
        return CAUSE_IS_ABOVE in self.words

    def says(self, *phrases: str) -> bool:
        """Whether the log holds one of these phrases, in any case."""
        log = self.log.lower()
        return any(phrase.lower() in log for phrase in phrases)


Check = Callable[[Evidence], Diagnosis | None]


def evidence_of(pod: Pod, log_tail: str | None) -> Evidence:
    """A pod's evidence. The fetched log speaks only where the termination message is silent or points further up: by the
    time it is fetched the container may run again."""
    ending = pod.terminated or pod.last_terminated
    message = ending.message if ending is not None else ""
    told = Evidence(pod=pod, log=message, words=last_words(message))
    if ending is None or not log_tail or (message and not told.is_cause_hidden):
        return told
    return Evidence(pod=pod, log=log_tail, words=last_words(log_tail))


def first_diagnosis(found: Iterable[Evidence], checks: Iterable[Check]) -> Diagnosis | None:
    """The first terminal diagnosis of any pod, else the first that may still resolve."""
    ordered = list(checks)
    each = [next((d for check in ordered if (d := check(evidence)) is not None), None) for evidence in found]
    told = [diagnosis for diagnosis in each if diagnosis is not None]
    return next((diagnosis for diagnosis in told if diagnosis.terminal), told[0] if told else None)


def diagnosis_of(
    pods: Iterable[Pod], checks: Iterable[Check], *, if_deleted: Check, log_tail: str | None
) -> Diagnosis | None:
    """By all checks for pods that stay; by one for those being deleted, whose containers end because they are."""
    listed = list(pods)
    staying = (evidence_of(pod, log_tail) for pod in listed if not pod.deleting)
    leaving = (evidence_of(pod, None) for pod in listed if pod.deleting)
    found = first_diagnosis(staying, checks)
    return found if found is not None and found.terminal else first_diagnosis(leaving, (if_deleted,)) or found


def sentence(what: str, *, remedy: str) -> str:
    """What happened and what to change, as one message."""
    return f"{what.rstrip('. ')}. {remedy}"
