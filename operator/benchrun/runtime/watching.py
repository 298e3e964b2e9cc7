"""Kopf as the watch: every event updates the indexes and puts the run's (or sweep's) key on the queue. Nothing else happens here.

`on.event` is the only kind of handler used: it writes nothing on the user's object, no finalizer and no annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import kopf

from benchrun.api import names
from benchrun.api.base import KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.effects.resources import CHILD_KINDS, RESOURCES, RUN
from benchrun.observe.identity import Key, sweep_of_run
from benchrun.runtime.indexes import UNWATCHED_ROLES, Indexes
from benchrun.runtime.keeping import doubling
from benchrun.runtime.telemetry import Telemetry

SERVER_TIMEOUT_SECONDS = 300
CONNECT_TIMEOUT_SECONDS = 10
INACTIVITY_TIMEOUT_SECONDS = 70
CHUNK_SIZE = 100
WORKER_IDLE_SECONDS = 0.5
"""Kopf keeps the last body of an object in memory for so long."""
LONGEST_PAUSE_SECONDS = 30.0
"""Between tries to watch what can't be watched."""


class Patience:
    """Pauses between tries of a request, without end. Kopf ends the whole process when it runs out of them, and one namespace
    that may not be read would do that to all others."""

    def __iter__(self) -> Iterator[float]:
        """1, 2, 4 ... seconds, then always the longest."""
        return doubling(1.0, LONGEST_PAUSE_SECONDS)


class NothingToCompare(kopf.DiffBaseStorage):
    """Kopf copies every object it hears of, status and all, to find out what changed; `on.event` never asks."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Nothing is remembered of an object."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        """Nothing was remembered."""

    def store(self, **_: Any) -> None:
        """Nothing is written."""


def registry(indexes: Indexes, *, enqueue: Callable[[Key], None], telemetry: Telemetry) -> kopf.OperatorRegistry:
    """Handlers for sweeps, runs and everything that carries a run's label."""
    handlers = kopf.OperatorRegistry()
    for kind in (SWEEP_KIND, KIND, *CHILD_KINDS):
        _watch(handlers, kind, indexes, enqueue, telemetry)
    kopf.on.login(registry=handlers)(login)
    return handlers


def _watch(
    handlers: kopf.OperatorRegistry,
    kind: str,
    indexes: Indexes,
    enqueue: Callable[[Key], None],
    telemetry: Telemetry,
) -> None:
    async def heard(event: Any, **_: Any) -> None:
        telemetry.watch_event(kind, event["type"])
        key = indexes.heard(kind, event["object"], deleted=event["type"] == "DELETED")
        if key is not None:
            enqueue(key)
        # Known already where it was our own pass that changed the run: the sweep has not seen it yet.
        sweep = sweep_of_run(event["object"]) if kind == KIND else None
        if sweep is not None:
            enqueue(sweep)

    resource = RESOURCES[kind]
    kopf.on.event(resource.group, resource.version, resource.plural, id=resource.plural, registry=handlers)(heard)


def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """The pod's service account where there is one, else the kubeconfig."""
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def kopf_settings() -> kopf.OperatorSettings:
    """Kopf reduced to watching."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.server_timeout = SERVER_TIMEOUT_SECONDS
    settings.watching.connect_timeout = CONNECT_TIMEOUT_SECONDS
    settings.watching.inactivity_timeout = INACTIVITY_TIMEOUT_SECONDS
    settings.watching.chunk_size = CHUNK_SIZE
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = Patience()
    settings.networking.connect_timeout = CONNECT_TIMEOUT_SECONDS
    settings.queueing.worker_limit = None
    settings.queueing.idle_timeout = WORKER_IDLE_SECONDS
    settings.queueing.exit_timeout = 1.0
    settings.process.ultimate_exiting_timeout = 20
    settings.persistence.finalizer = f"{RUN.group}/never-set"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=RUN.group)
    settings.persistence.diffbase_storage = NothingToCompare()
    for kind in CHILD_KINDS:
        resource = RESOURCES[kind]
        settings.watching.label_selectors[resource.group, resource.version, resource.plural] = label_selector(kind)
    return settings


def label_selector(kind: str) -> str:
    """Which objects of a kind cross the wire: those of runs, without the ConfigMaps that hold what was measured."""
    if kind != "ConfigMap":
        return names.LABEL_RUN
    return f"{names.LABEL_RUN},{names.LABEL_ROLE} notin ({','.join(UNWATCHED_ROLES)})"
