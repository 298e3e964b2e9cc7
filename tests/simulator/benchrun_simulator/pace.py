"""How long prefill and tokens take: the configured timing, and all that is set to disturb it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from benchrun_simulator.cold import Cold, ColdStart
from benchrun_simulator.compilation import Compilations, Compiler
from benchrun_simulator.drift import Changes, Drift
from benchrun_simulator.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the imitated engine takes."""

    first_token_seconds: float
    """From admission to the first token, for an empty prompt."""
    prefill_seconds_per_token: float
    """Added for every prompt token that is not in the prefix cache."""
    per_token_seconds: float
    """Between two tokens of a sequence that runs alone."""
    per_running_seconds: float = 0.0
    """Added between two tokens for each running sequence: throughput nears 1 / this, as where
    compute is the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbances:
    """What makes times differ from `Timing`."""

    changes: Changes = field(default_factory=Changes)
    cold: Cold = field(default_factory=Cold)
    compilations: Compilations = field(default_factory=Compilations)


class Pace:
    """The durations of one server's sequences, in seconds."""

    def __init__(
        self,
        timing: Timing,
        disturbances: Disturbances | None = None,
        *,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        disturbances = disturbances or Disturbances()
        self._timing = timing
        self._drift = (
            Drift(disturbances.changes)
            if disturbances.changes != Changes()
            else None
        )
        self._cold = ColdStart(disturbances.cold)
        self._compiler = Compiler(disturbances.compilations, warn=warn)

    def arrived(self, sequence: Sequence, *, now: float) -> None:
        """Note a request; only requests of clients change the pace."""
        if sequence.number:
            sequence.held_up_seconds = self._cold.held_up_seconds(
                sequence.number, now=now
            )
            if self._drift is not None:
                self._drift.arrived(sequence.number, now=now)

    def stall(self, sequence: Sequence) -> float:
        """Return for how long all sequences stand still because this one is admitted."""
        return self._compiler.stall_seconds(
            sequence.number, prompt_tokens=len(sequence.prompt)
        )

    def latency(self, sequence: Sequence, *, now: float) -> float:
        """Return the part of TTFT, in seconds, that does not depend on the prompt's length."""
        return (
            self._timing.first_token_seconds * self._factor(sequence, now)
            + sequence.held_up_seconds
        )

    def prefill(self, sequence: Sequence, *, computed: int, now: float) -> float:
        """Return the time for the `computed` tokens of a prompt, those that are not cached."""
        return (
            computed
            * self._timing.prefill_seconds_per_token
            * self._factor(sequence, now)
        )

    def token(self, sequence: Sequence, *, running: int, now: float) -> float:
        """Return the time from one token to the next, with so many sequences running."""
        step = (
            self._timing.per_token_seconds
            + self._timing.per_running_seconds * running
        )
        return step * self._factor(sequence, now)

    def _factor(self, sequence: Sequence, now: float) -> float:
        return (
            1.0
            if self._drift is None
            else self._drift.factor(sequence.number, now=now)
        )
