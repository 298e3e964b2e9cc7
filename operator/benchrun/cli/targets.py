"""What can be followed to its end: a run, or a sweep with its runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

from benchrun.api.base import KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.cli.errors import CommandError
from benchrun.cli.kubectl import RUN, SWEEP, Kubectl

RESOURCES = {KIND: RUN, SWEEP_KIND: SWEEP}
"""By kind, those that are followed; others are applied and left to themselves."""


def add_sweep(parser: argparse.ArgumentParser) -> None:
    """The option of commands that take the name of a run, else of a sweep."""
    parser.add_argument("--sweep", action="store_true", help="NAME is a sweep; for a sweep that has the name of a run")


@dataclass(frozen=True, slots=True)
class Target:
    """Of which kind it is, and the kubectl of its namespace."""

    kubectl: Kubectl
    kind: str = KIND

    @property
    def is_sweep(self) -> bool:
        """Whether it is a sweep."""
        return self.kind == SWEEP_KIND

    @property
    def resource(self) -> str:
        """As kubectl takes it."""
        return RESOURCES[self.kind]

    @property
    def noun(self) -> str:
        """In a sentence."""
        return "sweep" if self.is_sweep else "run"


def by_name(targets: Iterable[tuple[str, Target]]) -> dict[str, Target]:
    """Each under its name. Raises CommandError where two have one name."""
    found: dict[str, Target] = {}
    for name, target in targets:
        other = found.setdefault(name, target)
        if other.kind != target.kind:
            raise CommandError(f"a run and a sweep are both called {name}; follow one after the other")
        if other != target:
            raise CommandError(
                f"two {target.noun}s of different namespaces are called {name}; follow one after the other"
            )
    return found
