"""Specs that are tried: drawn from the definitions' schemas, and examples with one leaf changed.
Each is known by its number alone."""

import random
import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from benchrun.api.crd import RUN, SWEEP
from fuzz.mutations import leaf_by_leaf
from fuzz.played_specs import FATES, Outcome, outcome_of_run, outcome_of_sweep
from fuzz.schema_values import Drawing
from unit.api.examples import EXAMPLES, Example

DEFINITIONS = {each.kind: each for each in (RUN, SWEEP)}
SEED = 35
SHARE_OF_SWEEPS = 0.2
MOST_SECONDS = 20.0
"""CPU seconds of one spec: some take one, on a slow machine a few."""


class Tried(NamedTuple):
    """A spec, and where it comes from."""

    name: str
    kind: str
    spec: Any


def drawn(count: int, *, first: int = 0) -> Iterator[Tried]:
    """So many from the schemas: half of them whole, half examples with parts drawn anew."""
    for number in range(first, first + count):
        rng = random.Random(f"{SEED} drawn {number}")
        drawing = Drawing(rng)
        kind = SWEEP.kind if rng.random() < SHARE_OF_SWEEPS else RUN.kind
        schema = _schema(kind)
        like = rng.choice(_examples(kind)) if number % 2 else None
        spec = drawing.value(schema) if like is None else drawing.like(like, schema)
        yield Tried(f"drawn {number}", kind, spec)


def changed(
    count: int, *, of: Sequence[Example] = EXAMPLES, seed: int = SEED
) -> Iterator[Tried]:
    """So many of these examples with one leaf changed, drawn from all that can be."""
    ours = [each for each in of if each.kind in DEFINITIONS]
    every = [
        (each, leaf) for each in ours for leaf in leaf_by_leaf(each.body["spec"])
    ]
    for example, leaf in random.Random(seed).sample(every, count):
        where = "".join(f"[{each!r}]" for each in leaf.path)
        body = example.body["spec"]
        yield Tried(
            f"{example.name}{where} {leaf.name}", example.kind, leaf.of(body)
        )


@cache
def _schema(kind: str) -> Any:
    return DEFINITIONS[kind].spec_schema()


@cache
def _examples(kind: str) -> list[Any]:
    return [each.body["spec"] for each in EXAMPLES if each.kind == kind]


@dataclass
class Tally:
    """What came of many."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    worst_seconds: float = 0.0
    worst: str = ""

    @property
    def tried(self) -> int:
        return self.outcomes.total()


def tally_of(specs: Iterable[Tried]) -> Tally:
    """Try each. A run has one fate, turn by turn; what raises is among the wrong ones."""
    tally = Tally()
    for number, tried in enumerate(specs):
        began = time.process_time()
        try:
            outcome = _outcome(tried, number)
            tally.outcomes[f"{tried.kind} {outcome.kind}"] += 1
            tally.reasons[outcome.reason] += 1
        except Exception as error:
            tally.outcomes[f"{tried.kind} wrong"] += 1
            tally.wrong.append(
                f"{tried.name}: {type(error).__name__}: {str(error)[:300]}"
            )
        took = time.process_time() - began
        if took > tally.worst_seconds:
            tally.worst_seconds = took
            tally.worst = tried.name
    return tally


def _outcome(tried: Tried, number: int) -> Outcome:
    if tried.kind == SWEEP.kind:
        return outcome_of_sweep(tried.spec)
    return outcome_of_run(tried.spec, FATES[number % len(FATES)])


def peak_mib() -> int:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def report(tally: Tally) -> str:
    """In a few lines."""
    counts = ", ".join(
        f"{count} {name}" for name, count in sorted(tally.outcomes.items())
    )
    slowest = f"slowest {tally.worst_seconds:.2f} s ({tally.worst}), peak {peak_mib()} MiB"
    return "\n".join(
        chain([f"{tally.tried} specs: {counts}", slowest], tally.wrong[:20])
    )
