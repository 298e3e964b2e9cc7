"""A fault, tried on a run whose pods the test plays: brought about, and measured."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from kit.faults import (
    BY_NAME,
    COMPLETED,
    FAILED,
    GONE,
    TOLD_SECONDS,
    Fault,
    Measured,
    assert_as_declared,
    record,
)
from kit.kubectl import Object, command
from kit.lost_node import bind, lost_node
from kit.played import STAGES, PlayedCluster, PlayedRun
from kit.runs import condition

FOREVER_SECONDS = 3600.0
STAGE_SECONDS = 1.0
APART_SECONDS = 0.5  # between trials that share an operator
# the condition whose reason counts
ENDED_BY = {
    FAILED: "Failed",
    COMPLETED: "Complete",
}
PATIENCE = 2
"""Factor of the allowed time up to which a delay is still measured, so that the failure reports
it."""


Outcomes = dict[str, Measured | BaseException]


class Trial:
    """One run, and how far its fault is."""

    def __init__(
        self, played: PlayedCluster, fault: Fault, *, node: str = ""
    ) -> None:
        self.played = played
        self.fault = fault
        # when the fault showed (`time.monotonic()`)
        self.shown_at: float | None = None
        self._node = node  # a node whose kubelet can't be reached
        self._run: PlayedRun | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._ends: list[Callable[[], Awaitable[None]]] = []

    @property
    def run(self) -> PlayedRun:
        """Return the run, once there is one."""
        assert self._run is not None
        return self._run

    def shown(self) -> None:
        """Record that the fault shows from now on; an earlier instant stays."""
        self.shown_at = self.shown_at or time.monotonic()

    # ---- how far the run comes
    # ---------------------------------------------------------------------------------------

    async def begins(self, **spec: Any) -> None:
        """Create the run."""
        self._run = await self.played.apply(self.fault.name, **spec)

    async def has_server(self, **spec: Any) -> None:
        """Start the client, and wait until the server has a pod."""
        await self.has_client(**spec)
        await self.played.gets(self.run, "Pod", "server")

    async def has_client(self, **spec: Any) -> None:
        """Create the run and start its client."""
        await self.begins(**spec)
        await self.played.client_starts(self.run)

    async def measures(self, **spec: Any) -> None:
        """Create the run, and measure a stage that does not end."""
        await self.has_client(**spec)
        await self.played.server_starts(self.run)
        await self.goes_on_measuring()

    async def goes_on_measuring(self, *, after_stages: int = 0) -> None:
        """Measure so many stages that end soon, then one that does not.

        The server must be there.
        """
        began = time.monotonic()
        ends = [began + STAGE_SECONDS] * after_stages
        ends += [began + FOREVER_SECONDS] * (STAGES - after_stages)
        stages = self.run.client.measure(self.run.server, ends=ends)
        self._measuring = asyncio.create_task(stages)
        await self.played.reaches(self.run, "Running")
        await self.played.until(
            lambda: (
                len(self.played.children(self.run, "ConfigMap", "stage"))
                >= after_stages
            ),
            what=f"{after_stages} stages of {self.run.name} are stored",
        )

    def measures_all(self) -> None:
        """Measure every stage from now on; the client ends once all are acknowledged.

        The server must be there.
        """
        self._measuring = asyncio.create_task(self._measured_all())

    async def _measured_all(self) -> None:
        began = time.monotonic()
        ends = [began + (n + 1) * STAGE_SECONDS for n in range(STAGES)]
        await self.run.client.measure(self.run.server, ends=ends)
        self.run.client.finish()
        if await self.run.client.told(seconds=FOREVER_SECONDS):
            await self.played.client_exits(self.run)

    async def is_on_a_lost_node(self, role: str) -> None:
        """Bind the pod to the lost node, where it stays: no kubelet says that it has ended."""
        pod = await self.played.gets(self.run, "Pod", role)
        await bind(self.played.api, self.played.namespace, pod, node=self._node)

    async def pod_says(self, role: str, status: Object) -> None:
        """Write the pod's status, which shows the fault."""
        await self.played.write_pod(self.run, role, status)
        self.shown()

    async def pod_is_deleted(self, role: str) -> None:
        """Delete the pod, which shows the fault."""
        pod = await self.played.gets(self.run, "Pod", role)
        await self.played.delete("Pod", pod["metadata"]["name"])
        self.shown()

    async def pods_are_refused(self) -> None:
        """Wait until the Deployment says that its pods are refused, which shows the fault."""
        await self.played.until(
            self._is_refused, what=f"{self.fault.name} gets no pod"
        )
        self.shown()

    def _is_refused(self) -> bool:
        found = self.played.children(self.run, "Deployment", "server")
        conditions = [
            c
            for each in found
            for c in each.get("status", {}).get("conditions", ())
        ]
        return any(
            (c["type"], c["status"]) == ("ReplicaFailure", "True")
            for c in conditions
        )

    def at_the_end(self, call: Callable[[], Awaitable[None]]) -> None:
        """Call it when the trial is over."""
        self._ends.append(call)

    async def over(self) -> None:
        """Make the calls of `at_the_end`, and stop measuring."""
        for call in self._ends:
            await call()
        if self._measuring is not None:
            self._measuring.cancel()
            with suppress(asyncio.CancelledError):
                await self._measuring

    # ---- what becomes of it
    # ---------------------------------------------------------------------------------------

    async def measured(self) -> Measured:
        """Return what the status says, and when.

        For a run that ends, also when its server was released.
        """
        assert self.shown_at is not None, "the fault was never shown"
        if not self.fault.ends:
            told_at = await self._told_at()
            await self.played.reaches(
                self.run, self.fault.phase, seconds=TOLD_SECONDS
            )
            seconds = told_at - self.shown_at
            return Measured(
                self.fault.phase, self.fault.told_as, seconds, freed_seconds=None
            )
        if self.fault.phase == GONE:
            return await self._gone()
        told_at, freed_at = await asyncio.gather(self._told_at(), self._freed_at())
        ends_at = (
            self.shown_at + self.fault.waits_seconds + self.fault.decided_seconds
        )
        status = await self.played.finished(self.run, seconds=self._longest_seconds)
        return Measured(
            phase=status["phase"],
            reason=condition({"status": status}, ENDED_BY[status["phase"]])[
                "reason"
            ],
            told_seconds=told_at - self.shown_at - self.fault.shows_after_seconds,
            freed_seconds=None if freed_at is None else freed_at - ends_at,
        )

    async def _gone(self) -> Measured:
        assert self.shown_at is not None
        freed_at = await self._freed_at()
        await self.played.until(
            lambda: not self.played.body(self.run),
            seconds=self._longest_seconds,
            what=f"{self.fault.name} is gone",
        )
        freed_seconds = None if freed_at is None else freed_at - self.shown_at
        return Measured(
            self.fault.phase, "", told_seconds=None, freed_seconds=freed_seconds
        )

    async def _told_at(self) -> float:
        reason = self.fault.told_as
        await self.played.until(
            lambda: reason in self._reasons(),
            seconds=self.fault.shows_after_seconds
            + PATIENCE * self.fault.told_within_seconds,
            what=f"{self.fault.name} is told as {reason}",
        )
        return time.monotonic()

    async def _freed_at(self) -> float | None:
        """Wait until the server is released, and return when; None where the run holds none."""
        if not self._holds_server():
            return None
        await self.played.until(
            lambda: not self._holds_server(),
            seconds=self._longest_seconds,
            what=f"{self.fault.name} lets go of its server",
        )
        return time.monotonic()

    @property
    def _longest_seconds(self) -> float:
        patience = PATIENCE * self.fault.freed_within_seconds
        return self.fault.waits_seconds + self.fault.decided_seconds + patience

    def _reasons(self) -> set[str]:
        """Return every reason that the status names now."""
        return {
            each["reason"]
            for each in self.played.status(self.run).get("conditions", ())
        }

    def _holds_server(self) -> bool:
        """Return whether the run has a Deployment or a running pod that is not being deleted."""
        if self.played.has_server(self.run):
            return True
        pods = self.played.children(self.run, "Pod", "server")
        return any(
            "deletionTimestamp" not in pod["metadata"]
            and pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")
            for pod in pods
        )


