"""Whether the steps of a server are full of prompts, which makes them limited by compute.

A GPU reads the weights once a step, so a step of few tokens takes as long as reading them, whatever else it does; from some
300 tokens on (FLOP/s over bytes/s of an H100 in bf16, and much the same before and after it) the arithmetic takes longer.
A request that runs takes part in every step, so it is there for as many steps as it has output tokens; by Little's law the
steps then hold, for each running request, its prompt's and its output's tokens shared among these steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchrun.measure.pace import Stretch, mean_pace
from benchrun.measure.pressure import Lengths, Pressure

FULL_STEP_TOKENS = 1024
"""Three times what it takes for arithmetic to outlast the reading of weights."""
PROMPT_TO_OUTPUT = 10
"""From so many prompt tokens for one of output, nine tenths of each step are prompts: generation's reads of the KV cache
don't decide."""
STEADY_PERCENT = 10.0
"""By how much the prompt throughput of the two halves of a queue may differ."""
MIN_PACES = 3


@dataclass(frozen=True, slots=True)
class FullSteps:
    """Steps full of prompts, and a throughput that the queue does not change."""

    step_tokens: float
    """Of one step, on average."""
    prompt_rate: float
    """Prompt tokens a second while others waited."""
    change_percent: float
    """Of that rate, from the first half of the queue to the second."""


def full_steps(pressure: Pressure, stretches: Iterable[Stretch], lengths: Lengths | None) -> FullSteps | None:
    """None where steps are not full of prompts, or their throughput changes, or it can't be told."""
    queued = [pace for stretch in stretches for pace in stretch if pace.waiting >= 1]
    if lengths is None or pressure.queued_running is None or len(queued) < MIN_PACES:
        return None
    computed = lengths.prompt * (1 - (pressure.prefix_hit_percent or 0.0) / 100)
    step_tokens = pressure.queued_running * (computed + lengths.output) / max(1.0, lengths.output)
    if computed < PROMPT_TO_OUTPUT * lengths.output or step_tokens < FULL_STEP_TOKENS:
        return None
    middle = len(queued) // 2
    first, last = mean_pace(queued[:middle]).prompt_rate, mean_pace(queued[middle:]).prompt_rate
    if first <= 0 or abs(last / first - 1) * 100 > STEADY_PERCENT:
        return None
    return FullSteps(step_tokens, mean_pace(queued).prompt_rate, 100 * (last / first - 1))
