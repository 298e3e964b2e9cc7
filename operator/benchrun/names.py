"""Names: of the API group and its kinds, and of everything that a run owns, labels and annotations
included."""

import hashlib
import re

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
ANNOTATION_DIGEST = f"{GROUP}/record-digest"
ANNOTATION_STAGE = f"{GROUP}/stage"
ANNOTATION_PLAN_DIGEST = f"{GROUP}/plan-digest"
ANNOTATION_TOKEN_DIGEST = f"{GROUP}/token-digest"
ANNOTATION_THROUGH = f"{GROUP}/timeline-through"
ANNOTATION_BYTES = f"{GROUP}/stored-bytes"
ANNOTATION_ENDS_SEARCH = f"{GROUP}/ends-search"
ANNOTATION_VARIANT = f"{GROUP}/variant"
ANNOTATION_HOLD = f"{GROUP}/hold-seconds"
"""How long a server may be held once scheduled, for whoever releases it without an operator."""

LABEL_COMPLETION_INDEX = (
    "batch.kubernetes.io/job-completion-index"  # Which pod of an indexed Job a pod is.
)
LABEL_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
"""Which pod of its group a pod is, where LeaderWorkerSet made it; the leader, which answers, is
0."""

ROLE_SERVER = "server"
ROLE_PREFILL = "prefill"
ROLE_DECODE = "decode"
ROLE_PROXY = "proxy"
SERVING_ROLES = (ROLE_SERVER, ROLE_PREFILL, ROLE_DECODE, ROLE_PROXY)
"""Whatever stands between the client's request and its answer."""
ANSWERING_ROLES = (
    ROLE_SERVER,
    ROLE_DECODE,
)  # Those that write answers: what they count, the client counts.
PREFILLING_ROLES = (ROLE_SERVER, ROLE_PREFILL)  # Those that compute prompts.
ROLE_CLIENT = "client"
ROLE_RUN = "run"  # of a sweep
ROLE_PLAN = "plan"
ROLE_STAGE = "stage"
ROLE_TIMELINE = "timeline"

CLIENT_CONTAINER = "client"  # Names of the main containers; that of a server is its engine's.
PROXY_CONTAINER = "proxy"

MAX_RUN_NAME = 40


def child_name(run: str, uid: str, role: str) -> str:
    """`br-<run>-<eight hexadecimal digits of the uid>-<role>`: never a name that vLLM would read a
    variable from, nor one that a deleted run's children still have. At most 63 characters, as for
    labels: parts have at most 10."""
    return f"br-{run}-{_digits(uid)[:8]}-{role}"


def plan_name(run: str, uid: str) -> str:
    """ConfigMap of the plan."""
    return child_name(run, uid, ROLE_PLAN)


def group_name(run: str, uid: str) -> str:
    """LeaderWorkerSet of servers over several nodes, at most 49 characters: StatefulSets and their
    labels add fourteen."""
    return f"br-{run}-{_digits(uid)[:5]}"


def stage_name(run: str, uid: str, sequence: int) -> str:
    """ConfigMap of one stage's record and timeline."""
    return child_name(run, uid, f"stage-{sequence:03d}")


def timeline_name(run: str, uid: str, chunk: int) -> str:
    """ConfigMap of one timeline chunk taken within a long stage."""
    return child_name(run, uid, f"chunk-{chunk:03d}")


def timeline_chunk(run: str, uid: str, name: str) -> int | None:
    """Which chunk of the run's timeline has this name; None: none has."""
    before = child_name(run, uid, "chunk-")
    number = name.removeprefix(before)
    is_one = name.startswith(before) and number.isascii() and number.isdigit() and len(number) < 10
    return int(number) if is_one and timeline_name(run, uid, int(number)) == name else None


_SWEPT = re.compile(r"(.+)-v[0-9]+-r[0-9]+(?:-a[0-9]+)?")


def sweep_of(run: str) -> str | None:
    """The one sweep that gives a run this name; None: no sweep does."""
    found = _SWEPT.fullmatch(run)
    return None if found is None else found[1]


def _digits(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()


def cell_id(workload: str, axis: str, value: str) -> str:
    """A workload at a load point: `chat/rate=4`."""
    return f"{workload}/{axis}={value}"


def confirmation_id(cell: str) -> str:
    """The same load, measured anew to confirm what a search found there:
    `chat/rate=4/confirmation`."""
    return f"{cell}/confirmation"


def stage_id(workload: str, axis: str, value: str, repeat: int) -> str:
    """One repeat of a cell: `chat/rate=4/r2`."""
    return f"{cell_id(workload, axis, value)}/r{repeat}"


def labels(*, run: str, uid: str, role: str) -> dict[str, str]:
    """Labels of a child. Nothing of the run's own labels is copied: GitOps tools would prune what
    carries theirs."""
    return {LABEL_RUN: run, LABEL_RUN_UID: uid, LABEL_ROLE: role}
