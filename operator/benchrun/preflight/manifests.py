"""The objects of a manifest, each checked by what its kind takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchrun.api.base import GROUP, KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.preflight.remark import error, note
from benchrun.preflight.run import Checked, Known, check_run
from benchrun.preflight.schema import Object
from benchrun.preflight.sweep import check_sweep

CHECKS: Mapping[str, Callable[[Object, Known], Checked]] = {KIND: check_run, SWEEP_KIND: check_sweep}
"""How an object of each of our kinds is checked. A new kind is a module and a line here."""


@dataclass(frozen=True, slots=True)
class CheckedObject:
    """One object of the manifest."""

    kind: str
    name: str
    checked: Checked


def check_objects(bodies: Sequence[Object], known: Known) -> tuple[CheckedObject, ...]:
    """Check each object, in order."""
    return tuple(_check(body, known) for body in bodies)


def _check(body: Object, known: Known) -> CheckedObject:
    kind = str(body.get("kind") or "")
    metadata = body.get("metadata")
    name = str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, Mapping) else ""
    check = CHECKS.get(kind)
    if check is not None:
        return CheckedObject(kind, name, check(body, known))
    ours = str(body.get("apiVersion") or "").startswith(f"{GROUP}/")
    text = f"this benchrun knows {', '.join(CHECKS)}"
    return CheckedObject(
        kind, name, Checked((error("kind", f"{kind!r}: {text}") if ours else note("kind", _FOREIGN),), None)
    )


_FOREIGN = "no benchmark; not looked at"
