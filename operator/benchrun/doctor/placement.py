"""Checks of the nodes: do they have the resources, labels, taints and platform for the pods?"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from benchrun.doctor.asking import (
    ApiAnswers,
    ApiQuery,
    Check,
    CheckLine,
    labels_of,
    listed,
    name_of,
    named,
    not_checked,
    ok,
    problem,
    unread,
    warning,
)
from benchrun.doctor.selecting import holds
from benchrun.doctor.target import PlannedPod, RunTarget
from benchrun.observe import quantity, untrusted_json as raw

NODES = listed("/api/v1/nodes")
PODS = ApiQuery(
    f"{listed('/api/v1/pods').path}"
    "&fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed"
)
GROUPS = ApiQuery("/apis")
AUTOSCALER = ApiQuery(
    "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
)
_KARPENTER = "karpenter.sh"
_UNSCHEDULED = ("NoSchedule", "NoExecute")
Amounts = Mapping[str, Decimal]


def placement_check(target: RunTarget) -> Check:
    """Check that some node suits each pod, and whether there is room on it now."""
    return Check(
        (NODES, PODS, GROUPS, AUTOSCALER),
        lambda answers: list(_placement(answers, target)),
    )


def _placement(answers: ApiAnswers, target: RunTarget) -> Iterator[CheckLine]:
    nodes = answers.of(NODES)
    if nodes.trouble or not nodes.is_whole:
        yield unread("nodes", "nodes", nodes, "list nodes")
        return
    used = (
        used_by_node(answers.of(PODS).items) if answers.of(PODS).is_whole else None
    )
    grows = may_grow(answers)
    for pod in _counted_together(target.pods):
        yield placed(pod, nodes.items, used, grows=grows)
    if used is None:
        yield unread("free", "free room on nodes", answers.of(PODS), "list pods")
    yield platforms(target, nodes.items)


def _counted_together(pods: Iterable[PlannedPod]) -> Iterator[PlannedPod]:
    """Yield the pods; pods of one role that ask for the same become one, with their counts added.

    Leader and workers of a group are such pods. Checked one by one, each would find the same free
    room.
    """
    kinds: dict[str, PlannedPod] = {}
    for pod in pods:
        asked = {key: pod.spec.get(key) for key in ("nodeSelector", "affinity")}
        key = json.dumps([pod.role, asked, requests_of(pod.spec)], default=str)
        first = kinds.get(key)
        count = pod.count if first is None else first.count + pod.count
        kinds[key] = replace(first or pod, count=count)
    yield from kinds.values()


def may_grow(answers: ApiAnswers) -> bool:
    """Return whether the cluster has an autoscaler, which may add a missing node."""
    groups = raw.mappings(answers.of(GROUPS).found.get("groups"))
    has_karpenter = any(each.get("name") == _KARPENTER for each in groups)
    return has_karpenter or answers.of(AUTOSCALER).body is not None


def requests_of(spec: raw.Object) -> dict[str, Decimal]:
    """Return the resources that the scheduler counts for a pod.

    It counts the sum over the containers, or the largest init container if that is more. A limit
    without a request counts as the request.
    """
    found: dict[str, Decimal] = {}
    for each in raw.mappings(spec.get("containers")):
        for key, amount in _asked(each).items():
            found[key] = found.get(key, Decimal(0)) + amount
    for each in raw.mappings(spec.get("initContainers")):
        for key, amount in _asked(each).items():
            found[key] = max(found.get(key, Decimal(0)), amount)
    found["pods"] = Decimal(1)
    return found


def _asked(container: raw.Object) -> dict[str, Decimal]:
    resources = raw.mapping(container.get("resources"))
    limits, requests = (
        raw.mapping(resources.get(key)) for key in ("limits", "requests")
    )
    return amounts({**limits, **requests})


def amounts(given: raw.Object) -> dict[str, Decimal]:
    """Return the quantities as numbers, without those that can't be parsed."""
    read = ((key, quantity(str(value))) for key, value in given.items())
    return {key: value for key, value in read if value is not None}


