"""Clean stages draw no suspicion, over loads of every kind, from idle to nearly full.

The queue is simulated, the seeds are fixed: these are measurements of the rules, not of luck. Stages are as long as
WindowTooShort wants them, and each is one of four repeats of a cell, which is judged as a run of its own.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from benchrun.judge.rules.all_rules import judge_cell, judge_run
from benchrun.judge.rules.rule import CellContext, Code, RunContext, StageFacts, StageFinding
from benchrun.judge.thresholds import Thresholds
from unit.judge.queues import Server, closed_loop, open_loop
from unit.measure.records import cell

REPEATS = 4
SERVERS = (
    Server(slots=1, prefill_seconds=0.02, decode_seconds=0.2),
    Server(slots=8, prefill_seconds=0.01),
    Server(slots=8, prefill_seconds=0.01, lengths_vary=True),
    Server(slots=64, prefill_seconds=0.005),
    Server(slots=64, prefill_seconds=0.005, lengths_vary=True),
)
LOADS = (0.3, 0.6, 0.8, 0.9)
"""Shares of the capacity."""
USERS = (1, 4, 16, 48)
ROUNDS = 4


_Measure = Callable[..., StageFacts]
"""A clean stage, given a seed."""


def measures() -> Iterator[tuple[str, _Measure]]:
    """Every server under every load, long enough for ten seconds and for ten times what is under way."""
    for place, server in enumerate(SERVERS):
        for share in LOADS:
            rate = share * server.capacity
            count = round(max(150, 14 * rate, 16 * min(server.slots, rate * 1.1)))
            yield f"{place}/{share:g}", partial(open_loop, server, rate=rate, count=count)
        for users in USERS:
            count = round(max(40, 12 * users, 14 * min(users, server.slots) / server.decode_seconds))
            yield f"{place}/{users}", partial(closed_loop, server, concurrency=users, count=count)


def measured_cell(value: str, measure: _Measure, *, seed: int) -> CellContext:
    planned = cell(value=value, repeats=REPEATS)
    stages = []
    for place, stage_id in enumerate(planned.stage_ids):
        stage = measure(seed=seed + place)
        stages.append(replace(stage, record=stage.record.model_copy(update={"stage_id": stage_id, "sequence": place})))
    return CellContext(planned, Thresholds(), stages[0].expected, ("50",), tuple(stages))


def found_in_round(number: int) -> Iterator[StageFinding]:
    """What is found in forty cells."""
    for place, (value, measure) in enumerate(measures()):
        context = measured_cell(value, measure, seed=100_000 * number + 100 * place)
        yield from judge_cell(context)
        yield from judge_run(RunContext(Thresholds(), {context.cell.id: context.summary()}))


def test_clean_stages_draw_no_suspicion() -> None:
    """Of stages and cells together: at most one in a hundred stages, and nothing Invalid."""
    found = [finding for number in range(ROUNDS) for finding in found_in_round(number)]
    stages = ROUNDS * REPEATS * len(list(measures()))
    suspicions = Counter((f.code, f.severity) for f in found if f.severity != "Note")
    assert stages == 640
    assert sum(suspicions.values()) <= stages / 100, suspicions
    assert not [f for f in found if f.severity == "Invalid"]


def test_notes_on_clean_stages_only_say_what_could_not_be_checked_or_is_too_short() -> None:
    assert {f.code for f in found_in_round(9) if f.severity == "Note"} <= {Code.NOT_CHECKED, Code.TOO_FEW_SAMPLES}
