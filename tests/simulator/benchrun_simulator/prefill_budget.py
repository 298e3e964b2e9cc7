"""Prefills that share one engine: a limit of tokens at once, and one prefill after the other.

This is a coarse chunked prefill. Prompts of at most `tokens` uncached tokens in all are between
admission and first token; the rest waits although sequences and blocks would be free. A longer
prompt goes in alone.
"""

from benchrun_simulator.sequence import Sequence


class PrefillBudget:
    """The sequences in prefill, and the instant until which the engine is busy with them."""

    def __init__(self, *, tokens: int) -> None:
        self._budget = tokens
        self._taken: dict[Sequence, int] = {}
        self._busy_until = 0.0

    def has_room(self, computed: int) -> bool:
        """Return whether a prompt with so many tokens to compute may start now."""
        return (
            not self._taken or sum(self._taken.values()) + computed <= self._budget
        )

    def begin(
        self, sequence: Sequence, *, computed: int, work_seconds: float, now: float
    ) -> float:
        """Take the tokens; return when the work of this prefill and those before it is done."""
        self._taken[sequence] = computed
        self._busy_until = max(self._busy_until, now) + work_seconds
        return self._busy_until

    def end(self, sequence: Sequence) -> bool:
        """Give the tokens back; return False if the sequence had none."""
        return self._taken.pop(sequence, None) is not None
