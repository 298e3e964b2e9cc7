"""Prefills that share one engine: a limit of tokens at once, and one piece of work after the other.

A coarse chunked prefill. Prompts of at most `tokens` uncached tokens in all are between admission
and first token; the rest waits although sequences and blocks would be free. A longer prompt goes in
alone."""

from benchrun_simulator.sequence import Sequence


class PrefillBudget:
    """Who is being prefilled, and until when the engine is busy with it."""

    def __init__(self, *, tokens: int) -> None:
        self._budget = tokens
        self._taken: dict[Sequence, int] = {}
        self._busy_until = 0.0

    def has_room(self, computed: int) -> bool:
        """Whether a prompt with so many tokens to compute may start now."""
        return not self._taken or sum(self._taken.values()) + computed <= self._budget

    def begin(self, sequence: Sequence, *, computed: int, work_seconds: float, now: float) -> float:
        """Take the tokens; return when the work is done that this prefill and those before it
        need."""
        self._taken[sequence] = computed
        self._busy_until = max(self._busy_until, now) + work_seconds
        return self._busy_until

    def end(self, sequence: Sequence) -> bool:
        """Give the tokens back; False when the sequence had none."""
        return self._taken.pop(sequence, None) is not None
