"""Names of the API group and its kinds, and of everything that a run owns.

Labels and annotations are included.
"""

import hashlib
import re
from functools import lru_cache

GROUP = "benchrun.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "BenchmarkRun"
PLURAL = "benchmarkruns"
SHORT_NAME = "bmr"
CATEGORY = "benchrun"

FIELD_MANAGER = f"{GROUP}/operator"
LABEL_RUN = f"{GROUP}/run"
LABEL_RUN_UID = f"{GROUP}/run-uid"
LABEL_ROLE = f"{GROUP}/role"
LABEL_SEQUENCE = f"{GROUP}/sequence"
LABEL_SWEEP = f"{GROUP}/sweep"
ANNOTATION_ENVELOPE = f"{GROUP}/envelope"  # Of the record in a ConfigMap, as JSON.
ANNOTATION_RESULT_DIGEST = (
    f"{GROUP}/digest"  # SHA-256 of the document in a ConfigMap.
)
ANNOTATION_PLAN_DIGEST = f"{GROUP}/plan-digest"
ANNOTATION_TOKEN_DIGEST = f"{GROUP}/token-digest"
ANNOTATION_DEFAULTS = f"{GROUP}/defaults"
"""The platform's defaults that hold for a run's children, as JSON."""
ANNOTATION_COPIED_LABELS = f"{GROUP}/copied-labels"  # Those of the run, as JSON.
ANNOTATION_DEFAULTS_MAC = (
    f"{GROUP}/defaults-mac"  # By which the operator knows them as its own.
)
ANNOTATION_THROUGH = f"{GROUP}/timeline-through"
ANNOTATION_BYTES = f"{GROUP}/stored-bytes"
ANNOTATION_VARIANT = f"{GROUP}/variant"
ANNOTATION_HOLD = f"{GROUP}/hold-seconds"
"""Seconds that a server may be held after it was scheduled. Read by the CronJob `release`, which
deletes servers when no operator runs."""

LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
"""Kueue's own: on a run it names the LocalQueue, in the run's namespace, in which the run waits."""
LABEL_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Index of a pod in its indexed Job."""
LABEL_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
"""Index of a pod in its group, if LeaderWorkerSet made it; the leader, which answers, is 0."""

ROLE_SERVER = "server"
ROLE_PREFILL = "prefill"
ROLE_DECODE = "decode"
ROLE_PROXY = "proxy"
ROLE_GATEWAY = "gateway"
"""All that stands between the client and an endpoint's servers; it has no pod of the run."""
SERVING_ROLES = (ROLE_SERVER, ROLE_PREFILL, ROLE_DECODE, ROLE_PROXY)
"""Roles of the pods that a request passes on the way to its answer."""
# Roles that write answers: they count what the client counts.
ANSWERING_ROLES = (
    ROLE_SERVER,
    ROLE_DECODE,
)
PREFILLING_ROLES = (ROLE_SERVER, ROLE_PREFILL)  # Roles that compute prompts.
ROLE_CLIENT = "client"
ROLE_RUN = "run"  # a run of a sweep
ROLE_PLAN = "plan"
ROLE_STAGE = "stage"
ROLE_TIMELINE = "timeline"
ROLE_RESULT = "result"
ROLE_QUEUE = "queue"

# Names of the main containers.
CLIENT_CONTAINER = "client"
SERVER_CONTAINER = "server"
PROXY_CONTAINER = "proxy"

COMPILED_DIRECTORY = "/compile-cache"
"""Where the claim is mounted that keeps what an engine compiles."""

MAX_RUN_NAME = 40


def is_ours(label: str) -> bool:
    """Return whether a label or annotation is one of benchrun's own."""
    domain, slash, _ = label.rpartition("/")
    return bool(slash) and (domain == GROUP or domain.endswith(f".{GROUP}"))


def child_name(run: str, uid: str, role: str) -> str:
    """Return `br-<run>-<eight hexadecimal digits>-<role>`, the digits from the uid's SHA-256.

    Kubernetes derives environment variables from Service names; with this prefix vLLM takes none
    for a setting of its own. With the uid, children of a deleted run of the same name have other
    names. The name has at most 63 characters, as for labels: a role, or text in its place, has at
    most 10.
    """
    return f"br-{run}-{_digits(uid)[:8]}-{role}"


def plan_name(run: str, uid: str) -> str:
    """Return the name of the plan's ConfigMap."""
    return child_name(run, uid, ROLE_PLAN)


def group_name(run: str, uid: str) -> str:
    """Return the name of the LeaderWorkerSet of servers over several nodes.

    It has at most 49 characters: StatefulSets and their labels add fourteen.
    """
    return f"br-{run}-{_digits(uid)[:5]}"


def queued_name(run: str, uid: str, attempt: int) -> str:
    """Return the name of the Workload with which a run waits for its quota.

    After an eviction the run waits with another Workload, whose name differs, so that what Kueue
    said of the first is not taken for the second.
    """
    return child_name(run, uid, f"queue-{attempt}")


def stage_name(run: str, uid: str, sequence: int) -> str:
    """Return the name of the ConfigMap of one stage's record and timeline."""
    return child_name(run, uid, f"stage-{sequence:03d}")


def timeline_name(run: str, uid: str, chunk: int) -> str:
    """Return the name of the ConfigMap of one timeline chunk taken within a long stage."""
    return child_name(run, uid, f"chunk-{chunk:03d}")


def result_name(run: str, uid: str, digest: str) -> str:
    """Return the name of the ConfigMap of the result document with this SHA-256.

    Another document has another name, so that what a status refers to is never exchanged.
    """
    return child_name(run, uid, f"doc-{digest[:6]}")


def timeline_chunk(run: str, uid: str, name: str) -> int | None:
    """Return the number of the run's timeline chunk with this name; None if there is none."""
    before = child_name(run, uid, "chunk-")
    number = name.removeprefix(before)
    is_one = (
        name.startswith(before)
        and number.isascii()
        and number.isdigit()
        and len(number) < 10
    )
    return (
        int(number)
        if is_one and timeline_name(run, uid, int(number)) == name
        else None
    )


_SWEPT = re.compile(r"(.+)-v[0-9]+-r[0-9]+(?:-a[0-9]+)?")


def sweep_of(run: str) -> str | None:
    """Return the name of the sweep that gives a run this name; None if no sweep gives it."""
    found = _SWEPT.fullmatch(run)
    return None if found is None else found[1]


@lru_cache(maxsize=2048)  # a pass asks for a run's a hundred times
def _digits(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()


def load_point_id(workload: str, load: str) -> str:
    """Return the id of a workload at a load such as `rate=4`: `chat/rate=4`."""
    return f"{workload}/{load}"


def confirmation_id(load_point: str) -> str:
    """Return the id of a load point that is measured again to confirm the result of a search.

    An example is `chat/rate=4/confirmation`.
    """
    return f"{load_point}/confirmation"


def stage_id(workload: str, load: str, repeat: int) -> str:
    """Return the id of one repeat of a load point: `chat/rate=4/r2`."""
    return f"{load_point_id(workload, load)}/r{repeat}"


def labels(*, run: str, uid: str, role: str) -> dict[str, str]:
    """Return the labels of a child.

    The run's own labels are not copied unless the platform names them (`RunDefaults.copy_labels`):
    GitOps tools would prune children that carry their labels.
    """
    return {LABEL_RUN: run, LABEL_RUN_UID: uid, LABEL_ROLE: role}
