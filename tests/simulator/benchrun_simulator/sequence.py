"""One prompt on its way through the engine."""

from dataclasses import dataclass, field

from benchrun_simulator.prefix_cache import Lease


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """One prompt and the tokens it will get."""

    prompt: list[int]
    output: list[int]
    """The tokens to generate, at least one; known beforehand, revealed in time."""
    arrived_at: float
    number: int = 0
    """Which request of the server's life this is, from 1; 0 for traffic that no client sent."""
    salt: str = ""
    pooled: bool = False
    """Its one result is an embedding, and no token."""
    generated: int = 0
    scheduled_at: float | None = None
    """First admission; later ones, after a preemption, do not move it."""
    cached_tokens: int = 0
    """Prefix-cache hit at the first admission."""
    elsewhere_tokens: int = 0
    """Of the prompt, so many first tokens were prefilled by another server, which hands them
    over."""
    fetched_tokens: int = 0
    """Handed over at the first admission: those of `elsewhere_tokens` that the prefix cache has
    not."""
    preemptions: int = 0
    held_up_seconds: float = 0.0
    """Added to the prefill, as for the first requests of a cold engine."""
    hashes: list[bytes] = field(default_factory=list)
    lease: Lease = field(default_factory=Lease)
    next_token_at: float = 0.0
    ticket: int = 0
    """Which entry in the event queue counts; entries with an older number are void."""

    @property
    def tokens(self) -> int:
        return len(self.prompt) + self.generated

    @property
    def computed_tokens(self) -> int:
        """Return how many prompt tokens this server computed."""
        return len(self.prompt) - self.cached_tokens - self.fetched_tokens

    @property
    def finished(self) -> bool:
        return self.generated == len(self.output)
