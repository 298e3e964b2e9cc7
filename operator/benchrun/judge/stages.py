"""All rules for stages, in the order their findings are shown."""

from __future__ import annotations

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import StageFinding
from benchrun.judge.prefix_cache import prefix_cache
from benchrun.judge.requests_failed import no_output, requests_failed
from benchrun.judge.rules import Rule, StageContext
from benchrun.judge.server_restarted import server_restarted

RULES: tuple[Rule, ...] = (
    requests_failed,  # nothing else is worth reading if nothing was answered
    no_output,
    server_restarted,
    prefix_cache,
)


def judge_stage(record: StageRecord, context: StageContext) -> tuple[StageFinding, ...]:
    """Everything that any rule finds; rules don't stop each other."""
    return tuple(finding for rule in RULES for finding in rule(record, context))
