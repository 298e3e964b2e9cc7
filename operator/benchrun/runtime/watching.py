"""Watches, run by Kopf, and the operator's own lists: both update the indexes and enqueue keys.

Kopf watches the kinds that it has handlers for. Only `on.event` handlers are used: these write no
finalizer and no annotation on the user's object. `kopf_lists` takes the objects before Kopf sees
them.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import partial
from heapq import nlargest
from typing import Any

import kopf

from benchrun import child_kinds, names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.child_kinds import EXTENSION_KINDS, SERVER_KINDS
from benchrun.decide import RESULT_ROLES, is_settled
from benchrun.effects import (
    CHILD_KINDS,
    RESOURCES,
    ClusterError,
    Forbidden,
    KubernetesApi,
    NotFound,
)
from benchrun.observe import Key, run_key, run_of, runs_in_short, sweep_of_run
from benchrun.runtime import kopf_lists
from benchrun.runtime.background_tasks import doubling
from benchrun.runtime.indexes import Indexes, Listing
from benchrun.runtime.telemetry import Telemetry

Scope = str | None  # a namespace, or None: all of them at once
CONNECT_TIMEOUT_SECONDS = 10
INACTIVITY_TIMEOUT_SECONDS = 70
# Between attempts to watch what can't be watched. After an API server was away there is no news of
# servers for so long; with many namespaces that may not be read, the attempts add up.
SHORTEST_LIMIT_SECONDS = 3.0
LONGEST_LIMIT_SECONDS = 30.0
SECONDS_A_NAMESPACE = 0.3


@dataclass(frozen=True, slots=True)
class Backoff:
    """Endless pauses between attempts of a request: 1, 2, 4 ... seconds, then always the longest.

    Kopf ends the whole process when the pauses end. One namespace that the operator may not read
    would then stop it for all others.
    """

    longest_seconds: float

    def __iter__(self) -> Iterator[float]:
        return doubling(1.0, self.longest_seconds)


def patience_with(namespaces: int) -> Backoff:
    """Return the pauses for this number of watched namespaces; 0: one watch of the cluster."""
    limit = max(SHORTEST_LIMIT_SECONDS, namespaces * SECONDS_A_NAMESPACE)
    return Backoff(min(limit, LONGEST_LIMIT_SECONDS))


_KINDS = {
    RESOURCES[kind].plural: kind for kind in (SWEEP_KIND, names.KIND, *CHILD_KINDS)
}


def registry() -> kopf.OperatorRegistry:
    """Return Kopf's handlers for the kinds that it should watch.

    These are sweeps, runs and all kinds that carry a run's label.
    """
    handlers = kopf.OperatorRegistry()
    for kind in _KINDS.values():
        resource = RESOURCES[kind]
        watch = kopf.on.event(
            resource.group,
            resource.version,
            resource.plural,
            id=resource.plural,
            registry=handlers,
        )
        watch(_nothing_left)
    kopf.on.login(registry=handlers)(login)
    return handlers


async def _nothing_left(**_: Any) -> None:
    """Do nothing, since Kopf is given no objects."""


def listener(
    indexes: Indexes, *, enqueue: Callable[[Key], None], telemetry: Telemetry
) -> kopf_lists.Heard:
    """Return the function that takes every object that a watch delivers."""

    def heard(plural: str, event: str | None, body: Any) -> None:
        kind = _KINDS[plural]
        # LISTED: from the list that a watch begins with
        telemetry.watch_event(kind, event or "LISTED")
        if (
            key := indexes.heard(kind, body, deleted=event == "DELETED")
        ) is not None:
            enqueue(key)
        # The index knows the run already where this operator changed it, but its sweep was not
        # reconciled since.
        sweep = sweep_of_run(body) if kind == names.KIND else None
        if sweep is not None:
            enqueue(sweep)

    return heard


def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """Log in with the pod's service account if there is one, else with the kubeconfig."""
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(
        **kwargs
    )


def kopf_settings(
    *,
    namespaces: int,
    heard: kopf_lists.Heard = lambda *_: None,
    reached: Callable[[str, Scope], str | None] = lambda *_: None,
) -> kopf.OperatorSettings:
    """Return Kopf's settings for watching only; `namespaces` is their number, 0 for the cluster.

    `reached` takes a kind and a namespace; it is that of the `Lister`.
    """
    settings = kopf_lists.KopfSettings(
        heard=heard,
        reached=lambda plural, namespace: reached(_KINDS[plural], namespace),
    )
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.connect_timeout = CONNECT_TIMEOUT_SECONDS
    settings.watching.inactivity_timeout = INACTIVITY_TIMEOUT_SECONDS
    kopf_lists.install()
    settings.watching.chunk_size = kopf_lists.SAFE_PAGE
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = patience_with(namespaces)
    settings.networking.connect_timeout = CONNECT_TIMEOUT_SECONDS
    settings.queueing.exit_timeout = 1.0
    settings.process.ultimate_exiting_timeout = 20
    # Kopf tries for ever to remove this finalizer from objects that have it, without the right to:
    # so its name must be unguessable.
    settings.persistence.finalizer = (
        f"{names.GROUP}/never-set-{secrets.token_hex(16)}"
    )
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(
        prefix=names.GROUP
    )
    for kind in CHILD_KINDS:
        resource = RESOURCES[kind]
        settings.watching.label_selectors[
            resource.group, resource.version, resource.plural
        ] = label_selector(kind)
    return settings


