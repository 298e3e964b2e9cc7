"""Kopf's part: which objects are watched, that nothing is written on them, and that an event
reaches index and queue."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import kopf
import pytest
from benchrun.effects import CHILD_KINDS, RESOURCES
from benchrun.observe import Key, sweep_key
from benchrun.runtime import watching
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.telemetry import Telemetry
from unit.runtime.bodies import KEY, child_body, run_body, swept_body

KINDS = ("BenchmarkSweep", "BenchmarkRun", *CHILD_KINDS)


class Scene:
    """What hears of objects, over empty indexes."""

    def __init__(self) -> None:
        self.indexes = Indexes()
        self.enqueued: list[Key] = []
        self.telemetry = Telemetry()
        self._heard = watching.listener(
            self.indexes, enqueue=self.enqueued.append, telemetry=self.telemetry
        )

    def send(self, kind: str, event_type: str | None, body: Any) -> None:
        """Tell it of an object as a watch does."""
        self._heard(RESOURCES[kind].plural, event_type, body)


def named(kind: str) -> tuple[str, ...]:
    """A kind's group, version and plural."""
    return RESOURCES[kind].group, RESOURCES[kind].version, RESOURCES[kind].plural


@pytest.fixture
def scene() -> Scene:
    """What hears of objects, over empty indexes."""
    return Scene()


def test_every_kind_has_one_handler_by_its_full_name_and_no_other_handler_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kopf's decorators are stand-ins: of those for handlers there is `event` alone, the one that
    writes nothing on the object."""
    handlers: list[tuple[str, ...]] = []

    def event(
        *resource: str, id: str, registry: object
    ) -> Callable[[object], None]:
        return lambda handler: handlers.append(resource)

    on = SimpleNamespace(event=event, login=lambda registry: lambda login: None)
    monkeypatch.setattr(kopf, "on", on)
    watching.registry()
    assert handlers == [named(kind) for kind in KINDS]


@pytest.mark.parametrize("event_type", [None, "ADDED", "MODIFIED"])
def test_event_updates_the_index_and_enqueues_the_run(
    scene: Scene, event_type: str | None
) -> None:
    scene.send("BenchmarkRun", event_type, run_body())
    scene.send("Deployment", event_type, child_body())
    assert scene.enqueued == [KEY, KEY]
    assert [c.name for c in scene.indexes.children(KEY).objects] == [
        "br-chat-4e20caa2-server"
    ]


def test_event_without_news_enqueues_nothing(scene: Scene) -> None:
    scene.send("BenchmarkRun", None, run_body())
    scene.send("BenchmarkRun", "MODIFIED", run_body())
    assert scene.enqueued == [KEY]


def test_an_event_of_a_run_enqueues_its_sweep(scene: Scene) -> None:
    body = swept_body()
    scene.indexes.learnt("BenchmarkRun", body)
    scene.send("BenchmarkRun", "MODIFIED", body)
    assert scene.enqueued == [sweep_key(KEY.namespace, "s")]


def test_event_of_a_sweep_enqueues_it(scene: Scene) -> None:
    scene.send("BenchmarkSweep", "ADDED", run_body("s"))
    assert scene.enqueued == [sweep_key(KEY.namespace, "s")]
    assert scene.indexes.sweep(sweep_key(KEY.namespace, "s")) is not None


def test_deleted_child_is_gone_from_the_index_and_its_run_is_looked_at(
    scene: Scene,
) -> None:
    scene.send("Job", "ADDED", child_body())
    scene.send("Job", "DELETED", child_body(version=201))
    assert scene.enqueued == [KEY, KEY]
    assert scene.indexes.children(KEY).objects == ()


def test_events_are_counted(scene: Scene) -> None:
    scene.send("Job", "ADDED", child_body())
    labels = {"kind": "Job", "type": "ADDED"}
    assert (
        scene.telemetry.registry.get_sample_value(
            "benchrun_watch_events_total", labels
        )
        == 1
    )


def test_only_children_of_runs_cross_the_wire() -> None:
    selectors = {kind: watching.label_selector(kind) for kind in CHILD_KINDS}
    measured = "benchrun.dev/run,benchrun.dev/role notin (stage,timeline,result)"
    assert selectors == dict.fromkeys(CHILD_KINDS, "benchrun.dev/run") | {
        "ConfigMap": measured
    }


def test_kopf_stores_nothing_on_the_objects() -> None:
    settings = watching.kopf_settings(namespaces=0)
    for kind in CHILD_KINDS:
        resource = kopf.Resource(
            group=RESOURCES[kind].group,
            version=RESOURCES[kind].version,
            plural=RESOURCES[kind].plural,
        )
        assert list(settings.watching.label_selectors.collect(resource)) == [
            watching.label_selector(kind)
        ]


def test_kopf_is_reduced_to_watching() -> None:
    settings = watching.kopf_settings(namespaces=0)
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled


def test_nobody_can_set_the_finalizer_that_kopf_takes_off_its_objects() -> None:
    """Kopf patches it away from whoever has it, which our rights do not allow, and tries that for
    ever."""
    one, other = (
        watching.kopf_settings(namespaces=0).persistence.finalizer for _ in range(2)
    )
    assert one.startswith("benchrun.dev/")
    assert one != other
    assert 32 <= len(one.partition("/")[2]) <= 63, (
        "too long to guess, not longer than Kubernetes takes"
    )


@pytest.mark.parametrize(
    ("namespaces", "longest"), [(0, 3), (1, 3), (50, 15), (1000, 30)]
)
def test_kopf_never_runs_out_of_tries_and_tries_soon_where_that_costs_little(
    namespaces: int, longest: float
) -> None:
    backoffs = watching.kopf_settings(
        namespaces=namespaces
    ).networking.error_backoffs
    assert isinstance(backoffs, watching.Backoff)
    pauses = list(itertools.islice(backoffs, 1000))
    assert pauses[:2] == [1, 2]
    assert max(pauses) == pauses[-1] == longest


def test_event_of_an_object_that_reports_nothing_is_passed_over(
    scene: Scene,
) -> None:
    for kind in KINDS:
        scene.send(kind, "MODIFIED", {"metadata": {"uid": "u"}})
    assert scene.enqueued == []


def test_a_page_of_the_largest_objects_fits_into_memory() -> None:
    """A ConfigMap of 1 MiB takes 6 as JSON, a spec of 1.5 MB up to 36 once it is parsed."""
    chunk = watching.kopf_settings(namespaces=0).watching.chunk_size
    assert chunk is not None
    assert chunk * 36 < 128
