"""The infliction of faults: each heals by itself, and reports whether it could hit anything."""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from runs_kit.cluster import Cluster, Json

from chaos_kit import manifests
from chaos_kit.chronicle import KINDS, Chronicle, ending, polled
from chaos_kit.faults import FROM_THE_START, VARIANTS, Fault
from chaos_kit.kubelets import Kubelets
from chaos_kit.operators import Operators
from chaos_kit.proxy import Spoiling
from chaos_kit.rights import without

KILLED_WITHIN_SECONDS = 15.0
GONE_WITHIN_SECONDS = 40.0
OBEY_SECONDS = 120.0
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles/benchrun"
QUOTAS = "/api/v1/namespaces/{}/resourcequotas"
_COUNTED = {
    "configmaps": "ConfigMap",
    "pods": "Pod",
    "services": "Service",
    "count/jobs.batch": "Job",
    "count/deployments.apps": "Deployment",
}
Deed = Callable[[Fault, str], Awaitable[bool]]


class Inflicting:
    """Carries out the faults of one round."""

    def __init__(
        self,
        api: Cluster,
        chronicle: Chronicle,
        kubelets: Kubelets,
        operators: Operators,
        namespaces: dict[str, str],
    ) -> None:
        self._api = api
        self._chronicle = chronicle
        self._kubelets = kubelets
        self._operators = operators
        self._namespaces = namespaces
        self._rules: dict[str, list[Json]] = {}
        self._taken: dict[str, list[str]] = defaultdict(list)
        self._deeds: dict[str, Deed] = {
            "kill": self._kill,
            "kill-at-write": self._kill_at_write,
            "stop": self._stop,
            "second": self._second,
            "node-clock": self._node_clock,
            "api": self._api_away,
            "watch-silent": self._watch_silent,
            "watch-gone": self._watch_gone,
            "answers": self._answers,
            "invalid": self._invalid,
            "quota": self._quota,
            "right": self._right,
            "delete": self._delete,
            "client-pod": self._client_pod,
            "server-pod": self._server_pod,
            "no-node": self._expected_of_kubelet,
            "never-a-node": self._expected_of_kubelet,
            "pod-clock": self._expected_of_kubelet,
            "run": self._run,
            "sweep": self._sweep,
        }

    def order(self, fault: Fault) -> None:
        """Give the kubelets their orders for a fault before there is a pod."""
        orders = self._kubelets.orders[self._namespaces[fault.tenant], fault.run]
        if fault.kind == "no-node":
            orders.no_node_seconds[fault.how] = fault.seconds
        elif fault.kind == "never-a-node":
            orders.never.add(fault.how)
        elif fault.kind == "pod-clock":
            orders.clock_ahead_seconds = float(fault.how)

    async def carry_out(self, fault: Fault) -> bool:
        """Carry out a fault; return whether there was something to hit."""
        try:
            return await self._deeds[fault.kind](
                fault, self._namespaces[fault.tenant]
            )
        except RuntimeError as error:  # its target is gone, or has changed
            if "HTTP 4" not in str(error):
                raise
            return False

    # ---- the operator, and its way to the API server

    async def _kill(self, fault: Fault, _: str) -> bool:
        await self._operators.restart(after_seconds=fault.seconds)
        return True

    async def _kill_at_write(self, fault: Fault, _: str) -> bool:
        when, number = fault.how.split()
        return await self._operators.restart_at_write(
            int(number),
            when,
            after_seconds=fault.seconds,
            seconds=KILLED_WITHIN_SECONDS,
        )

    async def _stop(self, fault: Fault, _: str) -> bool:
        await self._operators.freeze(fault.seconds)
        return True

    async def _second(self, fault: Fault, _: str) -> bool:
        await self._operators.rival(fault.seconds)
        return True

    async def _node_clock(self, fault: Fault, _: str) -> bool:
        await self._operators.restart(clock_ahead_seconds=float(fault.how))
        return True

    async def _api_away(self, fault: Fault, _: str) -> bool:
        await self._spoil(Spoiling(fault.how), fault.seconds)
        return True

    async def _watch_silent(self, fault: Fault, _: str) -> bool:
        for proxy in self._operators.proxies:
            proxy.audible.clear()
        await asyncio.sleep(fault.seconds)
        for proxy in self._operators.proxies:
            if fault.how == "then closed":
                proxy.close_watches()
            proxy.audible.set()
        return True

    async def _watch_gone(self, fault: Fault, _: str) -> bool:
        for proxy in self._operators.proxies:
            proxy.watches_gone = True
            proxy.close_watches()
        await asyncio.sleep(fault.seconds)
        for proxy in self._operators.proxies:
            proxy.watches_gone = False
        return True

    async def _spoil(self, spoiling: Spoiling, seconds: float) -> None:
        for proxy in self._operators.proxies:
            proxy.spoilings.append(spoiling)
        await asyncio.sleep(seconds)
        for proxy in self._operators.proxies:
            with contextlib.suppress(ValueError):
                proxy.spoilings.remove(spoiling)
        spoiling.over.set()

    # ---- a namespace

    async def _answers(self, fault: Fault, namespace: str) -> bool:
        answer, part = fault.how.split()
        share = 1.0 if part == "all" else 0.3
        # A request that only reads never gets a conflict.
        spoiling = Spoiling(
            answer,
            namespace,
            share,
            writes_only=answer == "409",
            draw=random.Random(fault.seed),
        )
        await self._spoil(spoiling, fault.seconds)
        return True

    async def _invalid(self, _: Fault, namespace: str) -> bool:
        spoiling = Spoiling("422", namespace, writes_only=True, left=1)
        spoiling_ends = asyncio.create_task(
            self._spoil(spoiling, KILLED_WITHIN_SECONDS)
        )
        struck = await polled(
            lambda: spoiling.left == 0, seconds=KILLED_WITHIN_SECONDS
        )
        await spoiling_ends
        return struck

    async def _quota(self, fault: Fault, namespace: str) -> bool:
        there = len(
            self._chronicle.pictures[namespace].objects[_COUNTED[fault.how]]
        )
        name = f"chaos-{fault.number}"
        body = {
            "metadata": {"name": name},
            "spec": {"hard": {fault.how: str(max(1, there))}},
        }
        await self._api.ask("POST", QUOTAS.format(namespace), body)
        await asyncio.sleep(fault.seconds)
        await self._api.ask("DELETE", f"{QUOTAS.format(namespace)}/{name}")
        return True

    async def _right(self, fault: Fault, namespace: str) -> bool:
        if namespace not in self._rules:
            self._rules[namespace] = (
                await self._api.ask("GET", ROLE.format(namespace))
            )["rules"]
        self._taken[namespace].append(fault.how)
        await self._write_rights(namespace)
        await asyncio.sleep(fault.seconds)
        self._taken[namespace].remove(fault.how)
        await self._write_rights(namespace)
        return True

    async def _write_rights(self, namespace: str) -> None:
        rules = self._rules[namespace]
        for taken in self._taken[namespace]:
            resource, verb = taken.split()
            rules = without(rules, resource, verb)
        await self._api.ask(
            "PATCH", ROLE.format(namespace), {"rules": rules}, merge=True
        )

    # ---- objects and pods of a run

    async def _delete(self, fault: Fault, namespace: str) -> bool:
        what, propagation = fault.how.split()
        uid = self._chronicle.uid(namespace, fault.run)
        if uid is None:
            return False
        found = {
            "Job": ("Job", names.child_name(fault.run, uid, names.ROLE_CLIENT)),
            "Deployment": (
                "Deployment",
                names.child_name(fault.run, uid, names.ROLE_SERVER),
            ),
            "Service": (
                "Service",
                names.child_name(fault.run, uid, names.ROLE_SERVER),
            ),
            "plan": ("ConfigMap", names.plan_name(fault.run, uid)),
        }.get(what)
        if found is None:
            pods = self._chronicle.children(
                namespace, "Pod", uid, what.removesuffix("-pod")
            )
            found = ("Pod", pods[0]["metadata"]["name"] if pods else "")
        kind, name = found
        if self._chronicle.object(namespace, kind, name) is None:
            return False
        path = f"{KINDS[kind].format(namespace)}/{name}?propagationPolicy={propagation}"
        await self._api.ask("DELETE", path)
        return True

    async def _client_pod(self, fault: Fault, namespace: str) -> bool:
        pod = self._kubelets.find(namespace, fault.run, "client")
        if pod is None:
            return False
        self._kubelets.end(pod)
        return await self._kubelets.write(
            pod, manifests.failed("client", fault.how)
        )

    async def _server_pod(self, fault: Fault, namespace: str) -> bool:
        pod = self._kubelets.find(namespace, fault.run, "server")
        if pod is None:
            return False
        if fault.how == "evicted":
            self._kubelets.end(pod)
            return await self._kubelets.write(
                pod, manifests.failed("server", fault.how)
            )
        is_oom = fault.how == "oom"
        status = manifests.restarted("server", pod.address, out_of_memory=is_oom)
        return await self._kubelets.write(pod, status)

    async def _expected_of_kubelet(self, fault: Fault, namespace: str) -> bool:
        """Wait until the kubelets have carried out an order, or its run is over.

        Return whether there was a pod to carry it out on.
        """
        await polled(
            lambda: self.was_obeyed(fault) or self._is_over(namespace, fault.run),
            seconds=OBEY_SECONDS,
        )
        return self.was_obeyed(fault)

    def was_obeyed(self, fault: Fault) -> bool:
        """Return whether the kubelets had such an order, and a pod for it."""
        role = fault.how if fault.how in ("client", "server") else "client"
        is_order = fault.kind in FROM_THE_START
        namespace = self._namespaces[fault.tenant]
        return is_order and self._kubelets.has_had(namespace, fault.run, role)

    def _is_over(self, namespace: str, run: str) -> bool:
        body = self._chronicle.object(namespace, names.KIND, run)
        was_there = run in self._chronicle.runs[namespace]
        return was_there if body is None else ending(body)[0] is not None

    # ---- wishes of a user

    async def _run(self, fault: Fault, namespace: str) -> bool:
        path = f"{KINDS[names.KIND].format(namespace)}/{fault.run}"
        is_swept = not fault.run.rpartition("-")[2].startswith("n")
        if self._chronicle.uid(namespace, fault.run) is None:
            return False
        again = None if is_swept else manifests.run(fault.run, namespace)
        await self._wish(fault, path, again)
        return True

    async def _sweep(self, fault: Fault, namespace: str) -> bool:
        if self._chronicle.object(namespace, SWEEP_KIND, fault.run) is None:
            return False
        path = f"{KINDS[SWEEP_KIND].format(namespace)}/{fault.run}"
        again = manifests.sweep(fault.run, namespace, variants=VARIANTS)
        await self._wish(fault, path, again)
        return True

    async def _wish(self, fault: Fault, path: str, again: Json | None) -> None:
        if fault.how == "suspend":
            await self._set(path, suspend=True)
            await asyncio.sleep(fault.seconds)
            await self._set(path, suspend=False)
        elif fault.how == "cancel":
            await self._set(path, cancel=True)
        else:
            await self._api.ask("DELETE", f"{path}?propagationPolicy=Background")
            if fault.how == "anew" and again is not None:
                await self._make(path.rpartition("/")[0], again)

    async def _set(self, path: str, **spec: Any) -> None:
        await self._api.ask("PATCH", path, {"spec": spec}, merge=True)

    async def _make(self, path: str, body: Json) -> None:
        """Create an object as soon as its name is free."""
        deadline = asyncio.get_running_loop().time() + GONE_WITHIN_SECONDS
        while True:
            try:
                await self._api.ask("POST", path, body)
            except RuntimeError as error:
                late = asyncio.get_running_loop().time() > deadline
                if late or "HTTP 409" not in str(error):
                    raise
                await asyncio.sleep(0.2)
            else:
                return
