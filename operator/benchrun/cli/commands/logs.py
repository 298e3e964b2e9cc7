"""`benchrun logs NAME`: show what the server and the client of a run write."""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from rich.console import Console

from benchrun import names
from benchrun.api import plain_text
from benchrun.cli import cluster, console_tables, errors, shared_options
from benchrun.observe import untrusted_json as raw, view_builders, views
from benchrun.report.exit_codes import PASSED

SUMMARY = "show or follow what a run's server and client write"
DESCRIPTION = (
    "Show the logs of a run's server and client as they are, or follow them as they "
    "grow. The pods are deleted when the run ends. The end of a failed server's log "
    "is kept in the run's status; then it is shown."
)
ROLES = (*names.SERVING_ROLES, names.ROLE_CLIENT)
DEFAULT_TAIL = 100
MAX_TAIL_CHARACTERS = 8192
# Seconds between two checks for new pods and for the end of the run.
LOOK_AGAIN_SECONDS = 2.0
LOOK_BESIDE_SECONDS = 10.0  # The same, while a log is printed.


@dataclass(slots=True)
class _Logs:
    """Prints the log lines of a run's pods as kubectl gives them."""

    kubectl: cluster.Kubectl
    run: views.Run
    roles: Sequence[str]
    tail: int
    console: Console
    shown: set[str] = field(default_factory=set)  # Roles that have printed a line.

    async def print_now(self) -> None:
        """Print the current logs, role after role. Raises KubectlError."""
        for role in self.roles:
            pods = _with_log(self.kubectl, self.run, role)
            for pod in pods:
                await self._print(pod, pods)

    async def follow(self) -> None:
        """Print the logs as they grow, until the run has ended. Raises KubectlError."""
        await asyncio.gather(*(self._follow(role) for role in self.roles))

    async def _follow(self, role: str) -> None:
        """Print the logs of a role's pods, all at once, until the run has ended.

        A container that restarts writes a new log, which is printed, too.
        """
        read: set[tuple[str, int]] = set()
        following: set[asyncio.Task[None]] = set()
        has_ended = False
        try:
            while following or not has_ended:
                has_ended = has_ended or await asyncio.to_thread(self._has_ended)
                pods = await asyncio.to_thread(
                    _with_log, self.kubectl, self.run, role
                )
                for pod in pods:
                    if (pod.uid, pod.restarts) not in read:
                        read.add((pod.uid, pod.restarts))
                        printing = self._print(pod, pods, "--follow")
                        following.add(asyncio.create_task(printing))
                following = await _first_ended(following, wait=not has_ended)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    def _has_ended(self) -> bool:
        body = self.kubectl.find(self.run.name)
        if (
            body is None
            or raw.text(raw.mapping(body.get("metadata")).get("uid"))
            != self.run.uid
        ):
            return True
        return view_builders.is_finished(raw.mapping(body.get("status")))

    async def _print(
        self, pod: views.Pod, pods: Sequence[views.Pod], *options: str
    ) -> None:
        """Print a pod's log lines without control characters; print nothing if the pod is gone.

        Raises KubectlError.
        """
        lead = (
            f"{pod.role if len(pods) == 1 else pod.name} | "
            if len(self.roles) > 1 or len(pods) > 1
            else ""
        )
        container = view_builders.main_container(pod.role)
        written = self.kubectl.lines(
            "logs",
            pod.name,
            f"--container={container}",
            *options,
            f"--tail={self.tail}",
        )
        try:
            async with aclosing(written) as lines:
                async for line in lines:
                    self.shown.add(pod.role)
                    self.console.file.write(f"{lead}{plain_text(line)}\n")
                    self.console.file.flush()
        except errors.KubectlError as error:
            if error.trouble != "NotFound":
                raise


