"""Follow runs and sweeps to their end: kubectl watches them, and a reporter shows their state."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Coroutine,
    Iterable,
    MutableMapping,
)
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.cli import cluster, errors
from benchrun.cli.progress_display import LogReporter, ScreenReporter
from benchrun.observe import is_finished, untrusted_json as raw
from benchrun.plan import stored_record
from benchrun.report import exit_codes, watch_state

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
HOPELESS = frozenset(
    {"NoKubectl", "NoContext", "NotInstalled", "Forbidden", "NotFound"}
)
"""Causes of an error that another attempt does not remove."""
# Most stages finished before following began whose figures are fetched.
LATEST_STAGES = 8
MAX_TARGETS = 16
"""Most runs and sweeps that are followed at once. Each run has its own kubectl process, a sweep has
two."""
TICK_SECONDS = 0.25  # Seconds between two calls of a reporter when nothing happens.
Reporter = LogReporter | ScreenReporter


@dataclass(frozen=True, slots=True)
class FollowedObject:
    """A run or sweep to follow: its kind, and the kubectl for its namespace."""

    kubectl: cluster.Kubectl
    kind: str = names.KIND

    @property
    def is_sweep(self) -> bool:
        return self.kind == SWEEP_KIND

    @property
    def noun(self) -> str:
        return "sweep" if self.is_sweep else "run"


def by_name(
    targets: Iterable[tuple[str, FollowedObject]],
) -> dict[str, FollowedObject]:
    """Return the targets by name. Raises CommandError if two different targets share a name."""
    found: dict[str, FollowedObject] = {}
    for name, target in targets:
        other = found.setdefault(name, target)
        if other != target:
            alike = f"two {target.noun}s of different namespaces are"
            both = (
                alike if other.kind == target.kind else "a run and a sweep are both"
            )
            raise errors.CommandError(
                f"{both} called {name}; follow one after the other"
            )
    return found


class TimeIsUp(errors.CommandError):
    """A run or sweep did not end within the timeout."""

    code = 124  # Exit code, as for timeout(1).


async def follow(
    targets: MutableMapping[str, FollowedObject],
    reporter: Reporter,
    *,
    timeout_seconds: float | None = None,
) -> "Following":
    """Follow all targets until each has ended or can't be read. Raises TimeIsUp.

    If a name turns out to be that of a sweep, its entry in `targets` becomes a sweep. Raises
    CommandError if there are more than MAX_TARGETS.
    """
    if len(targets) > MAX_TARGETS:
        raise errors.CommandError(
            f"{len(targets)} runs are too many to follow at once; at most {MAX_TARGETS}"
        )
    following = Following(targets, reporter)
    time = asyncio.get_running_loop().time
    deadline = None if timeout_seconds is None else time() + timeout_seconds
    tasks = [
        asyncio.create_task(following.guarded(name, following.follow(name)))
        for name in targets
    ]
    try:
        while waiting := following.waiting():
            if deadline is not None and time() >= deadline:
                raise TimeIsUp(
                    f"{', '.join(waiting)}: not ended within the timeout"
                )
            await asyncio.wait(tasks, timeout=TICK_SECONDS)
            if following.fault is not None:
                raise following.fault
            following.show()
    finally:
        await _cancelled(tasks)
    return following


class Following:
    """Runs and sweeps by name, their last known state, and the exit codes of ended ones."""

    def __init__(
        self, targets: MutableMapping[str, FollowedObject], reporter: Reporter
    ) -> None:
        self._targets = targets
        self._reporter = reporter
        self.known: dict[str, watch_state.Followed] = {}
        self.codes: dict[str, int] = {}
        self.errors: dict[str, errors.CommandError] = {}
        # What ends following altogether, such as an output that is closed.
        self.fault: Exception | None = None

    def waiting(self) -> list[str]:
        """Return the names of runs and sweeps that have not ended and can still be followed."""
        return [
            name
            for name in self._targets
            if name not in self.codes and name not in self.errors
        ]

    def show(self) -> None:
        """Report the runs and sweeps that have not ended, in the order of their first report."""
        waiting = self.waiting()
        self._reporter.show(
            [followed for name, followed in self.known.items() if name in waiting]
        )

    async def guarded(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`; an error of the cluster ends only the run or sweep `name`.

        Any other exception is kept in `fault`.
        """
        try:
            await work
        except errors.KubectlError as error:
            self._failed(name, error)
        except ValueError as error:
            self._failed(
                name, errors.KubectlError(errors.another_version(name, error))
            )
        except Exception as error:
            self.fault = self.fault or error

    def _failed(self, name: str, error: errors.KubectlError) -> None:
        if name in self.waiting():
            self.errors[name] = error
            self._reporter.failed(name, error)
            self.show()

    async def follow(self, name: str) -> None:
        """Follow one run or sweep until it has ended or can't be read."""
        target = self._targets[name]
        try:
            await (self._follow_sweep if target.is_sweep else self._follow_run)(
                name
            )
        except errors.KubectlError as error:
            if error.trouble != "NotFound" or name in self.known:
                raise
            if target.is_sweep:
                raise await asyncio.to_thread(
                    target.kubectl.missing, name, cluster.SWEEP
                ) from None
            await asyncio.to_thread(target.kubectl.sweep_instead, name, error)
            self._targets[name] = replace(target, kind=SWEEP_KIND)
            await self.follow(name)

    async def _follow_run(self, name: str) -> None:
        stages = _FinishedStages(self._targets[name].kubectl, name)
        run = None
        async with aclosing(self._changes(name, cluster.RUN)) as changes:
            async for body, _ in changes:
                run = watch_state.updated_run(
                    run, body, await stages.since_last(body)
                )
                self._changed(name, run, exit_codes.exit_code(run.status))
                if name in self.codes:
                    return

    async def _follow_sweep(self, name: str) -> None:
        runs: list[asyncio.Task[None]] = []
        try:
            async with aclosing(self._changes(name, cluster.SWEEP)) as changes:
                async for body, _ in changes:
                    before = self.known.get(name)
                    sweep = watch_state.updated_sweep(
                        before
                        if isinstance(before, watch_state.FollowedSweep)
                        else None,
                        body,
                    )
                    self._changed(
                        name, sweep, exit_codes.sweep_exit_code(sweep.status)
                    )
                    if name in self.codes:
                        return
                    if not runs:
                        runs.append(
                            asyncio.create_task(
                                self.guarded(name, self._follow_swept_runs(name))
                            )
                        )
        finally:
            await _cancelled(runs)

    async def _follow_swept_runs(self, name: str) -> None:
        """Follow the runs of a sweep.

        If they can't be read, the sweep is still followed to its end, because a user who may read
        sweeps may not be allowed to read runs.
        """
        with suppress(errors.KubectlError):
            async with aclosing(
                self._changes(name, cluster.RUN, of_sweep=True)
            ) as changes:
                async for body, deleted in changes:
                    sweep = self.known[name]
                    if isinstance(sweep, watch_state.FollowedSweep):
                        self._changed(
                            name,
                            watch_state.with_run(sweep, body, deleted=deleted),
                            None,
                        )

    def _changed(
        self, name: str, followed: watch_state.Followed, code: int | None
    ) -> None:
        """Store and report a new state; `code` is the exit code if the run or sweep has ended."""
        if name not in self.waiting():
            return
        self.known[name] = followed
        if code is not None:
            self._reporter.show([followed])
            self.codes[name] = code
            self._reporter.ended(followed)
        self.show()

    async def _changes(
        self, name: str, resource: str, *, of_sweep: bool = False
    ) -> AsyncGenerator[tuple[cluster.Body, bool], None]:
        """Yield the object `name`, or a sweep's runs, on every change, with True if it was deleted.

        A watch that ends is started again. Raises KubectlError for an error that another try does
        not remove, for any error before the first event, and if the object itself is deleted.
        """
        watched = f"--selector={names.LABEL_SWEEP}={name}" if of_sweep else name
        ever_heard = of_sweep
        pause = 0.0
        while True:
            await asyncio.sleep(pause)
            heard = False
            error = None
            try:
                events_of = self._targets[name].kubectl.lines(
                    "get",
                    resource,
                    watched,
                    "--watch",
                    "--output-watch-events",
                    "--output=json",
                )
                async with (
                    aclosing(events_of) as lines,
                    aclosing(objects(lines)) as events,
                ):
                    async for event in events:
                        if event.get("type") == "ERROR":
                            break  # The watched version has become too old: begin again.
                        heard = ever_heard = True
                        deleted = event.get("type") == "DELETED"
                        if deleted and not of_sweep:
                            raise errors.KubectlError(
                                f"{name} was deleted", "NotFound"
                            )
                        yield dict(raw.mapping(event.get("object"))), deleted
            except errors.KubectlError as found:
                error = found
            pause = (
                FIRST_PAUSE_SECONDS
                if heard or not pause
                else min(2 * pause, LONGEST_PAUSE_SECONDS)
            )
            if error is not None:
                if error.trouble in HOPELESS or not ever_heard:
                    raise error
                if name in self.known:
                    self.known[name] = replace(
                        self.known[name], trouble=f"{error}; trying again"
                    )
                self.show()


