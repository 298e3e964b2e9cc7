"""A round: runs and sweeps of all tenants, a burst of faults, peace, and a final check."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchrun import names
from benchrun.api import Code
from benchrun.api.sweep import KIND as SWEEP_KIND
from runs_kit.cluster import Cluster, Json
from runs_kit.operator_process import refuse_rivals

from chaos_kit import invariants, manifests
from chaos_kit.allowances import COMPLETED, GONE, Allowance, allowances, of_attempt
from chaos_kit.chronicle import HOLDERS, KINDS, Chronicle, ending, polled
from chaos_kit.faults import (
    MOMENTS,
    TENANTS,
    VARIANTS,
    Fault,
    run_names,
    sweep_name,
    swept_names,
)
from chaos_kit.inflicting import Inflicting
from chaos_kit.invariants import SeenRun, SeenSweep, Violation
from chaos_kit.kubelets import Kubelets
from chaos_kit.operators import Operators

STRIKES_SECONDS = 45.0
"""Seconds after the start of a round at which a fault strikes at the latest, whatever it waits
for."""
SETTLE_SECONDS = 200.0
LEAK_SECONDS = 25.0
GONE_SECONDS = 90.0
RESTARTS = {Code.SERVER_RESTARTED, Code.COUNTERS_RESET}
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a round."""

    carried_out: tuple[Fault, ...]
    violations: tuple[Violation, ...]
    longest_seconds: float
    """Longest duration of a run."""