async def _first_ended(
    following: set[asyncio.Task[None]], *, wait: bool
) -> set[asyncio.Task[None]]:
    """Wait until a log ends, or it is time to look for new pods; return the logs that go on.

    If there are no logs, wait only if `wait` says that one may still come. Raises KubectlError.
    """
    if not following:
        await asyncio.sleep(LOOK_AGAIN_SECONDS if wait else 0)
        return following
    done, left = await asyncio.wait(
        following,
        timeout=LOOK_BESIDE_SECONDS,
        return_when=asyncio.FIRST_COMPLETED,
    )
    for task in done:
        task.result()
    return left


def _with_log(
    kubectl: cluster.Kubectl, run: views.Run, role: str
) -> list[views.Pod]:
    """Return the run's pods whose container has started at least once, the oldest first."""
    selector = f"{names.LABEL_RUN_UID}={run.uid},{names.LABEL_ROLE}={role}"
    pods = map(view_builders.pod_of, kubectl.all("pods", selector=selector))
    begun = [
        pod
        for pod in pods
        if pod.started_at is not None or pod.last_terminated is not None
    ]
    return sorted(
        (pod for pod in begun if pod.run_uid == run.uid),
        key=lambda pod: (str(pod.created_at), pod.name),
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", help="name of the BenchmarkRun")
    add(
        "--role",
        choices=ROLES,
        action="append",
        help="show only the logs of this role (default: all roles of the run)",
    )
    add(
        "-f",
        "--follow",
        action="store_true",
        help="follow the logs until the run has ended; wait for pods that do not exist yet",
    )
    last = f"show only the last lines (default: {DEFAULT_TAIL}; -1: all)"
    add("--tail", type=int, default=DEFAULT_TAIL, metavar="LINES", help=last)
    shared_options.add_cluster_options(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    kubectl = cluster.kubectl_of(options)
    found = view_builders.run_of(kubectl.get(options.name))
    roles = tuple(dict.fromkeys(options.role or roles_of(found)))
    logs = _Logs(kubectl, found, roles, options.tail, console)
    asyncio.run(logs.follow() if options.follow else logs.print_now())
    seen = logs.shown
    left = (
        view_builders.run_of(kubectl.get(options.name))
        if len(seen) < len(roles)
        else found
    )
    servers = [role for role in roles if role != names.ROLE_CLIENT]
    kept = raw.text(left.status.get("logTail"), MAX_TAIL_CHARACTERS).rstrip("\n")
    if kept and servers and not seen & set(servers):
        console.print(
            "the server's pod is gone; this is the end of its log, from the run's "
            "status:",
            style="dim",
        )
        console.file.write(f"{plain_text(kept)}\n")
        seen.update(servers)
    _explain_missing(
        left, [role for role in roles if role not in seen], anything=bool(seen)
    )
    return PASSED


def roles_of(run: views.Run) -> tuple[str, ...]:
    split = raw.mapping(run.spec.get("server")).get("disaggregated") is not None
    servers = (
        (names.ROLE_PREFILL, names.ROLE_DECODE, names.ROLE_PROXY)
        if split
        else (names.ROLE_SERVER,)
    )
    return (*servers, names.ROLE_CLIENT)


def _explain_missing(
    run: views.Run, silent: Sequence[str], *, anything: bool
) -> None:
    """Print why these roles have no log. Raises CommandError if no role had anything to show."""
    if not silent:
        return
    who = " and ".join(silent)
    if not view_builders.is_finished(run.status):
        waits = (
            raw.text(run.status.get("message"), 1024)
            or "no operator has processed the run yet"
        )
        text = f"{who}: no log yet ({waits}); use -f to wait for it"
    else:
        text = (
            f"{who}: the pods were deleted with their logs when the run ended; only the end of a "
            "failed server's log "
            "is kept. Look in the cluster's log collector for the label "
            f"{names.LABEL_RUN}={run.name}"
        )
    if not anything:
        raise errors.CommandError(text)
    console_tables.Terminal(stderr=True).print(
        text, style="dim", markup=False, soft_wrap=True
    )
