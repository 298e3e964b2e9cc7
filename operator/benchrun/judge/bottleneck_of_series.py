"""What limits a series of configurations under one load."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.status import Bottleneck
from benchrun.judge.bottleneck_sentences import growth, pair_evidence
from benchrun.judge.wording import number, percent
from benchrun.measure.scaling import Comparison, OperatingPoint, comparisons

KV_NEARLY_FULL_PERCENT = 95.0


def bottleneck_of_series(points: Sequence[OperatingPoint]) -> Bottleneck:
    """Of several configurations under the same load, in requests or tokens a second: does having more at once pay?"""
    found = comparisons(points)
    if not found:
        text = ", ".join(f"{p.name} {number(p.running)}" for p in points[:8])
        return Bottleneck(
            limit="Unknown",
            sentence=f"What ran differs too little to tell what more would bring ({len(points)} configurations: {text}).",
            evidence={"configurations": len(points)},
        )
    widest = found[0]
    if widest.is_flat:
        return _series_is_flat(points, widest)
    if widest.grows and (widest.high.kv_percent or 0.0) >= KV_NEARLY_FULL_PERCENT:
        sentence = (
            f"{growth(widest)}, where KV cache usage is {percent(widest.high.kv_percent)}: KV memory is the limit."
        )
        return Bottleneck(limit="KVMemory", sentence=sentence, evidence=dict(pair_evidence(widest)))
    sentence = f"{growth(widest)}: no limit is reached among these {len(points)} configurations."
    return Bottleneck(limit="None", sentence=sentence, evidence=dict(pair_evidence(widest)))


def _series_is_flat(points: Sequence[OperatingPoint], widest: Comparison) -> Bottleneck:
    rates = [point.throughput for point in points]
    usage = [point.kv_percent for point in points if point.kv_percent is not None]
    kv = f" and KV cache usage from {percent(min(usage))} to {percent(max(usage))}" if usage else ""
    sentence = (
        f"Throughput stays between {number(min(rates))} and {number(max(rates))} a second over {len(points)} configurations "
        f"while running goes from {number(widest.low.running)} to {number(widest.high.running)}{kv}: compute is the limit."
    )
    return Bottleneck(limit="Compute", sentence=sentence, evidence=dict(pair_evidence(widest)))