class Arena:
    """The cluster, the operator and the kubelets; rounds are played in it one after another."""

    def __init__(self, api: Cluster, directory: Path, say: Say) -> None:
        mark = uuid.uuid4().hex[:6]
        self._api = api
        self._say = say
        self.namespaces = {tenant: f"chaos-{mark}-{tenant}" for tenant in TENANTS}
        self._home = f"chaos-{mark}-home"
        watched = tuple(self.namespaces.values())
        self._kubelets = Kubelets(api, self._plan)
        self._chronicle = Chronicle(api, watched, of_pods=self._kubelets.heard)
        self._operators = Operators(api, self._home, watched, directory)

    @classmethod
    @asynccontextmanager
    async def opened(cls, directory: Path, say: Say) -> AsyncIterator[Self]:
        """Yield an arena with everything running; remove all of it afterwards."""
        api = await Cluster.connect()
        arena = cls(api, directory, say)
        try:
            await refuse_rivals(api)
            async with arena._open():
                yield arena
        finally:
            await api.close()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        everywhere = (self._home, *self.namespaces.values())
        for name in everywhere:
            await self._api.ask(
                "POST", "/api/v1/namespaces", {"metadata": {"name": name}}
            )
        try:
            self._chronicle.start()
            await self._operators.start()
            yield
        finally:
            await self._operators.stop()
            await self._kubelets.close()
            self._chronicle.stop()
            for name in everywhere:
                await self._api.ask("DELETE", f"/api/v1/namespaces/{name}")

    async def play(
        self, number: int, faults: Iterable[Fault], *, calm_seconds: float | None
    ) -> Outcome:
        """Play one round with these faults.

        `calm_seconds` is how long the slowest run takes without any fault; None when not known yet.
        """
        began = time.monotonic()
        self._operators.ended.clear()
        self._kubelets.forget()
        self._chronicle.runs.clear()
        inflicting = Inflicting(
            self._api,
            self._chronicle,
            self._kubelets,
            self._operators,
            self.namespaces,
        )
        chosen = tuple(faults)
        for fault in chosen:
            inflicting.order(fault)
        await self._apply(number)
        struck = await asyncio.gather(
            *(self._strike(inflicting, f, began) for f in chosen)
        )
        await self._heal()
        await polled(lambda: self._is_settled(number), seconds=SETTLE_SECONDS)
        # A run that was created anew may get its pods only after its fault was carried out.
        carried_out = tuple(
            fault
            for fault, hit in zip(chosen, struck, strict=True)
            if hit or inflicting.was_obeyed(fault)
        )
        self._chronicle.check()
        found = list(self._violations(number, carried_out, calm_seconds))
        longest = max(
            (self._seconds(t, name) for t, name in self._plain(number)), default=0.0
        )
        found += await self._leaks()
        found += await self._cleared(number)
        return Outcome(carried_out, tuple(found), longest)

    # ---- the story of a round

    async def _apply(self, number: int) -> None:
        for namespace in self.namespaces.values():
            for name in run_names(number):
                path = KINDS[names.KIND].format(namespace)
                await self._api.ask("POST", path, manifests.run(name, namespace))
            sweep = manifests.sweep(
                sweep_name(number), namespace, variants=VARIANTS
            )
            await self._api.ask("POST", KINDS[SWEEP_KIND].format(namespace), sweep)

    async def _strike(
        self, inflicting: Inflicting, fault: Fault, began: float
    ) -> bool:
        left = began + STRIKES_SECONDS - time.monotonic()
        await polled(lambda: self._reached(fault), seconds=left)
        await asyncio.sleep(fault.delay_seconds)
        was_hit = await inflicting.carry_out(fault)
        self._say(f"  {fault}{'' if was_hit else ': nothing to hit'}")
        return was_hit

    def _reached(self, fault: Fault) -> bool:
        """Return whether the fault's run is at the fault's step, or over."""
        namespace = self.namespaces[fault.tenant]
        chronicle = self._chronicle
        name = fault.run
        if chronicle.object(namespace, SWEEP_KIND, name) is not None:
            name = f"{name}-v1-r1"  # a sweep is as far as its first run
        uid = chronicle.uid(namespace, name)
        if uid is None:
            return name in chronicle.runs[namespace]  # true: it existed and is gone
        body = chronicle.object(namespace, names.KIND, name)
        if body is not None and ending(body)[0] is not None:
            return True
        measured = self._kubelets.measured.get(uid, [])
        holds: dict[str, Callable[[], bool]] = {
            "applied": lambda: True,
            "created": lambda: bool(
                chronicle.children(namespace, "Job", uid, "client")
            ),
            "heard": lambda: (
                self._kubelets.find(namespace, name, "client") is not None
            ),
            "served": lambda: bool(
                chronicle.children(namespace, "Deployment", uid, "server")
            ),
            "measuring": lambda: bool(measured),
            "recorded": lambda: any(
                True for _ in chronicle.records(namespace, uid)
            ),
            "measured": lambda: any(pod.has_measured for pod in measured),
            "ended": lambda: False,
        }
        assert holds.keys() == set(MOMENTS)
        return holds[fault.moment]()

    async def _heal(self) -> None:
        for proxy in self._operators.proxies:
            proxy.heal()
        await self._operators.ready()

    def _is_settled(self, number: int) -> bool:
        bodies = [
            body
            for namespace in self.namespaces.values()
            for kind in (names.KIND, SWEEP_KIND)
            for name, body in self._chronicle.pictures[namespace]
            .objects[kind]
            .items()
            if name.startswith(f"r{number}-")
        ]
        return all(
            ending(body)[0] is not None
            and "deletionTimestamp" not in body["metadata"]
            for body in bodies
        )

    # ---- the check of what is left

    def _violations(
        self, number: int, faults: tuple[Fault, ...], calm_seconds: float | None
    ) -> Iterator[Violation]:
        for words in self._operators.ended:
            yield Violation("wrong", f"the operator ended by itself: {words}")
        for tenant, namespace in self.namespaces.items():
            allowed = allowances(number, tenant, faults)
            swept = self._runs_of_sweep(namespace, number)
            runs = [
                self._seen(namespace, name) for name in (*run_names(number), *swept)
            ]
            calm = calm_seconds if calm_seconds is not None else SETTLE_SECONDS
            for seen, name in zip(runs, (*run_names(number), *swept), strict=True):
                found = of_attempt(allowed, name)
                yield from invariants.of_run(seen, found, calm_seconds=calm)
            lost = {
                name
                for seen, name in zip(
                    runs, (*run_names(number), *swept), strict=True
                )
                if seen.ending != COMPLETED
                or seen.restarts
                or of_attempt(allowed, name).is_aimed_at
            }
            yield from self._of_sweep(
                namespace, sweep_name(number), swept, allowed, lost
            )

    def _of_sweep(
        self,
        namespace: str,
        name: str,
        runs: tuple[str, ...],
        allowed: dict[str, Allowance],
        lost: set[str],
    ) -> Iterator[Violation]:
        body = self._chronicle.object(namespace, SWEEP_KIND, name)
        how, message = (GONE, "") if body is None else ending(body)
        if body is not None and how == COMPLETED:
            reasons = {c["reason"] for c in body["status"]["conditions"]}
            how = "RunsFailed" if "RunsFailed" in reasons else how
        seen = SeenSweep(f"{namespace}/{name}", how, message, runs)
        yield from invariants.of_sweep(seen, allowed[name], lost)

    def _runs_of_sweep(self, namespace: str, number: int) -> tuple[str, ...]:
        """Return the names of the runs that the sweep must create, and of any others it created."""
        prefix = f"{sweep_name(number)}-"
        made = {
            name
            for name in self._chronicle.runs[namespace]
            if name.startswith(prefix)
        }
        return tuple(sorted(made | set(swept_names(number))))

    def _seen(self, namespace: str, name: str) -> SeenRun:
        full = f"{namespace}/{name}"
        body = self._chronicle.object(namespace, names.KIND, name)
        if body is None:
            return SeenRun(full, GONE)
        uid = body["metadata"]["uid"]
        how, message = ending(body)
        return SeenRun(
            name=full,
            ending=how,
            message=message,
            stages=manifests.STAGES,
            stored=tuple(self._chronicle.records(namespace, uid)),
            measured=tuple(
                tuple(pod.client.digests)
                for pod in self._kubelets.measured.get(uid, [])
                if pod.client is not None
            ),
            deployments=len(self._chronicle.made["Deployment", uid]),
            jobs=len(self._chronicle.made["Job", uid]),
            seconds=self._seconds(namespace, name),
            restarts=_restarts(body),
        )

    def _plain(self, number: int) -> Iterator[tuple[str, str]]:
        for namespace in self.namespaces.values():
            for name in (*run_names(number), *swept_names(number)):
                yield namespace, name

    def _seconds(self, namespace: str, name: str) -> float:
        uid = self._chronicle.uid(namespace, name)
        if uid is None or uid not in self._chronicle.ended:
            return 0.0
        return self._chronicle.ended[uid] - self._chronicle.began[uid]

    async def _leaks(self) -> list[Violation]:
        """Return the servers that no run wants, after waiting for their release."""

        def found() -> list[Violation]:
            return [
                violation
                for namespace in self.namespaces.values()
                for violation in invariants.leaks(
                    self._holders(namespace), self._going_on(namespace)
                )
            ]

        await polled(lambda: not found(), seconds=LEAK_SECONDS)
        return found()

    def _holders(self, namespace: str) -> dict[str, str | None]:
        holders: dict[str, str | None] = {}
        for kind, body in self._chronicle.of_runs(namespace):
            meta = body["metadata"]
            is_pod = kind == "Pod" and body.get("status", {}).get("phase") in (
                "Pending",
                "Running",
            )
            if kind in HOLDERS or (
                is_pod and meta["labels"].get(names.LABEL_ROLE) == "server"
            ):
                holders[f"{namespace}/{kind}/{meta['name']}"] = meta["labels"][
                    names.LABEL_RUN_UID
                ]
        return holders

    def _going_on(self, namespace: str) -> set[str]:
        runs = self._chronicle.pictures[namespace].objects[names.KIND].values()
        return {body["metadata"]["uid"] for body in runs if ending(body)[0] is None}

    async def _cleared(self, number: int) -> list[Violation]:
        """Delete everything of the round; return what stays nevertheless.

        What was orphaned by hand is deleted by hand.
        """
        for namespace in self.namespaces.values():
            for kind in (SWEEP_KIND, names.KIND):
                path = (
                    f"{KINDS[kind].format(namespace)}?propagationPolicy=Background"
                )
                await self._api.ask("DELETE", path)
            for kind, name in self._chronicle.orphans(namespace):
                await self._delete_quietly(
                    f"{KINDS[kind].format(namespace)}/{name}"
                )

        def left() -> list[str]:
            return [
                f"{namespace}/{kind}/{body['metadata']['name']}"
                for namespace in self.namespaces.values()
                for kind, body in self._chronicle.of_runs(namespace)
            ]

        await polled(lambda: not left(), seconds=GONE_SECONDS)
        return [
            Violation("leaked", f"{each}: its run is gone (round {number})")
            for each in left()
        ]

    async def _delete_quietly(self, path: str) -> None:
        try:
            await self._api.ask("DELETE", f"{path}?propagationPolicy=Background")
        except RuntimeError as error:
            if "HTTP 404" not in str(error):
                raise

    def _plan(self, namespace: str, run: str, uid: str) -> str | None:
        return self._chronicle.plan(namespace, run, uid)


def _restarts(body: Json) -> tuple[str, ...]:
    rows = body.get("status", {}).get("results", [])
    found = {
        code
        for row in rows
        if row["verdict"] == "Invalid"
        for code in row["findings"]
    }
    return tuple(sorted(found & RESTARTS))
