"""Worlds of every kind, sensible or not, for properties that must hold in all of them.

A case is a milestone of a run and a few things that happened after it, all by name: a failing
example reads as a story.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from benchrun.api import Judgement
from benchrun.decide import Answer, Evaluation, Judging, Query, RefusedObject
from hypothesis import strategies as st
from unit.decide import scenes

OF_A_LATER_VERSION = "LaterCondition"
Change = Callable[[scenes.Scene], scenes.Scene]


def _lingering(scene: scenes.Scene) -> scenes.Scene:
    """Add the previous pod, which has not left yet."""
    old = replace(
        scene.pod("server", ready=True).pods[-1],
        name="server-0",
        created_at=scenes.instant(2),
        deleting=True,
    )
    return replace(scene, pods=(old, *scene.pods))


def _newer(scene: scenes.Scene) -> scenes.Scene:
    """Add what an operator of a later version may have written before it was rolled back."""
    status = {**scene.status, "phase": "Rebalancing", "newField": {"x": [1]}}
    conditions = [
        {**c, "reason": "OfALaterVersion"}
        for c in scene.status.get("conditions", [])
    ]
    later = {
        "type": OF_A_LATER_VERSION,
        "status": "True",
        "reason": "R",
        "message": "",
        "observedGeneration": 1,
    }
    return replace(scene, status={**status, "conditions": [*conditions, later]})


def _foreign(scene: scenes.Scene) -> scenes.Scene:
    return replace(
        scene,
        objects=tuple(replace(c, owner_uid="another-run") for c in scene.objects),
    )


def _judged(value: Judgement | None) -> Change:
    """Return a change that answers the queries of a run's end, whether they were asked or not."""
    found = None if value is None else Evaluation(value)
    answers: dict[Query[Any], Answer[Any]] = {
        Judging(early): Answer(found, "it is dead") for early in (True, False)
    }
    return lambda scene: scene.with_answers(answers)


JUDGED = Judgement(
    verdict="Valid",
    valid_reason="AllValid",
    message="measured",
    measured_anything=True,
)


def _leaving(kind: str, role: str) -> Change:
    return lambda scene: scene.without(kind, role).having(
        (kind, role), deleting=True
    )


MILESTONES: Mapping[str, scenes.Scene] = {
    "fresh": scenes.Scene(),
    "fresh, suspended": scenes.Scene().with_spec(suspend=True).settled(),
    "client created": scenes.Scene().client_created().settled(),
    "client ready": scenes.Scene().client_ready(),
    "server pending": scenes.Scene().server_pending(),
    "server loading": scenes.Scene().server_loading(),
    "server healthy": scenes.Scene().server_healthy(),
    "measuring": scenes.Scene().measuring(),
    "measuring with objectives": scenes.Scene()
    .with_spec(
        objectives=[{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 25}]
    )
    .measuring(),
    "measuring with a baseline": scenes.Scene()
    .with_spec(baseline={"name": "before"})
    .measuring(),
    "one stored": scenes.Scene().measuring().arrived(0).settled().stored(0),
    "url: fresh": scenes.Scene(spec=scenes.URL_ENDPOINT),
    "url: client ready": scenes.Scene(spec=scenes.URL_ENDPOINT).client_ready(),
    "url: measuring": scenes.Scene(spec=scenes.URL_ENDPOINT).measuring(),
    "offline: client ready": scenes.Scene(spec=scenes.OFFLINE).client_ready(),
    "offline: engine loading": scenes.Scene(spec=scenes.OFFLINE).server_loading(),
    "offline: measuring": scenes.Scene(spec=scenes.OFFLINE).measuring(),
    "service: fresh": scenes.Scene(spec=scenes.SERVICE_ENDPOINT),
    "service: measuring": scenes.Scene(spec=scenes.SERVICE_ENDPOINT).measuring(),
    "completed": scenes.Scene()
    .measuring()
    .arrived(0, 1)
    .answered()
    .settled()
    .stored(0, 1),
    "failed": scenes.Scene().measuring().without(*scenes.DEPLOYMENT).settled(),
    "ending": scenes.Scene()
    .measuring()
    .arrived(0)
    .without(*scenes.DEPLOYMENT)
    .settled(),
    "all measured": scenes.Scene().measuring().arrived(0, 1).settled().stored(0, 1),
    "cancelled": scenes.Scene().measuring().with_spec(cancel=True).settled(),
    "refused": scenes.Scene().with_spec(**scenes.REFUSED).settled(),
}