def label_selector(kind: str) -> str:
    """Return the label selector with which a kind is watched.

    It selects the objects of runs, without the ConfigMaps that hold measured data.
    """
    small = f"{names.LABEL_RUN},{names.LABEL_ROLE} notin ({','.join(RESULT_ROLES)})"
    return small if kind == "ConfigMap" else names.LABEL_RUN


# A namespace that can't be read stops none of the others. Kinds that the cluster may lack
# (`EXTENSION_KINDS`) are listed with the others, and one by one where a run needs one.

logger = logging.getLogger(__name__)

# no run is known before its children are
KINDS = (
    *CHILD_KINDS,
    *EXTENSION_KINDS,
    names.KIND,
    SWEEP_KIND,
)
# must be known before a server is deleted
FOR_RELEASE = frozenset({*SERVER_KINDS, names.KIND}) - {*EXTENSION_KINDS}
FOR_SWEEPS = frozenset({names.KIND, SWEEP_KIND})
# must be known before anything else is done about a run
FOR_RUNS = FOR_RELEASE | {
    "Pod",
    *(name for name, kind in child_kinds.KINDS.items() if kind.must_be_known),
}
ALL_NAMESPACES = "*"  # stands for the whole cluster, in sentences and metrics
MAX_REASON_CHARS = 200
# seconds after which a change that no watch has confirmed is listed
VERIFIED_AFTER_SECONDS = 60.0
MAX_VERIFIED = 50  # most such lists at a time
MAX_AGE_SECONDS = 120.0
"""Most seconds since a list from which a watch continues. API servers keep the changes of the last
minutes."""


