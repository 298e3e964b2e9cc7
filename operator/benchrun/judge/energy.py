"""Output tokens for each joule that the servers' GPUs spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchrun.api.metric_keys import TOKENS_PER_JOULE
from benchrun.api.status import RoleFigures
from benchrun.measure.cells import rounded


def tokens_per_joule(metrics: Mapping[str, float | None], roles: Sequence[RoleFigures]) -> dict[str, float | None]:
    """Throughput over power. None where a role did not tell its power: the tokens are the work of all."""
    powers = [role.gpu_power_mean_watts for role in roles]
    known = [power for power in powers if power is not None]
    if not known:
        return {}
    throughput, watts = metrics.get("output_throughput"), sum(known)
    whole = len(known) == len(powers) and throughput is not None and watts > 0
    return {TOKENS_PER_JOULE: rounded((throughput or 0.0) / watts) if whole else None}
