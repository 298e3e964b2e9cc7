"""Kernels compiled while requests are served: the whole engine stands still, and the log says so.

The words are those of vLLM 0.32 (`vllm/utils/jit_monitor.py`), which warns once a kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilations:
    """The occasions on which kernels are compiled; the defaults compile none."""

    at_request: int | None = None
    """One, when this request is admitted."""
    for_each_length: bool = False
    """One for each power of two that a prompt's length reaches for the first time."""
    seconds: float = 0.5


class Compiler:
    """A calculator of how long the engine stands still when a request is admitted."""

    def __init__(
        self, compilations: Compilations, *, warn: Callable[[str], None]
    ) -> None:
        self._compilations = compilations
        self._warn = warn
        self._lengths: set[int] = set()
        self._at_request_done = False

    def stall_seconds(self, number: int, *, prompt_tokens: int) -> float:
        """Compile what request `number` needs; return the seconds, 0 if nothing is missing."""
        asked = self._compilations
        stall = 0.0
        if number == asked.at_request and not self._at_request_done:
            self._at_request_done = True  # a preempted request is admitted twice
            stall += self._compile(f"_kernel_of_request_{number}")
        length = max(prompt_tokens - 1, 0).bit_length()
        if asked.for_each_length and length not in self._lengths:
            self._lengths.add(length)
            stall += self._compile(f"_kernel_up_to_{2**length}_tokens")
        return stall

    def _compile(self, kernel: str) -> float:
        self._warn(
            f"Triton kernel JIT compilation during inference: {kernel}. "
            "This causes a latency spike; consider extending warmup to cover this shape/config."
        )
        return self._compilations.seconds
