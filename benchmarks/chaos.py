"""Hundreds of random faults against the operator on a real API server.

Nothing may be lost, doubled, leaked, wrong or late. Runs and sweeps of several tenants proceed
while processes are killed, answers are spoilt, objects are deleted and pods fail; after each burst
the world settles and is checked. Nothing runs in the pods: scheduler, kubelets and containers are
played. Needs KUBECONFIG, kubectl and helm. Everything is drawn from `--seed`; a round that fails is
played once more with fewer faults, and the shortest that fails is printed as a command. Progress
goes to standard error; the last line on standard output is one JSON object
(`chaos_kit.figures.Figures`). Exits 1 when a limit is not kept, 2 when something went wrong.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _outcome import NotAsExpected, measured, say
from chaos_kit.faults import Fault, drawn
from chaos_kit.figures import FAULTS, Figures
from chaos_kit.invariants import Violation
from chaos_kit.rounds import Arena, Outcome
from chaos_kit.shrinking import shrinking
from runs_kit.operator_process import command

CALM_ROUND = 0


@dataclass(frozen=True, slots=True)
class Wishes:
    """The arguments of the command line."""

    seed: int
    faults: int
    minutes: float
    burst: int
    rounds: tuple[int, ...]
    """Only these rounds; empty: as many as it takes."""
    only: tuple[int, ...]
    """Only these faults of a round; empty: all."""
    trials: int


def main() -> int:
    """Play the rounds, print the figures, and compare them with the limits.

    Return the exit status: 0, 1 when a limit is not kept, 2 when something went wrong.
    """
    return measured(_play(_wishes()))


def _wishes() -> Wishes:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--faults", type=int, default=FAULTS, help="to carry out at least"
    )
    parser.add_argument(
        "--minutes", type=float, default=20.0, help="no round begins after these"
    )
    parser.add_argument(
        "--burst", type=int, default=24, help="faults drawn a round"
    )
    parser.add_argument(
        "--round", type=_numbers, default=(), help="only these: 3 or 3,5"
    )
    parser.add_argument(
        "--only", type=_numbers, default=(), help="only these faults of a round"
    )
    parser.add_argument(
        "--trials", type=int, default=8, help="to shrink a round that failed"
    )
    given = parser.parse_args()
    return Wishes(
        seed=given.seed,
        faults=given.faults,
        minutes=given.minutes,
        burst=given.burst,
        rounds=given.round,
        only=given.only,
        trials=given.trials,
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


async def _play(wishes: Wishes) -> Figures:
    definitions = str(Path(__file__).parents[1] / "crds")
    await command(
        "kubectl", "apply", "--server-side", "--force-conflicts", "-f", definitions
    )
    wait = ("--for=condition=Established", "-f", definitions, "--timeout=30s")
    await command("kubectl", "wait", *wait)
    with tempfile.TemporaryDirectory(prefix="benchrun-chaos-") as directory:
        async with Arena.opened(Path(directory), say) as arena:
            return await _rounds(arena, wishes)


async def _rounds(arena: Arena, wishes: Wishes) -> Figures:
    began = time.monotonic()
    carried_out = 0
    found = list[Violation]()
    calm = await arena.play(CALM_ROUND, (), calm_seconds=None)
    if calm.violations:
        raise NotAsExpected(
            "without any fault: " + "; ".join(map(str, calm.violations))
        )
    say(f"without faults the slowest run took {calm.longest_seconds:.1f} s")
    numbers = iter(wishes.rounds or range(1, 1000))
    while (
        carried_out < wishes.faults
        and time.monotonic() - began < 60 * wishes.minutes
    ):
        if (number := next(numbers, None)) is None:
            break
        faults = drawn(wishes.seed, number, wishes.burst)
        chosen = tuple(
            f for f in faults if not wishes.only or f.number in wishes.only
        )
        outcome = await _one(arena, number, chosen, calm.longest_seconds)
        carried_out += len(outcome.carried_out)
        found += outcome.violations
        say(f"round {number}: {carried_out} faults so far, {len(found)} violations")
        if outcome.violations:
            fewer = await _shrunk(
                arena, number, outcome, calm.longest_seconds, wishes.trials
            )
            say(f"repeat with: {_command(wishes, number, fewer)}")
    keys = Counter(violation.key for violation in found)
    return Figures(
        faults=carried_out,
        lost=keys["lost"],
        doubled=keys["doubled"],
        leaked=keys["leaked"],
        wrong=keys["wrong"],
        late=keys["late"],
    )


async def _one(
    arena: Arena, number: int, faults: Sequence[Fault], calm_seconds: float
) -> Outcome:
    say(f"round {number}: {len(faults)} faults")
    outcome = await arena.play(number, faults, calm_seconds=calm_seconds)
    for violation in outcome.violations:
        say(f"  VIOLATION {violation}")
    return outcome


async def _shrunk(
    arena: Arena, number: int, outcome: Outcome, calm_seconds: float, trials: int
) -> tuple[Fault, ...]:
    """Return the shortest sequence of faults that is known to break one of the same invariants."""
    keys = {violation.key for violation in outcome.violations}
    shortest = outcome.carried_out
    tries = shrinking(outcome.carried_out)
    tried = next(tries, None)
    for _ in range(trials):
        if tried is None:
            break
        again = await _one(arena, number, tried, calm_seconds)
        fails = not keys.isdisjoint(violation.key for violation in again.violations)
        shortest = tried if fails else shortest
        try:
            tried = tries.send(fails)
        except StopIteration:
            tried = None
    return shortest


def _command(wishes: Wishes, number: int, faults: Sequence[Fault]) -> str:
    only = ",".join(str(fault.number) for fault in faults)
    given = f"--seed {wishes.seed} --burst {wishes.burst} --round {number} --only {only}"
    return f".venv/bin/python benchmarks/chaos.py {given} --faults 1"


if __name__ == "__main__":
    sys.exit(main())
