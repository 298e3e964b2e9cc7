"""Processes of a client that did not begin a stage together: its load was then another at first."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Explanation, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SHARDS_OUT_OF_STEP: Explanation(
        meaning="The processes that send the load together did not begin the stage at one instant. Their requests are shifted "
        "against each other by as much, and the first seconds had less load than asked for.",
        remedy="Give each process of the client a core (client.resources), and its pods nodes that nobody else keeps busy.",
    ),
}


def shards_out_of_step(record: StageRecord, context: StageContext) -> Found:
    """How far apart they may have begun: by the gate's clock, and by how much they may have been wrong about it."""
    shards, line = record.shards, context.thresholds.skew_suspect_ms
    if shards is None:
        return []
    apart = (shards.start_skew_us + shards.clock_error_us) / 1000
    if apart <= line:
        return []
    evidence = {
        "apartMs": rounded(apart),
        "clockErrorMs": rounded(shards.clock_error_us / 1000),
        "processes": shards.count,
        "suspectMs": line,
    }
    return [StageFinding(Code.SHARDS_OUT_OF_STEP, "Suspect", record.stage_id, evidence, weight=apart)]
