"""`status.live` and `status.progress`: what a person watching sees, written no more often than they can read."""

from __future__ import annotations

from benchrun.api.status import Live, Progress
from benchrun.decide.situation import Situation
from benchrun.measure.timeline import live


def progress(situation: Situation) -> Progress:
    """Stages done and under way."""
    known, done = situation.total_stages, len(situation.known)
    total = situation.most_stages if known is None else known
    heard = situation.collected.client.progress
    return Progress(
        stages_total=total,
        stages_done=done,
        stage=heard.stage if heard is not None else None,
        summary=f"{done}/{total}" if known is not None else f"{done}/<={total}",
    )


def live_figures(situation: Situation) -> Live | None:
    """The latest figures, or those of before."""
    return live(situation.collected.samples.recent, situation.now) or situation.status.live
