"""A run in a cluster held in memory, and a reconciler whose decisions a test scripts."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from benchrun import names
from benchrun.api import BenchmarkRunStatus, as_json
from benchrun.decide import (
    Collected,
    Context,
    Decision,
    ExporterKind,
    Exporters,
    Facts,
    PullTarget,
    ScrapeTarget,
)
from benchrun.effects import LookUps, Tools
from benchrun.measure import bucketed, encode
from benchrun.measure.metrics_page import Sample
from benchrun.observe import Key
from benchrun.plan import Owner, TimelinePart, metadata, stage_config_map
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.run_reconciler import RunReconciler
from benchrun.runtime.sessions import Sessions
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.contract import Sealed, seal
from benchrun_client.engines import ENGINES
from unit.measure.records import record
from unit.runtime.bodies import KEY, NAMESPACE, UID, run_body
from unit.runtime.judges import Judge
from unit.runtime.memory_cluster import MemoryCluster, list_everything

VLLM = ENGINES["VLLM"]

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
STAGE_0 = names.stage_name("chat", UID, 0)
OWNER = Owner(namespace=NAMESPACE, name="chat", uid=UID)
PULL = PullTarget(
    pod="client",
    url="http://10.0.0.9:8090",
    run_uid=UID,
    from_sequence=0,
    token="t" * 64,
)
SCRAPE = ScrapeTarget(
    role="server",
    pod="p",
    url="http://10.0.0.1:8000/metrics",
    interval_seconds=1,
    engine=VLLM,
)
NO_EXPORTERS: Mapping[ExporterKind, Exporters] = {}
RUNNING = BenchmarkRunStatus(observed_generation=1, phase="Running")
ENDED = as_json(
    BenchmarkRunStatus.model_validate(
        {
            "observedGeneration": 1,
            "phase": "Completed",
            "conditions": [
                {
                    "type": "Complete",
                    "status": "True",
                    "reason": "Measured",
                    "message": "",
                    "observedGeneration": 1,
                    "lastTransitionTime": "2026-11-21T12:00:00Z",
                }
            ],
        }
    )
)


class Background(Sessions):
    """A stand-in for the background sessions that reconciling uses."""

    def __init__(self, log: list[tuple[str, ...]]) -> None:
        self.followed: list[tuple[tuple[ScrapeTarget, ...], PullTarget | None]] = []
        self.stopped = 0
        self.active = 0
        self.hears = True
        self._log = log

    def __len__(self) -> int:
        return self.active

    def follow(
        self,
        key: object,
        run: object,
        memory: object,
        *,
        scrape: Any,
        pull: Any,
        queued: object = None,
    ) -> None:
        self.followed.append((scrape, pull))

    async def acknowledge(self, key: object, through: int) -> bool:
        self._log.append(("acknowledge", str(through)))
        return self.hears

    def stop(self, key: object) -> None:
        self.stopped += 1


class Scene:
    """A run in a cluster, and a reconciler whose decisions the test scripts."""

    def __init__(
        self,
        status: dict[str, Any] | None = None,
        *,
        exporters: Mapping[ExporterKind, Exporters] = NO_EXPORTERS,
    ) -> None:
        self.cluster = MemoryCluster()
        # By default the run was edited, and its status is written at once.
        self.cluster.add(
            "BenchmarkRun",
            run_body(
                status={"observedGeneration": 0} if status is None else status
            ),
        )
        self.indexes = Indexes()
        self.sessions = Background(self.cluster.log)
        self.telemetry = Telemetry()
        self.judge = Judge()
        self.news: list[Key] = []
        self.lookups = LookUps(
            Tools(self.cluster, self.judge, exporters), news=self.news.append
        )
        self.facts_seen: list[Facts] = []
        self.decide: Callable[[Facts], Decision] = lambda facts: Decision(
            status=RUNNING
        )
        self.reconciler = RunReconciler(
            cluster=self.cluster,
            indexes=self.indexes,
            sessions=self.sessions,
            lookups=self.lookups,
            now=self.now,
            context=Context(client_image="client", exporters=exporters),
            decide=self._decide,
            telemetry=self.telemetry,
        )
        self.memories = self.reconciler.memories

    def now(self) -> datetime:
        return NOW

    async def listed(self) -> None:
        await list_everything(self.cluster, self.indexes, ())
        self.cluster.log.clear()

    async def once(self, **decision: Any) -> float | None:
        """Reconcile once with this decision; return when to reconcile again, in seconds."""
        if decision:
            self.decide = lambda facts: Decision(**({"status": RUNNING} | decision))
        return await self.reconciler(KEY)

    @property
    def collected(self) -> Collected:
        """Return what is known of the run beyond the cluster."""
        return self.memories.of(KEY, UID).collected

    def count(self, result: str) -> float:
        return (
            self.telemetry.registry.get_sample_value(
                "benchrun_reconcile_total", {"result": result}
            )
            or 0.0
        )

    def _decide(self, facts: Facts) -> Decision:
        self.facts_seen.append(facts)
        return self.decide(facts)


def manifest(
    name: str = "br-chat-4e20caa2-server",
    kind: str = "Service",
    role: str = names.ROLE_SERVER,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": metadata(OWNER, name=name, role=role),
    }


def arrival(sequence: int = 0) -> Sealed:
    return seal(record(run_uid=UID, sequence=sequence))


def stage(one: Sealed, samples: tuple[Sample, ...] = ()) -> dict[str, Any]:
    part = (
        TimelinePart(encode(bucketed(samples, 1)), through=samples[-1].at)
        if samples
        else None
    )
    return stage_config_map(OWNER, one, timeline=part)


def sample(at: float) -> Sample:
    return Sample(at=at, role="server", pod="p", running=1.0)