@dataclass(eq=False)
class Lister:
    """Lists the objects of each namespace, and keeps which namespaces could not be read."""

    cluster: KubernetesApi
    indexes: Indexes
    namespaces: Iterable[str]
    _: KW_ONLY
    turned: Callable[[str, bool], None] = lambda *_: None
    """Called with every namespace that was listed, and whether it is unreadable."""
    unreadable: dict[str, str] = field(default_factory=dict, init=False)
    """Why a namespace could not be read, by namespace."""

    def __post_init__(self) -> None:
        self._scopes: tuple[Scope, ...] = tuple(self.namespaces) or (None,)
        # namespaces that were listed whole at least once
        self.known: set[Scope] = set()
        self._listed: dict[
            Scope, set[str]
        ] = {}  # kinds that were listed whole at least once
        self._reached: dict[tuple[str, Scope], tuple[str, float]] = {}

    def knows(self, namespace: str, kinds: frozenset[str] = FOR_RUNS) -> bool:
        """Return whether all these kinds were listed in the namespace at least once."""
        scopes: tuple[Scope, ...] = (namespace, None)
        return any(kinds <= self._listed.get(scope, set()) for scope in scopes)

    def reached(self, kind: str, namespace: Scope) -> str | None:
        """Return, once, the version of the first list of a kind, from which a watch can continue.

        None if there is no such list, or if it is too old.
        """
        now = asyncio.get_running_loop().time()
        version, at = self._reached.pop((kind, namespace), ("", now))
        if not version.isdecimal() or now - at > MAX_AGE_SECONDS:
            return None
        self.indexes.owed.continued(kind, namespace, int(version))
        return version

    def is_readable(self, namespace: str) -> bool:
        """Return whether the last list of the namespace was whole."""
        return self.unreadable.keys().isdisjoint({namespace, ALL_NAMESPACES})

    @property
    def can_release(self) -> bool:
        """Return whether enough of at least one namespace is known to delete its servers."""
        return any(kinds >= FOR_RELEASE for kinds in self._listed.values())

    async def list_all(self) -> None:
        """Bring the indexes up to date with the cluster, as far as it can be read."""
        await self._list(self._scopes)

    async def list_unreadable(self) -> bool:
        """List unreadable namespaces again; return whether one of them can be read now."""
        before = len(self.unreadable)
        await self._list(
            [scope for scope in self._scopes if _shown(scope) in self.unreadable]
        )
        return len(self.unreadable) < before

    async def verify_overdue(self) -> None:
        """List the kinds with changes that no watch has confirmed for VERIFIED_AFTER_SECONDS.

        Objects that are gone by now are removed from the index: no watch will report them.
        """
        for kind, namespace in sorted(
            self.indexes.owed.overdue(VERIFIED_AFTER_SECONDS)
        )[:MAX_VERIFIED]:
            try:
                await self._list_kind(kind, namespace)
            except ClusterError as error:
                self._note(
                    namespace if namespace in self._scopes else None,
                    _problem(kind, error),
                )

    async def _list(self, scopes: Iterable[Scope]) -> None:
        for scope in scopes:
            problems = await self._list_scope(scope)
            self._note(scope, problems)
            if not problems:
                self.known.add(scope)

    async def _list_scope(self, scope: Scope) -> str:
        """List every kind in the scope, and return the errors as text; empty without errors.

        An error of one kind does not stop the others.
        """
        problems = []
        listed = self._listed.setdefault(scope, set())
        for kind in KINDS:
            try:
                is_first = kind not in listed
                await self._list_kind(kind, scope, begins_a_watch=is_first)
            except ClusterError as error:
                # The operator has created nothing of a kind that is missing, or that it may not
                # read while it may read the others (listed before).
                if kind not in EXTENSION_KINDS or not isinstance(
                    error, NotFound | Forbidden
                ):
                    problems.append(_problem(kind, error))
                    continue
            listed.add(kind)
        return "; ".join(problems)

    async def _list_kind(
        self, kind: str, namespace: Scope, *, begins_a_watch: bool = False
    ) -> None:
        told = (
            partial(self._note_reached, kind, namespace)
            if begins_a_watch
            else _nowhere
        )
        if kind == names.KIND:
            await self._list_runs(namespace, told)
            return
        selector = (
            names.LABEL_RUN if kind in (*CHILD_KINDS, *EXTENSION_KINDS) else None
        )
        with self.indexes.listing(kind, namespace) as listing:
            async for body in self.cluster.list(
                kind,
                namespace=namespace,
                selector=selector,
                metadata_only=kind == "ConfigMap",
                reached=told,
            ):
                self.indexes.listed(listing, body)

    async def _list_runs(
        self, namespace: Scope, reached: Callable[[str], None]
    ) -> None:
        """List runs; those that have ended cost their metadata and columns, where these suffice.

        Of the runs that ended last, the results are read afterwards, for the metrics.
        """
        ended: list[tuple[datetime, Key]] = []
        with self.indexes.listing(names.KIND, namespace) as listing:
            async for body, is_short in self.cluster.list_in_short(
                names.KIND,
                namespace=namespace,
                in_short=_in_short,
                reached=reached,
            ):
                self.indexes.listed(listing, body, in_short=is_short)
                at = self.indexes.lacks_result(body) if is_short else None
                if at is not None:
                    meta = body["metadata"]
                    ended.append((at, run_key(meta["namespace"], meta["name"])))
            for _, key in nlargest(self.indexes.results.most, ended):
                if not await self._read_result(listing, key):
                    break

    async def _read_result(self, listing: Listing, key: Key) -> bool:
        """Return whether further results are to be read now.

        A failure must not count as one of the list: without that, no server would be let go of.
        """
        try:
            body = await self.cluster.get(
                key.kind, namespace=key.namespace, name=key.name
            )
        except NotFound:
            return True  # its watch tells
        except ClusterError as error:
            logger.info("%s: results are read with the next list: %s", key, error)
            return False
        self.indexes.listed(listing, body)
        return True

    def _note_reached(self, kind: str, namespace: Scope, version: str) -> None:
        now = asyncio.get_running_loop().time()
        self._reached[kind, namespace] = version, now

    def _note(self, scope: Scope, problems: str) -> None:
        shown = _shown(scope)
        if problems:
            if shown not in self.unreadable:
                logger.warning("namespace %s can't be read: %s", shown, problems)
            self.unreadable[shown] = problems
        elif self.unreadable.pop(shown, None) is not None:
            logger.info("namespace %s can be read again", shown)
            self.indexes.owed.restart(scope)
        self.turned(shown, bool(problems))


def _in_short(table: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the runs of a table; None if one of them has to be read whole.

    That is each run that a decision may be due for, and each of a sweep, which reads its status.
    """
    found = runs_in_short(table)
    if found is None:
        return None
    suffices = all(
        sweep_of_run(body) is None and is_settled(run_of(body)) for body in found
    )
    return found if suffices else None


def _nowhere(_: str) -> None:
    """Do nothing with the version that a list ends with, since no watch goes on from there."""


def _problem(kind: str, error: ClusterError) -> str:
    return f"{kind}: {type(error).__name__}: {str(error)[:MAX_REASON_CHARS]}"


def _shown(scope: Scope) -> str:
    return ALL_NAMESPACES if scope is None else scope