CHANGES: Mapping[str, Change] = {
    "suspend": lambda s: s.with_spec(suspend=True),
    "resume": lambda s: s.with_spec(suspend=False),
    "cancel": lambda s: s.with_spec(cancel=True),
    "no deadlines": lambda s: s.with_spec(
        startupDeadlineSeconds=0, runDeadlineSeconds=0
    ),
    "short deadlines": lambda s: s.with_spec(
        pendingDeadlineSeconds=50, startupDeadlineSeconds=50, runDeadlineSeconds=50
    ),
    "ttl": lambda s: s.with_spec(ttlSecondsAfterFinished=100),
    "bad spec": lambda s: s.with_spec(**scenes.REFUSED),
    "spec of a newer operator": lambda s: s.with_spec(**scenes.NEWER),
    "operator restarts": scenes.Scene.operator_restarted,
    "status was never written": lambda s: replace(s, status={}),
    "client is silent": lambda s: s.client(silent=True),
    "client speaks another contract": lambda s: s.client(
        mismatch="the client speaks version 1"
    ),
    "client has lost a record": lambda s: s.client(lost_record=0),
    "client's clock is a year ahead": lambda s: s.reports(
        healthy_unix_us=scenes.unix_us(3e7),
        first_request_unix_us=scenes.unix_us(4e7),
    ),
    "client's clock says nonsense": lambda s: s.reports(
        healthy_unix_us=10**15, first_request_unix_us=0
    ),
    "name is taken": lambda s: s.knowing(conflict="Job br-qwen-6316e01c-client"),
    "a quota is full": lambda s: s.knowing(
        refused_object=RefusedObject(
            "Deployment",
            "br-qwen-6316e01c-server",
            "server",
            "exceeded quota: x",
            curable=True,
        )
    ),
    "spec makes no valid pod": lambda s: s.knowing(
        refused_object=RefusedObject(
            "Job", "br-qwen-6316e01c-client", "client", "is invalid", curable=False
        )
    ),
    "records are refused": lambda s: s.knowing(
        refused_object=RefusedObject(
            "ConfigMap",
            "br-qwen-6316e01c-stage-000",
            "stage",
            "exceeded quota: x",
            curable=True,
        )
    ),
    "API server has no time": lambda s: s.knowing(
        refused_object=RefusedObject(
            "Job",
            "br-qwen-6316e01c-client",
            "client",
            "timeout",
            curable=True,
            is_transient=True,
        )
    ),
    "log was read": lambda s: s.log_read(scenes.SERVER_DIED.message),
    "log can't be read": scenes.Scene.log_read,
    "endpoint has no pods": scenes.Scene.endpoint_found,
    "endpoint has a pod": lambda s: s.endpoint_found("10.0.0.7:8000"),
    "all is judged": _judged(JUDGED),
    "judge died": _judged(None),
    "end is answered": scenes.Scene.answered,
    "status holds values of a newer operator": _newer,
    "all is foreign": _foreign,
    "plan is gone": lambda s: s.without(*scenes.PLAN),
    "job is gone": lambda s: s.without(*scenes.JOB),
    "job is leaving": _leaving(*scenes.JOB),
    "service is gone": lambda s: s.without(*scenes.SERVICE),
    "deployment is gone": lambda s: s.without(*scenes.DEPLOYMENT),
    "deployment is leaving": _leaving(*scenes.DEPLOYMENT),
    "deployment comes back": lambda s: s.having(scenes.DEPLOYMENT),
    "client pod is pending": lambda s: s.pod(
        "client", phase="Pending", ip=None, ready=False
    ),
    "client pod is ready": lambda s: s.pod("client", ready=True),
    "client pod is leaving": lambda s: s.pod("client", deleting=True),
    "client pod succeeded": lambda s: s.pod(
        "client", phase="Succeeded", ready=False
    ),
    "client pod failed": lambda s: s.pod(
        "client", phase="Failed", ready=False, terminated=scenes.SERVER_DIED
    ),
    "client is another run's": lambda s: s.pod("client", run_uid="another-run"),
    "server pod can't be placed": lambda s: s.pod(
        "server", unschedulable="0/3 nodes are available: 3 Insufficient gpu."
    ),
    "server pod can't pull": lambda s: s.pod(
        "server", waiting_reason="ImagePullBackOff", waiting_message="not found"
    ),
    "server died": lambda s: s.pod(
        "server", terminated=scenes.SERVER_DIED, phase="Failed", ready=False
    ),
    "server restarted": lambda s: s.pod(
        "server", restarts=1, last_terminated=scenes.SERVER_DIED
    ),
    "server pod is replaced": lambda s: s.pod(
        "server", name="server-2", ready=False
    ),
    "server pod is leaving": lambda s: s.pod("server", deleting=True),
    "an old server pod lingers": _lingering,
    "client waits": lambda s: s.reports(phase="Waiting"),
    "client is done": lambda s: s.reports(phase="Done", stage=None, records=2),
    "client fails": lambda s: s.fails("DatasetInvalid", "not JSON"),
    "first record arrives": lambda s: s.arrived(0),
    "second record arrives": lambda s: s.arrived(1),
    "first record was stored": lambda s: s.stored(0),
    "second record was stored": lambda s: s.stored(1),
    "page was read": lambda s: s.sampled(72),
    "page was read again": lambda s: s.sampled(99),
    "a pass is made": scenes.Scene.settled,
}


@dataclass(frozen=True)
class Story:
    """The way a case came about."""

    start: str
    changes: tuple[str, ...]
    seconds_later: int

    @cached_property
    def scene(self) -> scenes.Scene:
        """Return the scene at the end of the story."""
        scene = MILESTONES[self.start]
        for change in self.changes:
            scene = CHANGES[change](scene)
        return scene.at(scene.seconds + self.seconds_later)


def stories(
    *, starts: tuple[str, ...] = tuple(MILESTONES)
) -> st.SearchStrategy[Story]:
    return st.builds(
        Story,
        start=st.sampled_from(starts),
        changes=st.lists(
            st.sampled_from(tuple(CHANGES)), max_size=5, unique=True
        ).map(tuple),
        seconds_later=st.sampled_from((0, 1, 30, 100, 20_000)),
    )
