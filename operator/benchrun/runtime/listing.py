"""Listing everything: before the first pass, so that nothing is made twice, and now and then, in case a watch missed something.

One namespace that can't be read stops none of the others. Kinds that the cluster may lack (`EXTENSION_KINDS`) are listed
with the others, and one by one where a run needs one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field

from benchrun.api import names
from benchrun.api.base import KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.effects.errors import ClusterError, Forbidden, NotFound
from benchrun.effects.kubernetes_api import Cluster
from benchrun.effects.resources import CHILD_KINDS, EXTENSION_KINDS
from benchrun.runtime.indexes import Indexes

logger = logging.getLogger(__name__)

KINDS = (*EXTENSION_KINDS, *CHILD_KINDS, KIND, SWEEP_KIND)
"""In this order: no run is known before its children are."""
ALL_NAMESPACES = "*"
"""In words and metrics: what is listed for the whole cluster at once."""
MAX_REASON_CHARS = 200
VERIFIED_AFTER_SECONDS = 60.0
"""What the watches have owed us for so long is looked for in the cluster itself."""
MAX_VERIFIED = 50
"""Lists made for that at a time."""

Scope = str | None
"""A namespace, or None: all of them at once."""


@dataclass(eq=False)
class Lister:
    """What is listed of each namespace, and what of it could not be read."""

    cluster: Cluster
    indexes: Indexes
    namespaces: Iterable[str]
    _: KW_ONLY
    turned: Callable[[str, bool], None] = lambda namespace, unreadable: None
    """Told of every namespace when it is found readable or unreadable."""
    unreadable: dict[str, str] = field(default_factory=dict, init=False)
    """Why, by namespace."""

    def __post_init__(self) -> None:
        self._scopes: tuple[Scope, ...] = tuple(self.namespaces) or (None,)
        self._known: set[Scope] = set()

    def knows(self, namespace: str) -> bool:
        """Whether all of the namespace was listed at least once."""
        return namespace in self._known or None in self._known

    @property
    def knows_any(self) -> bool:
        """Whether there is anything that passes may be made over."""
        return bool(self._known)

    async def list_all(self) -> None:
        """Bring the indexes up to date with the cluster, as far as it can be read."""
        await self._list(self._scopes)

    async def list_unreadable(self) -> bool:
        """Try once more what could not be read; whether some of it now can be."""
        before = len(self.unreadable)
        await self._list([scope for scope in self._scopes if _shown(scope) in self.unreadable])
        return len(self.unreadable) < before

    async def verify_overdue(self) -> None:
        """List what the watches owe us: what is gone by now is forgotten, and no watch will ever tell of it."""
        for kind, namespace in sorted(self.indexes.overdue(VERIFIED_AFTER_SECONDS))[:MAX_VERIFIED]:
            try:
                await self._list_kind(kind, namespace)
            except ClusterError as error:
                self._note(namespace if namespace in self._scopes else None, _problem(kind, error))

    async def _list(self, scopes: Iterable[Scope]) -> None:
        for scope in scopes:
            problems = await self._list_scope(scope)
            self._note(scope, problems)
            if not problems:
                self._known.add(scope)

    async def _list_scope(self, scope: Scope) -> str:
        """List every kind there; what went wrong, in words, or nothing. A kind that can't be read stops none of the others."""
        problems = []
        for kind in KINDS:
            try:
                await self._list_kind(kind, scope)
            except ClusterError as error:
                # Of a kind that is not there, or not ours to read, we have made none, either.
                if kind not in EXTENSION_KINDS or not isinstance(error, NotFound | Forbidden):
                    problems.append(_problem(kind, error))
        return "; ".join(problems)

    async def _list_kind(self, kind: str, namespace: Scope) -> None:
        listing, complete = self.indexes.begin_listing(kind, namespace), False
        selector = names.LABEL_RUN if kind in (*CHILD_KINDS, *EXTENSION_KINDS) else None
        only_metadata = kind == "ConfigMap"
        try:
            async for body in self.cluster.list(
                kind, namespace=namespace, selector=selector, metadata_only=only_metadata
            ):
                self.indexes.listed(listing, body)
            complete = True
        finally:
            self.indexes.end_listing(listing, complete=complete)

    def _note(self, scope: Scope, problems: str) -> None:
        shown = _shown(scope)
        if problems:
            if shown not in self.unreadable:
                logger.warning("namespace %s can't be read: %s", shown, problems)
            self.unreadable[shown] = problems
        elif self.unreadable.pop(shown, None) is not None:
            logger.info("namespace %s can be read again", shown)
            self.indexes.owed_from_now(scope)
        self.turned(shown, bool(problems))


def _problem(kind: str, error: ClusterError) -> str:
    return f"{kind}: {type(error).__name__}: {str(error)[:MAX_REASON_CHARS]}"


def _shown(scope: Scope) -> str:
    return ALL_NAMESPACES if scope is None else scope