def used_by_node(pods: Iterable[raw.Object]) -> dict[str, dict[str, Decimal]]:
    """Return the sum of the pods' resources on each node."""
    used: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for pod in pods:
        spec = raw.mapping(pod.get("spec"))
        on_node = used[raw.text(spec.get("nodeName"))]
        for key, amount in requests_of(spec).items():
            on_node[key] = on_node.get(key, Decimal(0)) + amount
    return used


@dataclass(frozen=True, slots=True)
class _Sieve:
    """The nodes that remain after each condition: every list is a part of the one before."""

    ready: list[raw.Object]
    chosen: list[raw.Object]  # By selector and affinity.
    tolerated: list[raw.Object]
    large: list[raw.Object]


def placed(
    pod: PlannedPod,
    nodes: Sequence[raw.Object],
    used: Mapping[str, Amounts] | None,
    *,
    grows: bool,
) -> CheckLine:
    """Check a pod of the run, with its count, against all nodes."""
    wanted = requests_of(pod.spec)
    sieve = _sieve(pod.spec, nodes, wanted)
    if not sieve.large:
        why, remedy = _why_none(pod, sieve, nodes, wanted)
        if grows:
            return warning(
                "nodes",
                subject=pod.subject,
                sentence=f"{why}; an autoscaler may add one",
                remedy=remedy,
            )
        return problem("nodes", subject=pod.subject, sentence=why, remedy=remedy)
    fits = f"fits {_counted(len(sieve.large))}"
    if used is None:
        return ok(
            "nodes",
            subject=pod.subject,
            sentence=f"{fits}, if nothing else runs there",
        )
    room = sum(_times(node, wanted, used) for node in sieve.large)
    if room < pod.count:
        return warning(
            "nodes",
            subject=pod.subject,
            sentence=f"{fits}, but now there is room for {room} of {pod.count}",
            remedy="The run waits until others end; spec.pendingDeadlineSeconds bounds that.",
        )
    return ok(
        "nodes",
        subject=pod.subject,
        sentence=f"{fits}, with room now for {pod.count} of {pod.count}",
    )


