"""Where each rule draws its line, and why there. A run names the digest of the lines it was judged by."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import Judge

JUDGE_VERSION = "1"
"""Grows when a rule changes its meaning; a change of a number shows in the digest."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every number that a rule compares with."""

    max_failed_percent: float = 1.0
    """Failed requests are missing from every latency, and it is the slow ones that fail: above 1 % a p99 can be wrong
    by as much as it is wide. Set by `validity.maxFailedPercent`."""
    prefix_hits_suspect_percent: float = 1.0
    """Prompts that share nothing hit nothing. Up to 1 % is chance: short common beginnings, a canary asked twice."""
    prefix_hits_invalid_percent: float = 10.0
    """With a tenth of the prompt tokens not computed, TTFT and throughput measure the cache as much as the model."""

    def digest(self) -> str:
        """SHA-256 of the numbers under their names."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def thresholds_of(spec: BenchmarkRunSpec) -> Thresholds:
    """The defaults, with what the spec sets."""
    return Thresholds(max_failed_percent=float(spec.validity.max_failed_percent))


def judge_of(spec: BenchmarkRunSpec) -> Judge:
    """`status.judge` of a run."""
    return Judge(version=JUDGE_VERSION, thresholds_digest=f"sha256:{thresholds_of(spec).digest()}")
