"""Where a run stands that has not ended: its phase, the reason, a sentence for whoever waits, progress and live figures."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.api import Live, Phase, Progress, Reason
from benchrun.decide.situation import Situation
from benchrun.measure.timeline import live
from benchrun.observe.views import Diagnosis


@dataclass(frozen=True, slots=True)
class Step:
    """What the run is doing."""

    phase: Phase
    reason: str
    message: str
    client_ready: bool = False
    server_ready: bool = False


def current_step(situation: Situation, *, server: Diagnosis | None, client: Diagnosis | None) -> Step:
    """The step, from what can be seen. Diagnoses given here are those that waiting may still cure."""
    if not situation.client_ready:
        return _preparing(situation, client)
    if situation.status.server_ready_time is None and not situation.measuring_started:
        return _waiting_for_server(situation, server)
    heard = situation.collected.client.progress
    if heard is not None and heard.phase == "WarmingUp":
        return Step("WarmingUp", Reason.WARMING_UP, "sending warm-up requests", True, True)
    done, total = len(situation.known), situation.stages_in_words
    if situation.all_known:
        return Step("Collecting", Reason.COLLECTING, f"all {total} stages measured; storing the records", True, True)
    stage = _stage(situation) or "the next stage"
    return Step("Running", Reason.MEASURING, f"measuring {stage}; {done} of {total} stages are done", True, True)


def progress(situation: Situation) -> Progress:
    """Stages done and under way."""
    known, done = situation.total_stages, len(situation.known)
    total = situation.most_stages if known is None else known
    return Progress(
        stages_total=total,
        stages_done=done,
        stage=_stage(situation),
        summary=f"{done}/{total}" if known is not None else f"{done}/<={total}",
    )


def _stage(situation: Situation) -> str | None:
    """The stage under way. It is told with the record of the one before, which comes a moment later: both in one write."""
    heard, told = situation.collected.client.progress, situation.status.progress
    if heard is None or heard.stage is None:
        return None
    is_ahead = heard.stage in situation.planned[len(situation.known) + 1 :]
    return told.stage if is_ahead and told is not None else heard.stage


def live_figures(situation: Situation) -> Live | None:
    """The latest figures, or those of before."""
    return live(situation.collected.samples.recent, situation.now) or situation.status.live


def _preparing(situation: Situation, client: Diagnosis | None) -> Step:
    if client is not None:
        return Step("Preparing", client.reason, client.message)
    pod = situation.client_pod
    if pod is not None and pod.unschedulable:
        return Step("Preparing", Reason.PREPARING_CLIENT, f"the client waits for a node: {pod.unschedulable}")
    return Step("Preparing", Reason.PREPARING_CLIENT, "the client checks plan, tokenizer and data")


def _waiting_for_server(situation: Situation, server: Diagnosis | None) -> Step:
    if situation.spec.endpoint is not None:
        return Step("Starting", Reason.WAITING_FOR_ENDPOINT, "waiting for a healthy answer of the endpoint", True)
    if not situation.server_exists and not situation.client_heard:
        return Step(
            "Preparing", Reason.PREPARING_CLIENT, "the client is ready; waiting for an answer on its port", True
        )
    pods = situation.serving
    if not pods or any(pod.scheduled_at is None for pod in pods):
        why = server.message if server is not None else "waiting for a node to take the server"
        return Step("WaitingForNode", server.reason if server is not None else Reason.WAITING_FOR_NODE, why, True)
    if server is not None:
        return Step("Starting", server.reason, server.message, True)
    nodes = ", ".join(dict.fromkeys(pod.node or "its node" for pod in pods))
    return Step(
        "Starting", Reason.SERVER_STARTING, f"{_servers(sum(pod.rank == 0 for pod in pods))} starting on {nodes}", True
    )


def _servers(count: int) -> str:
    return "the server is" if count == 1 else f"{count} servers are"
