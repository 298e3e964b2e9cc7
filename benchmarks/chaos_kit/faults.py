"""The possible faults, and the draw of a round's faults.

It depends on seed and round alone, so that a round can be played once more, with all of its faults
or with some.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

RUNS = 3
VARIANTS = 2
TENANTS = ("a", "b", "c")

MOMENTS = (
    "applied",
    "created",
    "heard",
    "served",
    "measuring",
    "recorded",
    "measured",
    "ended",
)
"""Steps of a run in order: its Job exists, its client answers, its server exists, and so on."""
STRAY = ("Background", "Foreground", "Orphan")
_CLOCKS_SECONDS = (-5 * 3600, -90, 90, 30 * 86400)
_ANSWERS = (409, 429, 500, 503, 504, "hang", "drop", "lost")
_RIGHTS = (
    "jobs create",
    "deployments create",
    "deployments delete",
    "configmaps create",
    "services create",
    "pods list",
    "benchmarkruns/status patch",
    "benchmarkruns create",
)
_FULL = (
    "configmaps",
    "pods",
    "count/jobs.batch",
    "count/deployments.apps",
    "services",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    number: int
    """Position of the fault in the draw of its round."""
    kind: str
    how: str
    tenant: str
    run: str
    """The run or sweep that the fault is aimed at, or whose steps time it."""
    moment: str
    delay_seconds: float
    """Seconds from that step to the fault."""
    seconds: float
    """Seconds that the fault lasts."""
    seed: int
    """Seed of the random choices within the fault."""

    def __str__(self) -> str:
        where = (
            f"all, by {self.run}" if self.is_of_all else f"{self.tenant}/{self.run}"
        )
        return (
            f"{self.number}: {self.kind} {self.how} ({where}, {self.moment} "
            f"+ {self.delay_seconds:.1f} s, {self.seconds:.1f} s)"
        )

    @property
    def is_aimed_at_one(self) -> bool:
        """Return whether one run or sweep alone is hit, and not a namespace or the operator."""
        return self.kind in AIMED

    @property
    def is_of_all(self) -> bool:
        """Return whether it hits all that the operator serves."""
        return self.kind in OF_ALL


def run_names(round_number: int) -> tuple[str, ...]:
    """Return the names of each tenant's plain runs."""
    return tuple(f"r{round_number}-n{number}" for number in range(1, RUNS + 1))


def sweep_name(round_number: int) -> str:
    """Return the name of each tenant's sweep."""
    return f"r{round_number}-s"


def swept_names(round_number: int) -> tuple[str, ...]:
    """Return the names of the runs that the sweep creates when none is lost."""
    return tuple(
        f"{sweep_name(round_number)}-v{n}-r1" for n in range(1, VARIANTS + 1)
    )


Draw = random.Random
Choice = Callable[[Draw], tuple[str, float]]
"""Return the way of a fault and its duration in seconds."""


def _of(*ways: str, least: float = 0.0, most: float = 0.0) -> Choice:
    return lambda draw: (draw.choice(ways), round(draw.uniform(least, most), 1))


_OPERATOR: dict[str, tuple[int, Choice]] = {
    "kill": (6, _of("restart", least=0, most=4)),
    "kill-at-write": (
        6,
        _of(
            *(f"{when} {n}" for when in ("before", "after") for n in range(1, 7)),
            most=2,
        ),
    ),
    "stop": (2, _of("SIGSTOP", least=2, most=15)),
    "second": (2, _of("leads too", least=5, most=12)),
    "node-clock": (2, _of(*map(str, _CLOCKS_SECONDS))),
    "api": (5, _of(*map(str, _ANSWERS[1:]), least=1, most=8)),
    "watch-silent": (2, _of("then heard", "then closed", least=4, most=15)),
    "watch-gone": (2, _of("410", least=1, most=6)),
}
_NAMESPACE: dict[str, tuple[int, Choice]] = {
    "answers": (
        8,
        _of(
            *(f"{a} {part}" for a in _ANSWERS for part in ("all", "some")),
            least=2,
            most=8,
        ),
    ),
    "invalid": (1, _of("422")),
    "quota": (4, _of(*_FULL, least=3, most=12)),
    "right": (4, _of(*_RIGHTS, least=2, most=10)),
}
_RUN: dict[str, tuple[int, Choice]] = {
    "delete": (
        8,
        _of(
            *(
                f"{what} {how}"
                for what in (
                    "Job",
                    "Deployment",
                    "plan",
                    "Service",
                    "client-pod",
                    "server-pod",
                )
                for how in STRAY
            )
        ),
    ),
    "client-pod": (4, _of("oom", "evicted", "exit", "killed")),
    "server-pod": (4, _of("oom", "evicted", "restarted")),
    "no-node": (2, _of("client", "server", least=3, most=8)),
    "never-a-node": (1, _of("client", "server")),
    "pod-clock": (2, _of(*map(str, _CLOCKS_SECONDS))),
    "run": (6, _of("suspend", "cancel", "delete", "anew", least=1, most=5)),
}
_SWEEP: dict[str, tuple[int, Choice]] = {
    "sweep": (5, _of("suspend", "cancel", "delete", "anew", least=2, most=8)),
}
OF_ALL = frozenset(_OPERATOR)
AIMED = frozenset(_RUN) | frozenset(_SWEEP)
FROM_THE_START = ("no-node", "never-a-node", "pod-clock")
"""Kinds of faults that the run's kubelet must know before it has a pod."""


def drawn(seed: int, round_number: int, count: int) -> tuple[Fault, ...]:
    """Draw the faults of a round; one tenant is a bystander that none of them is aimed at."""
    draw = random.Random(f"{seed}/{round_number}")
    bystander = draw.choice(TENANTS)
    return tuple(
        _one(draw, number, round_number, bystander)
        for number in range(1, count + 1)
    )


def _one(draw: Draw, number: int, round_number: int, bystander: str) -> Fault:
    all_kinds = {**_OPERATOR, **_NAMESPACE, **_RUN, **_SWEEP}
    weights = [weight for weight, _ in all_kinds.values()]
    kind = draw.choices(list(all_kinds), weights)[0]
    how, seconds = all_kinds[kind][1](draw)
    tenant = draw.choice([each for each in TENANTS if each != bystander])
    name = draw.choice((*run_names(round_number), *swept_names(round_number)[:1]))
    moment = draw.choice(MOMENTS[:-1] if kind in _RUN else MOMENTS)
    return Fault(
        number=number,
        kind=kind,
        how=how,
        tenant=tenant,
        run=sweep_name(round_number) if kind in _SWEEP else name,
        moment="applied" if kind in FROM_THE_START else moment,
        delay_seconds=0.0
        if kind in FROM_THE_START
        else round(draw.uniform(0, 1.5), 1),
        seconds=seconds,
        seed=draw.randrange(2**31),
    )
