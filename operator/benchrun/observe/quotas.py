"""Convert Kueue's Workloads and ResourceFlavors to what decisions read of them.

Total functions, as in `view_builders`: nothing raises, whatever an object holds.
"""

import re
from dataclasses import dataclass
from itertools import islice

from benchrun.api.queueing import (
    MAX_FLAVORS,
    MAX_NODE_LABELS,
    MAX_POD_SETS,
    MAX_TOLERATIONS,
)
from benchrun.observe import untrusted_json as raw

_MAX_VALUE_CHARS = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""Names of objects: no other text may go into a URL."""
_DEACTIVATED = "Deactivated"
"""What the reasons begin with for which Kueue itself would not queue a workload again."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What Kueue says of a Workload."""

    is_admitted: bool = False
    evicted: str | None = None  # Why the quota is lost; None: it is not.
    is_final: bool = False  # Whether Kueue would not queue what was evicted again.
    waits: str = ""  # Why there is no quota yet; empty: Kueue has not said.
    flavors: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of the ResourceFlavors by pod set, each list sorted."""


@dataclass(frozen=True, slots=True)
class Flavor:
    """What a ResourceFlavor adds to pods."""

    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[tuple[tuple[str, str | int], ...], ...] = ()


def quota_of(body: raw.Object) -> Quota:
    """Return what the conditions of a Workload say.

    Evicted counts whatever the others say: Kueue may leave Admitted True beside it for hours.
    """
    status = raw.mapping(body.get("status"))
    reserved, admitted, evicted, finished = (
        raw.condition(status, type_)
        for type_ in ("QuotaReserved", "Admitted", "Evicted", "Finished")
    )
    lost = next((each for each in (evicted, finished) if _is_true(each)), None)
    is_held = _is_true(reserved) and _is_true(admitted) and lost is None
    waits = (
        raw.text(each.get("message"), raw.MAX_MESSAGE_CHARS)
        for each in (reserved, admitted)
        if not _is_true(each)
    )
    return Quota(
        is_admitted=is_held,
        evicted=None if lost is None else _in_words(lost),
        is_final=lost is finished
        or raw.text(evicted.get("reason")).startswith(_DEACTIVATED),
        waits=next(filter(None, waits), ""),
        flavors=_flavors(status) if is_held else (),
    )


def flavor_of(body: raw.Object) -> Flavor:
    """Return what a ResourceFlavor adds to pods."""
    spec = raw.mapping(body.get("spec"))
    labels = raw.mapping(spec.get("nodeLabels"))
    named = sorted(name for name in labels if isinstance(name, str))
    tolerations = islice(raw.mappings(spec.get("tolerations")), MAX_TOLERATIONS)
    return Flavor(
        name=raw.text(raw.mapping(body.get("metadata")).get("name")),
        node_labels=tuple(
            (name[:_MAX_VALUE_CHARS], raw.text(labels[name]))
            for name in named[:MAX_NODE_LABELS]
        ),
        tolerations=tuple(_toleration(each) for each in tolerations),
    )


def _toleration(given: raw.Object) -> tuple[tuple[str, str | int], ...]:
    words: dict[str, str | int] = {
        name: raw.text(given.get(name))
        for name in ("key", "operator", "value", "effect")
        if given.get(name)
    }
    seconds = given.get("tolerationSeconds")
    if seconds is not None:
        words["tolerationSeconds"] = raw.number(seconds)
    return tuple(words.items())


def _flavors(status: raw.Object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    admission = raw.mapping(status.get("admission"))
    given = islice(raw.mappings(admission.get("podSetAssignments")), MAX_POD_SETS)
    return tuple(
        (raw.text(each.get("name")), _names(raw.mapping(each.get("flavors"))))
        for each in given
    )


def _names(by_resource: raw.Object) -> tuple[str, ...]:
    found = (raw.text(name) for name in islice(by_resource.values(), MAX_FLAVORS))
    return tuple(sorted({name for name in found if _NAME.fullmatch(name)}))


def _is_true(condition: raw.Object) -> bool:
    return condition.get("status") == "True"


def _in_words(condition: raw.Object) -> str:
    reason = raw.text(condition.get("reason")) or raw.text(condition.get("type"))
    message = raw.text(condition.get("message"), raw.MAX_MESSAGE_CHARS)
    return f"{reason}: {message}" if message else reason