Play = Callable[[Trial], Awaitable[None]]


class Plays(dict[Fault, Play]):
    """The function that brings each fault about."""

    def of(self, name: str) -> Callable[[Play], Play]:
        """Return a decorator: its function brings about the fault of that name."""

        def noted(play: Play) -> Play:
            self[BY_NAME[name]] = play
            return play

        return noted


async def tried(played: PlayedCluster, plays: Plays) -> Outcomes:
    """Bring all of these faults about, each a moment after the one before.

    Returns what became of each, or why it is not known.
    """
    async with lost_node(played.api) as node:
        trials = [Trial(played, fault, node=node) for fault in plays]
        trying = (
            _later(n, trial, plays[trial.fault]) for n, trial in enumerate(trials)
        )
        found = await asyncio.gather(*trying, return_exceptions=True)
        await _cleared(played)
    return {
        fault.name: outcome for fault, outcome in zip(plays, found, strict=True)
    }


async def _later(turn: int, trial: Trial, play: Play) -> Measured:
    """Try a fault when its turn comes.

    Tried all at once, faults would measure how long a machine is busy with creating runs.
    """
    await asyncio.sleep(turn * APART_SECONDS)
    return await measured(trial, play)


async def measured(trial: Trial, play: Play) -> Measured:
    """Bring one fault about, and return what became of it."""
    try:
        await play(trial)
        return await trial.measured()
    finally:
        await trial.over()


async def _cleared(played: PlayedCluster) -> None:
    """Delete the pods of the lost node: no kubelet will ever say that they have ended."""
    everything = (
        "delete",
        "pods",
        "--all",
        "--force",
        "--grace-period=0",
        "--wait=false",
    )
    await asyncio.to_thread(
        command, "kubectl", f"--namespace={played.namespace}", *everything
    )


def checked(fault: Fault, outcomes: Outcomes) -> None:
    """Record what became of a fault, and check that it is as declared."""
    found = outcomes[fault.name]
    if isinstance(found, BaseException):
        raise found
    record(fault, found)
    assert_as_declared(fault, found)
