"""Log lines of a run's pods, as kubectl gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from benchrun.cli.followed_process import FollowedProcess
from benchrun.cli.kubectl import Kubectl
from benchrun.cli.kubectl_errors import KubectlError, explained
from benchrun.cli.lines_of import Streaming, streaming
from benchrun.observe import raw
from benchrun.observe.trim import MAIN_CONTAINERS, SERVER_CONTAINER, pod_of
from benchrun.observe.views import Pod, Run

LOOK_AGAIN_SECONDS = 2.0
"""For pods that are not there yet, and for the end of the run."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line."""

    who: str
    """Role of the pod; its name where the role has several."""
    role: str
    text: str


def log_lines_of(kubectl: Kubectl, run: Run, roles: Sequence[str], *, follow: bool, tail: int) -> Iterator[LogLine]:
    """As they are now, role after role; `follow`: as they come, until the run has ended. Raises KubectlError."""
    if not follow:
        for role in roles:
            pods = _with_log(kubectl, run, role)
            for pod in pods:
                yield from _lines(kubectl, pod, _who(pod, pods), options=[f"--tail={tail}"])
        return
    ends = SimpleQueue[LogLine | KubectlError | None]()
    followers = [_Follower(kubectl, run, role, tail, ends) for role in roles]
    try:
        for follower in followers:
            follower.start()
        left = len(followers)
        while left:
            heard = ends.get()
            if isinstance(heard, KubectlError):
                raise heard
            if heard is None:
                left -= 1
            else:
                yield heard
    finally:
        for follower in followers:
            follower.stop()


class _Follower(FollowedProcess):
    """Follows the pods of one role: None is its last word."""

    def __init__(
        self, kubectl: Kubectl, run: Run, role: str, tail: int, heard: SimpleQueue[LogLine | KubectlError | None]
    ) -> None:
        super().__init__(f"logs-{role}")
        self._kubectl, self._run, self._role, self._tail, self._heard = kubectl, run, role, tail, heard

    def _failed(self, error: KubectlError) -> None:
        self._heard.put(error)

    def _until_the_end(self) -> None:
        """A container that was started again writes a log of its own."""
        read: set[tuple[str, int]] = set()
        while not self._stopped.is_set():
            over = self._run_has_ended()
            pods = _with_log(self._kubectl, self._run, self._role)
            new = [pod for pod in pods if (pod.uid, pod.restarts) not in read]
            for pod in new:
                self._read(pod, _who(pod, pods))
                read.add((pod.uid, pod.restarts))
            if over:
                break
            if not new:
                self._stopped.wait(LOOK_AGAIN_SECONDS)
        self._heard.put(None)

    def _read(self, pod: Pod, who: str) -> None:
        options = ["--follow", f"--tail={self._tail}"]
        for line in _lines(self._kubectl, pod, who, options=options, begun=self._begun):
            self._heard.put(line)

    def _run_has_ended(self) -> bool:
        body = self._kubectl.find(self._run.name)
        if body is None or raw.text(raw.mapping(body.get("metadata")).get("uid")) != self._run.uid:
            return True
        return raw.mapping(body.get("status")).get("completionTime") is not None


def _with_log(kubectl: Kubectl, run: Run, role: str) -> list[Pod]:
    """Pods of the run whose container has begun at least once, the oldest first."""
    pods = [pod_of(body) for body in kubectl.pods(run.uid, role)]
    begun = [
        pod
        for pod in pods
        if pod.run_uid == run.uid and (pod.started_at is not None or pod.last_terminated is not None)
    ]
    return sorted(begun, key=lambda pod: (str(pod.created_at), pod.name))


def _who(pod: Pod, pods: Sequence[Pod]) -> str:
    return pod.role if len(pods) == 1 else pod.name


def _lines(
    kubectl: Kubectl, pod: Pod, who: str, *, options: Sequence[str], begun: Callable[[Streaming], object] | None = None
) -> Iterator[LogLine]:
    """Raises KubectlError, but not where the pod has gone meanwhile. `begun` gets the process, to end it early."""
    container = MAIN_CONTAINERS.get(pod.role, SERVER_CONTAINER)
    with streaming(kubectl.command("logs", pod.name, f"--container={container}", *options)) as process:
        if begun is not None:
            begun(process)
        for line in process.lines():
            yield LogLine(who, pod.role, line.rstrip("\n"))
        code, said = process.ended()
    if code != 0:
        error = explained(said)
        if error.trouble != "NotFound":
            raise error
