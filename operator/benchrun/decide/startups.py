"""`status.servers[].startup`: asked for once a server is healthy, and kept in the status from then on.

Read then and not at the end: events are gone after an hour, and the beginning of a log when the log is rotated.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.startup import Startup
from benchrun.api.status import ServerStatus
from benchrun.decide.lookups import Answers, ServerStart, Start
from benchrun.decide.situation import Situation
from benchrun.observe.startup_log import StartupPhases
from benchrun.observe.views import Pod
from benchrun.plan.roles import main_container


def startup_of(pod: Pod, answers: Answers) -> Startup | None:
    """Where the time went. None: nobody has looked. Of a pod that was started again its first start is not known."""
    answer = answers.of(_question(pod))
    if answer is None:
        return None
    found = answer.value or Start(StartupPhases())
    return Startup(
        pod_seconds=_pod_seconds(pod),
        image_pull_seconds=found.image_pull_seconds,
        download_seconds=found.phases.download,
        load_seconds=found.phases.load,
        compile_seconds=found.phases.compile,
        warm_up_seconds=found.phases.warm_up,
    )


def startups_wanted(situation: Situation, servers: Sequence[ServerStatus]) -> tuple[ServerStart, ...]:
    """The pods that `servers` speak of and whose start nobody has looked at; each once."""
    if situation.status.server_ready_time is None:
        return ()
    unknown = {s.pod for s in servers if s.startup is None}
    return tuple(_question(pod) for pod in situation.serving if pod.name in unknown)


def _question(pod: Pod) -> ServerStart:
    return ServerStart(pod.name, pod.uid, main_container(pod.role))


def _pod_seconds(pod: Pod) -> float | None:
    if pod.restarts or pod.started_at is None or pod.scheduled_at is None:
        return None
    return max(0.0, (pod.started_at - pod.scheduled_at).total_seconds())
