"""Why a server can't serve: an ordered chain of checks, the surest first."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.observe.failures.check import Check, diagnosis_of
from benchrun.observe.failures.crash import crash_loop
from benchrun.observe.failures.eviction import evicted, refused_by_node, rejected
from benchrun.observe.failures.image import container_config, image_pull
from benchrun.observe.failures.memory import kv_cache_too_small, out_of_gpu_memory, out_of_memory
from benchrun.observe.failures.model import hub_unreachable, model_gated, model_not_found
from benchrun.observe.failures.scheduling import unschedulable
from benchrun.observe.failures.usage import invalid_argument, usage_error
from benchrun.observe.views import Child, Diagnosis, Pod

CHECKS: tuple[Check, ...] = (
    evicted,  # how the pod ended explains how its container did
    refused_by_node,
    out_of_memory,  # the kernel's word, whatever the log says
    usage_error,
    kv_cache_too_small,  # a ValueError by form, so ahead of invalid_argument
    out_of_gpu_memory,
    model_gated,  # ahead of not found, whose words mention gating
    model_not_found,
    hub_unreachable,
    invalid_argument,
    image_pull,
    container_config,
    unschedulable,
    crash_loop,  # last: knows only that it ends
)


def diagnose_server(pods: Iterable[Pod], deployment: Child | None, *, log_tail: str | None = None) -> Diagnosis | None:
    """What is wrong with the server, or None. `log_tail` is the end of the failed container's log, once fetched."""
    listed = list(pods)
    found = diagnosis_of(listed, CHECKS, if_deleted=evicted, log_tail=log_tail)
    return found or (rejected(deployment) if all(pod.deleting for pod in listed) else None)
