"""`status.servers[].startup`: asked for once a server is healthy, and kept in the status from then on.

Read then and not at the end: events are gone after an hour, and the beginning of a log when the log is rotated.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.startup import Startup
from benchrun.api.status import ServerStatus
from benchrun.decide.decision import StartupTold, StartupWanted
from benchrun.decide.situation import Situation
from benchrun.observe.views import Pod
from benchrun.plan.roles import main_container


def startup_of(pod: Pod, told: StartupTold | None) -> Startup | None:
    """Where the time went. None: nobody has looked. Of a pod that was started again its first start is not known."""
    if told is None:
        return None
    phases = told.phases
    return Startup(
        pod_seconds=_pod_seconds(pod),
        image_pull_seconds=told.image_pull_seconds,
        download_seconds=phases.download,
        load_seconds=phases.load,
        compile_seconds=phases.compile,
        warm_up_seconds=phases.warm_up,
    )


def startups_wanted(situation: Situation, servers: Sequence[ServerStatus]) -> tuple[StartupWanted, ...]:
    """The pods that `servers` speak of and whose start nobody has looked at; each once."""
    if situation.status.server_ready_time is None:
        return ()
    unknown = {s.pod for s in servers if s.startup is None}
    pods = (pod for pod in situation.serving if pod.name in unknown)
    return tuple(StartupWanted(pod.name, pod.uid, main_container(pod.role)) for pod in pods)


def _pod_seconds(pod: Pod) -> float | None:
    if pod.restarts or pod.started_at is None or pod.scheduled_at is None:
        return None
    return max(0.0, (pod.started_at - pod.scheduled_at).total_seconds())
