"""How a run or a sweep may end, by the faults that hit it; what no fault explains is a defect."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chaos_kit.faults import Fault, run_names, sweep_name, swept_names

COMPLETED = "Completed"
GONE = "Gone"
RESTART_SECONDS = 12.0
"""Time until a killed operator has read everything and works again, on busy cores."""

_DELETED = {
    "Job": {"ClientGone"},
    "Deployment": {"ServerGone", "ServerRestarted"},
    # A new operator that finds no plan can't check what the client says.
    "plan": {"RunDeadlineExceeded"},
    "Service": set[str](),
    "client-pod": {"ClientGone"},
    "server-pod": {"ServerRestarted"},
}
_POD = {
    ("client-pod", "oom"): {"OutOfMemory"},
    ("client-pod", "evicted"): {"Evicted"},
    ("client-pod", "exit"): {"ClientFailed"},
    ("client-pod", "killed"): {"ClientGone"},
    ("server-pod", "oom"): {"OutOfMemory", "ServerRestarted"},
    ("server-pod", "evicted"): {"Evicted", "ServerRestarted"},
    ("server-pod", "restarted"): {"ServerRestarted"},
}
_WISH = {"cancel": {"Cancelled"}, "delete": {GONE}}
_KILLS = ("kill", "kill-at-write")
_CAUSES = frozenset().union(*_DELETED.values(), *_POD.values())
_RESTARTS = ("kill", "kill-at-write", "node-clock")


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may become of a run or a sweep."""

    endings: frozenset[str] = frozenset({COMPLETED})
    """`COMPLETED`, `GONE`, or the reason of `Failed`."""
    may_lose: bool = False
    """Whether records that were refused for good may be missing."""
    is_aimed_at: bool = False
    late_seconds: float | None = None
    """Seconds by which it may end later than an undisturbed one; None: no limit."""


def allowances(
    round_number: int, tenant: str, carried_out: Iterable[Fault]
) -> dict[str, Allowance]:
    """Return the allowances of a tenant's runs and sweep by name, swept runs included."""
    faults = tuple(carried_out)
    of_all = sum(_disturbed_seconds(fault) for fault in faults if fault.is_of_all)
    own = tuple(f for f in faults if f.tenant == tenant and not f.is_of_all)
    names = (*run_names(round_number), *swept_names(round_number))
    sweep = sweep_name(round_number)
    found = {name: _of_run(name, own, sweep, of_all) for name in names}
    if any(fault.kind in _KILLS for fault in faults if fault.is_of_all):
        found = {
            name: _cause_may_be_lost(allowed) for name, allowed in found.items()
        }
    return {**found, sweep: _of_sweep(sweep, own, found)}


def _cause_may_be_lost(allowed: Allowance) -> Allowance:
    """Add the endings that a run may have when the operator is killed at a bad moment.

    The operator releases servers before it writes the cause: when it is killed between the two, a
    run is left that lacks its server.
    """
    if not allowed.endings & _CAUSES:
        return allowed
    return replace(allowed, endings=allowed.endings | {"ServerGone", "ClientGone"})


def of_attempt(allowed: dict[str, Allowance], name: str) -> Allowance:
    """Return the allowance of a run of any name.

    A sweep's further attempts share what hit all of its namespace.
    """
    if name in allowed:
        return allowed[name]
    base = allowed.get(name.rpartition("-a")[0], Allowance())
    shared = base.endings & {COMPLETED, "ChildInvalid", "Cancelled", GONE}
    return Allowance(frozenset(shared), base.may_lose, base.is_aimed_at)


def _of_run(
    name: str, own: tuple[Fault, ...], sweep: str, of_all: float
) -> Allowance:
    is_swept = name.startswith(f"{sweep}-")
    aimed = [
        f
        for f in own
        if f.is_aimed_at_one and (f.run == name or (is_swept and f.run == sweep))
    ]
    shared = [f for f in own if not f.is_aimed_at_one]
    endings = {COMPLETED}.union(
        *(_endings(fault, is_swept=is_swept) for fault in (*aimed, *shared))
    )
    return Allowance(
        endings=frozenset(endings),
        may_lose=any(fault.kind == "invalid" for fault in shared),
        is_aimed_at=bool(aimed),
        late_seconds=None if aimed or shared else of_all,
    )


def _of_sweep(
    sweep: str, own: tuple[Fault, ...], runs: dict[str, Allowance]
) -> Allowance:
    wishes = [f for f in own if f.run == sweep and f.kind == "sweep"]
    endings = {COMPLETED}.union(*(_WISH.get(fault.how, set()) for fault in wishes))
    swept = [each for name, each in runs.items() if name.startswith(f"{sweep}-")]
    if any(each.endings - {COMPLETED} for each in swept):
        endings |= {"RunsFailed", "AllFailed"}
    if any(fault.kind == "invalid" for fault in own):
        endings |= {"RunInvalid"}
    return Allowance(frozenset(endings), is_aimed_at=bool(wishes))


def _endings(fault: Fault, *, is_swept: bool) -> set[str]:
    if fault.kind == "delete":
        return _DELETED[fault.how.split()[0]]
    if fault.kind in ("client-pod", "server-pod"):
        return _POD[fault.kind, fault.how]
    if fault.kind == "never-a-node":
        return {"Unschedulable"}
    if fault.kind == "invalid":
        return {"ChildInvalid", *((GONE,) if is_swept else ())}
    if fault.kind == "run" and fault.how == "anew" and is_swept:
        # deleted; its sweep creates it again, unless the sweep has ended
        return {GONE}
    if fault.kind == "run":
        return _WISH.get(fault.how, set())
    if fault.kind == "sweep" and fault.how == "cancel":
        return {"Cancelled", GONE}
    return {GONE} if fault.kind == "sweep" and fault.how == "delete" else set()


def _disturbed_seconds(fault: Fault) -> float:
    return fault.seconds + (RESTART_SECONDS if fault.kind in _RESTARTS else 0.0)