class _FinishedStages:
    """Finds the stages of a run that have finished since the last call, with their figures."""

    def __init__(self, kubectl: cluster.Kubectl, name: str) -> None:
        self._kubectl = kubectl
        self._name = name
        self._known = -1
        self._under_way = ""
        self._may_read_records = True

    async def since_last(self, body: cluster.Body) -> list[watch_state.StageLine]:
        """Return the stages that have finished since the last call.

        When a run is seen for the first time, these are its latest stages; there are none if it has
        ended.
        """
        status = raw.mapping(body.get("status"))
        progress = raw.mapping(status.get("progress"))
        done = raw.number(progress.get("stagesDone"))
        known = self._known
        if known < 0:
            known = done if is_finished(status) else max(0, done - LATEST_STAGES)
        # A status may claim any number.
        known = max(known, done - watch_state.MAX_STAGES)
        finished = [
            await self._line(body, sequence, is_last=sequence == done - 1)
            for sequence in range(known, done)
        ]
        self._known = max(known, done)
        self._under_way = raw.text(progress.get("stage")) or self._under_way
        return finished

    async def _line(
        self, body: cluster.Body, sequence: int, *, is_last: bool
    ) -> watch_state.StageLine:
        """Return the line of a stage, from its stored record.

        If the record can't be read, the line has the name that the status gave before, if there was
        one.
        """
        uid = raw.text(raw.mapping(body.get("metadata")).get("uid"))
        if self._may_read_records:
            what = (
                "get",
                "configmaps",
                names.stage_name(self._name, uid, sequence),
                "--output=json",
            )
            try:
                stored = cluster.json_object(
                    "\n".join([line async for line in self._kubectl.lines(*what)])
                )
                return watch_state.stage_line(
                    stored_record(stored, run_uid=uid, sequence=sequence)
                )
            except errors.KubectlError as error:
                self._may_read_records = error.trouble != "Forbidden"
            except ValueError:
                pass  # The record is of another version; the stage was measured nevertheless.
        return watch_state.StageLine(
            sequence, (self._under_way or None) if is_last else None
        )


async def objects(lines: AsyncIterator[str]) -> AsyncGenerator[cluster.Body, None]:
    """Yield the JSON objects of a stream; each may span one line or several."""
    collected = ""
    async for line in lines:
        collected += line
        if line.startswith("}") or (
            collected == line and line.rstrip().endswith("}")
        ):
            yield cluster.json_object(collected)
            collected = ""


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
