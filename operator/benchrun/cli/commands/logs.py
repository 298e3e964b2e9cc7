"""`benchrun logs NAME`: what the server and the client of a run write."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from rich.console import Console

from benchrun import names
from benchrun.api import plain_text
from benchrun.cli.errors import CommandError, KubectlError, explained
from benchrun.cli.kubectl import Kubectl, add_cluster_options, kubectl_of
from benchrun.cli.processes import FollowedProcess, Streaming, streaming
from benchrun.cli.show import Terminal
from benchrun.observe import raw
from benchrun.observe.trim import MAIN_CONTAINERS, SERVER_CONTAINER, pod_of, run_of
from benchrun.observe.views import Pod, Run
from benchrun.report.exit_codes import PASSED

# ---- log streams ------------------------------------------------------------------------------------------------------
# Log lines of a run's pods, as kubectl gives them.

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


# ---- logs -------------------------------------------------------------------------------------------------------------
# `benchrun logs NAME`: what the server and the client of a run write.

DESCRIPTION = """\
The logs of a run's server and client, as they are or as they grow.

The pods go when the run ends. Of a server that failed the last words are kept in the run's status, and shown then."""
ROLES = (*names.SERVING_ROLES, names.ROLE_CLIENT)
DEFAULT_TAIL = 100
MAX_TAIL_CHARACTERS = 8192


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "logs",
        help="show or follow what a run's server and client write",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("name", help="name of the BenchmarkRun")
    add("--role", choices=ROLES, action="append", help="only this one's (default: all that the run has)")
    add(
        "-f",
        "--follow",
        action="store_true",
        help="go on until the run has ended; pods that are not there yet are awaited",
    )
    add(
        "--tail",
        type=int,
        default=None,
        metavar="LINES",
        help=f"only the last lines (default: {DEFAULT_TAIL}; -1: all)",
    )
    add_cluster_options(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Line by line, each with who wrote it where that is not clear. Raises CommandError."""
    kubectl = kubectl_of(options)
    found = run_of(kubectl.get(options.name))
    roles = tuple(dict.fromkeys(options.role or roles_of(found)))
    tail = options.tail if options.tail is not None else DEFAULT_TAIL
    lines = log_lines_of(kubectl, found, roles, follow=options.follow, tail=tail)
    seen: set[str] = set()
    for line in lines:
        _print(line, console, named=len(roles) > 1)
        seen.add(line.role)
    left = run_of(kubectl.get(options.name)) if len(seen) < len(roles) else found
    silent = [role for role in roles if role != names.ROLE_CLIENT]
    if not seen & set(silent) and silent and _print_last_words(left, console):
        seen.update(silent)
    _say_what_lacks(left, [role for role in roles if role not in seen], anything=bool(seen))
    return PASSED


def roles_of(run: Run) -> tuple[str, ...]:
    """The roles that the run's spec asks for, the client among them."""
    split = raw.mapping(run.spec.get("server")).get("disaggregated") is not None
    servers = (names.ROLE_PREFILL, names.ROLE_DECODE, names.ROLE_PROXY) if split else (names.ROLE_SERVER,)
    return (*servers, names.ROLE_CLIENT)


def _print(line: LogLine, console: Console, *, named: bool) -> None:
    """As it was written, but for what would steer the terminal: neither markup nor its width changes a log."""
    text = plain_text(line.text)
    console.file.write(f"{line.who} | {text}\n" if named else f"{text}\n")
    console.file.flush()


def _print_last_words(run: Run, console: Console) -> bool:
    """Whether there are any."""
    tail = raw.text(run.status.get("logTail"), MAX_TAIL_CHARACTERS).rstrip("\n")
    if tail:
        console.print("the server's pod is gone; its last words, as the run keeps them:", style="dim")
        console.file.write(f"{plain_text(tail)}\n")
    return bool(tail)


def _say_what_lacks(run: Run, silent: Sequence[str], *, anything: bool) -> None:
    """Raises CommandError where there was nothing at all to show."""
    if not silent:
        return
    who = " and ".join(silent)
    if run.status.get("completionTime") is None:
        waits = raw.text(run.status.get("message"), 1024) or "no operator has looked at the run yet"
        text = f"{who}: no log yet ({waits}); -f waits for it"
    else:
        text = (
            f"{who}: the pods went when the run ended, and their logs with them; only a failed server's last words are "
            f"kept. A log collector of the cluster has them by the label {names.LABEL_RUN}={run.name}"
        )
    if not anything:
        raise CommandError(text)
    Terminal(stderr=True).print(text, style="dim", markup=False, soft_wrap=True)
