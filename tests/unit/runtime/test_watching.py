"""Kopf's part: which objects are watched, that nothing is written on them, and that an event reaches index and queue."""

import asyncio
import itertools
from typing import Any

import kopf
import pytest
from benchrun.effects import CHILD_KINDS, RESOURCES
from benchrun.observe import Key, sweep_key
from benchrun.runtime import watching
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.telemetry import Telemetry
from unit.runtime.bodies import KEY, child_body, run_body

KINDS = ("BenchmarkSweep", "BenchmarkRun", *CHILD_KINDS)


class Scene:
    """A registry over empty indexes."""

    def __init__(self) -> None:
        self.indexes = Indexes()
        self.enqueued: list[Key] = []
        self.telemetry = Telemetry()
        self.registry = watching.registry(self.indexes, enqueue=self.enqueued.append, telemetry=self.telemetry)

    def send(self, kind: str, event_type: str | None, body: dict[str, Any]) -> None:
        """Call the handler of a kind as Kopf does."""
        handlers: Any = {h.id: h for h in self.registry._watching.get_all_handlers()}
        asyncio.run(handlers[RESOURCES[kind].plural].fn(event={"type": event_type, "object": body}))


@pytest.fixture
def scene() -> Scene:
    """A registry over empty indexes."""
    return Scene()


def test_every_kind_has_one_handler_by_its_full_name(scene: Scene) -> None:
    selectors = [h.selector for h in scene.registry._watching.get_all_handlers()]
    assert {(s.group, s.version, s.any_name) for s in selectors if s is not None} == {
        (RESOURCES[k].group, RESOURCES[k].version, RESOURCES[k].plural) for k in KINDS
    }
    assert len(selectors) == len(KINDS)


def test_only_handlers_that_write_nothing_on_the_object_are_used(scene: Scene) -> None:
    registry = scene.registry
    for kind in ("_changing", "_spawning", "_indexing", "_webhooks"):
        assert getattr(registry, kind).get_all_handlers() == [], kind


@pytest.mark.parametrize("event_type", [None, "ADDED", "MODIFIED"])
def test_event_updates_the_index_and_enqueues_the_run(scene: Scene, event_type: str | None) -> None:
    scene.send("BenchmarkRun", event_type, run_body())
    scene.send("Deployment", event_type, child_body())
    assert scene.enqueued == [KEY, KEY]
    assert [c.name for c in scene.indexes.children(KEY).objects] == ["br-chat-4e20caa2-server"]


def test_event_without_news_enqueues_nothing(scene: Scene) -> None:
    scene.send("BenchmarkRun", None, run_body())
    scene.send("BenchmarkRun", "MODIFIED", run_body())
    assert scene.enqueued == [KEY]


def test_an_event_of_a_run_enqueues_its_sweep(scene: Scene) -> None:
    owner = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "name": "s",
        "uid": "u",
        "controller": True,
    }
    body = run_body(ownerReferences=[owner])
    scene.indexes.learnt("BenchmarkRun", body)
    scene.send("BenchmarkRun", "MODIFIED", body)
    assert scene.enqueued == [sweep_key(KEY.namespace, "s")]


def test_event_of_a_sweep_enqueues_it(scene: Scene) -> None:
    scene.send("BenchmarkSweep", "ADDED", run_body("s"))
    assert scene.enqueued == [sweep_key(KEY.namespace, "s")]
    assert scene.indexes.sweep(sweep_key(KEY.namespace, "s")) is not None


def test_deleted_child_is_gone_from_the_index_and_its_run_is_looked_at(scene: Scene) -> None:
    scene.send("Job", "ADDED", child_body())
    scene.send("Job", "DELETED", child_body(version=201))
    assert scene.enqueued == [KEY, KEY]
    assert scene.indexes.children(KEY).objects == ()


def test_events_are_counted(scene: Scene) -> None:
    scene.send("Job", "ADDED", child_body())
    labels = {"kind": "Job", "type": "ADDED"}
    assert scene.telemetry.registry.get_sample_value("benchrun_watch_events_total", labels) == 1


def test_only_children_of_runs_cross_the_wire() -> None:
    selectors = {kind: watching.label_selector(kind) for kind in CHILD_KINDS}
    measured = "benchrun.dev/run,benchrun.dev/role notin (stage,timeline)"
    assert selectors == dict.fromkeys(CHILD_KINDS, "benchrun.dev/run") | {"ConfigMap": measured}


def test_kopf_stores_nothing_on_the_objects() -> None:
    settings = watching.kopf_settings()
    for kind in CHILD_KINDS:
        resource = kopf.Resource(
            group=RESOURCES[kind].group, version=RESOURCES[kind].version, plural=RESOURCES[kind].plural
        )
        assert list(settings.watching.label_selectors.collect(resource)) == [watching.label_selector(kind)]


def test_kopf_is_reduced_to_watching() -> None:
    settings = watching.kopf_settings()
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert settings.queueing.worker_limit is None
    assert settings.persistence.finalizer.startswith("benchrun.dev/")


def test_kopf_never_runs_out_of_tries() -> None:
    assert isinstance(watching.kopf_settings().networking.error_backoffs, watching.Patience)
    pauses = list(itertools.islice(watching.Patience(), 1000))
    assert pauses[:4] == [1, 2, 4, 8]
    assert max(pauses) == pauses[-1] == watching.LONGEST_PAUSE_SECONDS


def test_event_of_an_object_that_reports_nothing_is_passed_over(scene: Scene) -> None:
    for kind in KINDS:
        scene.send(kind, "MODIFIED", {"metadata": {"uid": "u"}})
    assert scene.enqueued == []