def _counted(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _sieve(
    spec: raw.Object, nodes: Sequence[raw.Object], wanted: Amounts
) -> _Sieve:
    ready = [node for node in nodes if _is_open(node)]
    chosen = [node for node in ready if _is_chosen(spec, node)]
    tolerated = [node for node in chosen if not untolerated(spec, node)]
    large = [node for node in tolerated if not _short(node, wanted)]
    return _Sieve(ready, chosen, tolerated, large)


def _why_none(
    pod: PlannedPod, sieve: _Sieve, nodes: Sequence[raw.Object], wanted: Amounts
) -> tuple[str, str]:
    where = f"{pod.place.pod}.nodeSelector or affinity"
    if not sieve.ready:
        return "no node is ready and open for pods", "See kubectl get nodes."
    devices = [key for key in wanted if "/" in key]
    lacking = [
        key for key in devices if not any(allocatable(n).get(key) for n in nodes)
    ]
    if lacking:
        return (
            f"no node has {', '.join(lacking)}",
            f"Name the resource as your nodes do in {pod.place.resources}, or install the "
            "device's plugin.",
        )
    if not sieve.chosen:
        return "no node has the labels that the pod asks for", f"Change {where}."
    if not sieve.tolerated:
        taints = sorted(
            {
                taint
                for node in sieve.chosen
                for taint in untolerated(pod.spec, node)
            }
        )
        return (
            f"the pod does not tolerate {named(taints)}",
            f"Add them to {pod.place.pod}.tolerations.",
        )
    short = sorted(
        {key for node in sieve.tolerated for key in _short(node, wanted)}
    )
    most = [
        f"{key} (asks for {_plain(wanted[key])}, most {_most(sieve.tolerated, key)})"
        for key in short
    ]
    return (
        f"no node is large enough: {', '.join(most)}",
        f"Lower {pod.place.resources}.",
    )


def _plain(amount: Decimal) -> str:
    return f"{amount.normalize():f}"


def _most(nodes: Sequence[raw.Object], key: str) -> str:
    return _plain(max(allocatable(node).get(key, Decimal(0)) for node in nodes))


def allocatable(node: raw.Object) -> dict[str, Decimal]:
    return amounts(raw.mapping(raw.mapping(node.get("status")).get("allocatable")))


def _short(node: raw.Object, wanted: Amounts) -> list[str]:
    has = allocatable(node)
    return [key for key, amount in wanted.items() if amount > has.get(key, 0)]


def _times(node: raw.Object, wanted: Amounts, used: Mapping[str, Amounts]) -> int:
    """Return how many such pods have room on a node, beside the pods that run there."""
    has = allocatable(node)
    there = used.get(name_of(node), {})
    counts = [
        int((has.get(key, Decimal(0)) - there.get(key, Decimal(0))) // amount)
        for key, amount in wanted.items()
        if amount
    ]
    return max(min(counts), 0)


def _is_open(node: raw.Object) -> bool:
    ready = raw.condition(raw.mapping(node.get("status")), "Ready")
    is_closed = raw.mapping(node.get("spec")).get("unschedulable") is True
    return ready.get("status") == "True" and not is_closed


def _is_chosen(spec: raw.Object, node: raw.Object) -> bool:
    labels = labels_of(node)
    selector = raw.mapping(spec.get("nodeSelector"))
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = raw.mapping(raw.mapping(spec.get("affinity")).get("nodeAffinity"))
    required = raw.mapping(
        affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    terms = list(raw.mappings(required.get("nodeSelectorTerms")))
    fields = {"metadata.name": name_of(node)}
    return not terms or any(_meets(term, labels, fields) for term in terms)


def _meets(term: raw.Object, labels: raw.Object, fields: raw.Object) -> bool:
    """Return whether a node meets a term of an affinity. No node meets an empty term."""
    of_labels = list(raw.mappings(term.get("matchExpressions")))
    of_fields = list(raw.mappings(term.get("matchFields")))
    return (
        bool(of_labels or of_fields)
        and all(holds(each, labels) for each in of_labels)
        and all(holds(each, fields) for each in of_fields)
    )


def untolerated(spec: raw.Object, node: raw.Object) -> list[str]:
    """Return the node's taints that keep the pod away, as `key=value:effect`."""
    tolerations = list(raw.mappings(spec.get("tolerations")))
    taints = raw.mappings(raw.mapping(node.get("spec")).get("taints"))
    return [
        f"{raw.text(t.get('key'))}={raw.text(t.get('value'))}:{raw.text(t.get('effect'))}"
        for t in taints
        if t.get("effect") in _UNSCHEDULED
        and not any(_tolerates(each, t) for each in tolerations)
    ]


def _tolerates(toleration: raw.Object, taint: raw.Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    same_key = toleration.get("key") == taint.get("key")
    return same_key and (toleration.get("value") or "") == (
        taint.get("value") or ""
    )


def platforms(target: RunTarget, nodes: Sequence[raw.Object]) -> CheckLine:
    """Build the NotChecked line on platforms: those of the nodes are known, those of images not."""
    found = sorted(
        {
            f"{raw.text(info.get('operatingSystem'))}/{raw.text(info.get('architecture'))}"
            for node in nodes
            for info in [
                raw.mapping(raw.mapping(node.get("status")).get("nodeInfo"))
            ]
        }
    )
    images = sorted(
        {each["image"] for pod in target.pods for each in pod.containers}
    )
    names = ", ".join(filter(None, images)) or "the client's image"
    return not_checked(
        "platform",
        subject="platform of the images",
        sentence=f"nodes are {', '.join(found)}; doctor does not ask registries whether {names} "
        f"{'is' if len(images) == 1 else 'are'} built for that",
        remedy="--pods pulls the client's image, --pods=all the server's too.",
    )
