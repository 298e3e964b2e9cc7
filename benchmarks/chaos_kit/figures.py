"""The counts of the benchmark, and its limits."""

from collections.abc import Iterator
from dataclasses import dataclass

from _outcome import beyond

FAULTS = 300


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed; its keys are these names."""

    faults: int
    """That were carried out."""
    lost: int
    """Stages of runs that completed whose record is not stored as it was measured."""
    doubled: int
    """Stages that were stored or measured twice, runs and servers that were made twice."""
    leaked: int
    """Objects that nobody wants any more and that stay."""
    wrong: int
    """Runs and sweeps that did not end, or ended for a reason that no fault explains."""
    late: int
    """Runs that nothing was aimed at and that took longer than the operator was disturbed."""

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        zero = dict.fromkeys(("lost", "doubled", "leaked", "wrong", "late"), 0.0)
        return beyond(self, at_least={"faults": FAULTS}, at_most=zero)
