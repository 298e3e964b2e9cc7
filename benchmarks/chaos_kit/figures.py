"""The counts of the benchmark, and its limits."""

from collections.abc import Iterator
from dataclasses import dataclass

from _outcome import beyond

FAULTS = 300


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed; its keys are these names."""

    faults: int
    """Number of faults that were carried out."""
    lost: int
    """Number of stages of completed runs whose record is not stored as it was measured."""
    doubled: int
    """Number of stages that were stored or measured twice, and of runs and servers that were made
    twice."""
    leaked: int
    """Number of objects that nothing needs any more and that stay."""
    wrong: int
    """Number of runs and sweeps that did not end, or ended for a reason that no fault explains."""
    late: int
    """Number of runs that no fault was aimed at and that took longer than the operator was
    disturbed."""

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        zero = dict.fromkeys(("lost", "doubled", "leaked", "wrong", "late"), 0.0)
        return beyond(self, at_least={"faults": FAULTS}, at_most=zero)
