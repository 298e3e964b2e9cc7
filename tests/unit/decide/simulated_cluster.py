"""A simple simulated cluster.

Objects appear, pods go through their phases, a client measures, a server gets healthy. It knows
nothing of decisions. Time passes by `tick`; everything else happens through `create`, `delete` and
the client's port.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from benchrun.child_kinds import KINDS
from benchrun.observe import Child, Pod, Termination, child_of
from benchrun_client.contract import PLAN_FILE, ClientProgress, Plan, Probe, Sealed
from benchrun_client.search import bisection
from benchrun_client.search.bisection import stage_at
from unit.decide.deliveries import arrival
from unit.decide.scenes import instant, unix_us
from unit.plan.specs import OWNER

Manifest = dict[str, Any]
Identity = tuple[str, str]

PULL_SECONDS = 4  # from a pod's creation to its process running
PREPARE_SECONDS = 3
LOAD_SECONDS = 6
WARM_UP_SECONDS = 2
STAGE_SECONDS = 5
LEAVE_SECONDS = 2  # from a deletion to the object being gone


@dataclass
class SimulatedClient:
    """The measuring process.

    It prepares, waits for the server, measures, and keeps its records until they are acknowledged.
    """

    plan: Plan
    started: int
    progress: ClientProgress = field(
        default_factory=lambda: ClientProgress(version=0, phase="Preparing")
    )
    records: list[Sealed] = field(default_factory=list)
    through: int = 0
    healthy_at: int | None = None

    @property
    def finished(self) -> bool:
        """Return whether everything it measured is stored."""
        return self.through >= len(self._course)

    @cached_property
    def _course(self) -> list[Sealed]:
        """Return the record of every stage.

        The server of searches bears the highest load.
        """
        digest = self.plan.digest()
        listed = [
            arrival(sequence, stage.id, digest)
            for sequence, stage in enumerate(self.plan.stages)
        ]
        return [*listed, *_searched(self.plan, digest, first_sequence=len(listed))]

    def tick(self, now: int, *, server_healthy: bool) -> None:
        """Advance as far as time allows."""
        if now < self.started + PREPARE_SECONDS:
            return None
        if self.healthy_at is None and server_healthy:
            self.healthy_at = now
        if self.healthy_at is None:
            return self._report(phase="Waiting")
        began = self.healthy_at + WARM_UP_SECONDS
        if now < began:
            return self._report(
                phase="WarmingUp", healthy_unix_us=unix_us(self.healthy_at)
            )
        done = min((now - began) // STAGE_SECONDS, len(self._course))
        self.records += self._course[len(self.records) : done]
        stage = (
            self._course[done].envelope.stage_id
            if done < len(self._course)
            else None
        )
        return self._report(
            phase="Measuring" if stage is not None else "Done",
            stage=stage,
            records=done,
            healthy_unix_us=unix_us(self.healthy_at),
            first_request_unix_us=unix_us(began),
        )

    def _report(self, **news: Any) -> None:
        progress = self.progress.model_copy(update=news)
        if progress != self.progress:
            self.progress = progress.model_copy(
                update={"version": self.progress.version + 1}
            )


def _searched(plan: Plan, digest: str, *, first_sequence: int) -> Iterator[Sealed]:
    sequence = first_sequence
    for search in plan.searches:
        here: bisection.Position | None = bisection.first(search)
        while here is not None:
            following = bisection.after(search, here, "Met")
            confirms = here.confirmation > 0
            probe = Probe(ends_search=following is None, confirms=confirms)
            stage = stage_at(search, here)
            yield arrival(sequence, stage.id, digest, load=stage.load, probe=probe)
            here = following
            sequence = sequence + 1


@dataclass
class SimulatedCluster:
    """Objects by kind and name, with what they stand for."""

    now: int = 0
    manifests: dict[Identity, Manifest] = field(default_factory=dict)
    objects: dict[Identity, Child] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    # everything that was ever created, as `kind role`
    created: list[str] = field(default_factory=list)
    # every client process there ever was
    clients: list[SimulatedClient] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    status_version: int = 0
    server_is_broken: bool = False
    server_log: str = "vllm: error: unrecognized arguments: --nonsense"
    _leaving: dict[Identity, int] = field(default_factory=dict)

    # ---- the API
    # ---------------------------------------------------------------------------------------------------

    def create(self, manifest: Manifest) -> None:
        """Create an object as POST would; one that exists stays, as the operator changes none.

        A server-side apply of an existing object does the same. A kind without a declaration has no
        address, and the operator no right to it.
        """
        assert manifest["kind"] in KINDS, (
            f"declare {manifest['kind']} in child_kinds"
        )
        identity = (manifest["kind"], manifest["metadata"]["name"])
        if identity in self.objects:
            return
        uid = f"uid-{len(self.created)}"
        meta = {**manifest["metadata"], "uid": uid}
        self.manifests[identity] = manifest
        self.objects[identity] = child_of(
            manifest["kind"], {**manifest, "metadata": meta}
        )
        self.created.append(f"{manifest['kind']} {self.objects[identity].role}")

    def delete(self, kind: str, name: str, uid: str | None) -> None:
        """Begin to delete an object in the background, unless its uid is another."""
        found = self.objects.get((kind, name))
        if found is not None and found.uid == uid and not found.deleting:
            self.objects[kind, name] = replace(found, deleting=True)
            self._leaving[kind, name] = self.now + LEAVE_SECONDS

    def write_status(self, status: dict[str, Any], *, version: int) -> bool:
        """Write the status; return False on a conflict, when another write came in between."""
        if version != self.status_version:
            return False
        self.status = status
        self.status_version = version + 1
        return True

    @property
    def client(self) -> SimulatedClient | None:
        """Return the client process while it runs, otherwise None."""
        return self.clients[-1] if self.clients and self._runs("client-1") else None

    def kinds(self) -> list[str]:
        return sorted(kind for kind, _ in self.objects)

    # ---- time
    # ------------------------------------------------------------------------------------------------------

    def tick(self, seconds: int) -> None:
        """Let time pass, a second at a time."""
        for _ in range(seconds):
            self.now += 1
            self._remove_what_left()
            self._follow_owner("Job", "client")
            self._follow_owner("Deployment", "server")
            self._advance_client()
            self._advance_server()

    def _remove_what_left(self) -> None:
        for identity, gone_at in list(self._leaving.items()):
            if self.now >= gone_at:
                del (
                    self._leaving[identity],
                    self.objects[identity],
                    self.manifests[identity],
                )

    def _follow_owner(self, kind: str, role: str) -> None:
        """Create, advance or remove a pod: it exists as long as its controller."""
        owner = next(
            (c for c in self.objects.values() if (c.kind, c.role) == (kind, role)),
            None,
        )
        pod = self.pods.get(f"{role}-1")
        if owner is None or owner.deleting:
            self.pods.pop(f"{role}-1", None)
        elif pod is None:
            self.pods[f"{role}-1"] = Pod(
                name=f"{role}-1",
                uid=f"{role}-uid",
                role=role,
                run_uid=OWNER.uid,
                ip=None,
                phase="Pending",
                ready=False,
                deleting=False,
                node="n1",
                scheduled_at=instant(self.now),
                created_at=instant(self.now),
                args=("model", "--served-model-name=model", "--port=8000"),
            )
        elif pod.phase == "Pending" and self.now >= _age_of(pod) + PULL_SECONDS:
            self.pods[pod.name] = replace(
                pod, phase="Running", ip="10.0.0.9", started_at=instant(self.now)
            )
            if role == "client":
                self.clients.append(
                    SimulatedClient(self._mounted_plan(), started=self.now)
                )

    def _advance_client(self) -> None:
        client = self.client
        if client is None:
            return
        server = self.pods.get("server-1")
        client.tick(self.now, server_healthy=server is not None and server.ready)
        ready = client.progress.phase != "Preparing"
        self.pods["client-1"] = replace(self.pods["client-1"], ready=ready)
        if client.finished:
            self.pods["client-1"] = replace(
                self.pods["client-1"], phase="Succeeded", ready=False
            )

    def _advance_server(self) -> None:
        pod = self.pods.get("server-1")
        if (
            pod is None
            or pod.phase != "Running"
            or self.now < _age_of(pod) + PULL_SECONDS + LOAD_SECONDS
        ):
            return
        if self.server_is_broken:
            ended = Termination(
                exit_code=2, reason="Error", message=self.server_log
            )
            self.pods[pod.name] = replace(pod, terminated=ended, ready=False)
        else:
            self.pods[pod.name] = replace(pod, ready=True)

    def _mounted_plan(self) -> Plan:
        mounted = next(
            m
            for (kind, name), m in self.manifests.items()
            if kind == "ConfigMap" and name.endswith("-plan")
        )
        return Plan.model_validate_json(mounted["data"][PLAN_FILE])

    def _runs(self, pod: str) -> bool:
        return pod in self.pods and self.pods[pod].phase == "Running"


def _age_of(pod: Pod) -> int:
    assert pod.created_at is not None
    return int((pod.created_at - instant(0)).total_seconds())
