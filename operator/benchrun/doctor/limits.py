"""Checks of the namespace's quotas and NetworkPolicies, which hold for all pods of a run."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from benchrun.doctor.asking import (
    ApiAnswers,
    Check,
    CheckLine,
    listed,
    name_of,
    named,
    ok,
    problem,
    unread,
    warning,
)
from benchrun.doctor.operators import FoundOperator
from benchrun.doctor.placement import amounts
from benchrun.doctor.selecting import matches
from benchrun.doctor.target import Manifest, RunTarget
from benchrun.observe import untrusted_json as raw


def quota_check(target: RunTarget) -> Check:
    """Check that quotas have room for all pods of the run at once.

    Dry runs check each pod alone.
    """
    query = listed(f"/api/v1/namespaces/{target.namespace}/resourcequotas")

    def read(answers: ApiAnswers) -> list[CheckLine]:
        answer = answers.of(query)
        if answer.trouble or not answer.is_whole:
            right = "list resourcequotas"
            return [
                unread("quota", "quotas", answer, right, namespace=target.namespace)
            ]
        found = [line for quota in answer.items for line in _quota(quota, target)]
        return found or [
            ok("quota", subject="quotas", sentence="have room for all pods at once")
        ]

    return Check((query,), read)


def _quota(quota: raw.Object, target: RunTarget) -> Iterator[CheckLine]:
    spec, status = (raw.mapping(quota.get(key)) for key in ("spec", "status"))
    if spec.get("scopes") or spec.get("scopeSelector"):
        return  # It counts only some pods; the dry runs check each of them.
    hard = amounts(raw.mapping(spec.get("hard")))
    used = amounts(raw.mapping(status.get("used")))
    wanted = together(target)
    never = [key for key in hard if wanted.get(key, Decimal(0)) > hard[key]]
    full = [
        key
        for key in hard
        if key not in never
        and wanted.get(key, Decimal(0)) > hard[key] - used.get(key, Decimal(0))
    ]
    subject = f"ResourceQuota {name_of(quota)}"
    if never:
        yield problem(
            "quota",
            subject=subject,
            sentence=f"is too small for all pods of the run: {_lacks(never, wanted, hard)}",
            remedy="Lower the resources or the replicas in the spec, or have the quota raised.",
        )
    if full:
        yield warning(
            "quota",
            subject=subject,
            sentence=f"has no room for all pods now: {_lacks(full, wanted, hard)}",
            remedy="The run waits until it has room.",
        )


def _lacks(
    keys: Sequence[str], wanted: dict[str, Decimal], hard: dict[str, Decimal]
) -> str:
    return ", ".join(
        f"{key} needs {wanted[key].normalize():f}, the limit is {hard[key].normalize():f}"
        for key in keys
    )


def together(target: RunTarget) -> dict[str, Decimal]:
    """Return the resources of all pods of the run together, by their names in a quota."""
    total: dict[str, Decimal] = {}

    def add(key: str, amount: Decimal, count: int) -> None:
        total[key] = total.get(key, Decimal(0)) + amount * count

    for pod in target.pods:
        add("pods", Decimal(1), pod.count)
        for container in pod.spec["containers"]:
            given = raw.mapping(container.get("resources"))
            limits, requests = (
                amounts(raw.mapping(given.get(key)))
                for key in ("limits", "requests")
            )
            for key, amount in limits.items():
                add(f"limits.{key}", amount, pod.count)
            for key, amount in {**limits, **requests}.items():
                add(f"requests.{key}", amount, pod.count)
                if "/" not in key:
                    add(key, amount, pod.count)
    return total


def network_check(target: RunTarget, operator: FoundOperator | None) -> Check:
    """Check which NetworkPolicies of other owners apply to the run's pods."""
    query = listed(
        f"/apis/networking.k8s.io/v1/namespaces/{target.namespace}/networkpolicies"
    )

    def read(answers: ApiAnswers) -> list[CheckLine]:
        answer = answers.of(query)
        if answer.trouble or not answer.is_whole:
            return [
                unread(
                    "network",
                    "NetworkPolicies",
                    answer,
                    "list networkpolicies",
                    namespace=target.namespace,
                )
            ]
        opened = operator is not None and operator.network_policies
        found = list(_network(answer.items, target, is_opened=opened))
        return found or [
            ok(
                "network",
                subject="NetworkPolicies",
                sentence="no policy in this namespace limits the connections of the pods",
            )
        ]

    return Check((query,), read)


def _network(
    policies: Sequence[raw.Object], target: RunTarget, *, is_opened: bool
) -> Iterator[CheckLine]:
    """Yield a warning for each pod and direction of traffic that policies limit.

    The operator's own policies need no warning: they only allow traffic.
    """
    for pod in target.pods:
        of_pod = [each for each in policies if _selects(each, pod.labels)]
        leaving = _closing(of_pod, "Egress", "egress")
        if leaving:
            yield warning(
                "network",
                subject=pod.subject,
                sentence=f"NetworkPolicy {named(leaving)} limits what it connects to",
                remedy="Let it reach DNS (port 53), the pods of the run, and the model's hub or "
                "mirror; --pods tries that from a pod.",
            )
        entering = _closing(of_pod, "Ingress", "ingress")
        if entering and not is_opened:
            yield warning(
                "network",
                subject=pod.subject,
                sentence=f"NetworkPolicy {named(entering)} limits who connects to it, and the "
                "operator adds none that lets the run's own pods and itself in",
                remedy="Install the chart with networkPolicies.runs=true, or let the operator's "
                "namespace and the run's pods in.",
            )


def _selects(policy: raw.Object, labels: Manifest) -> bool:
    selector = raw.mapping(raw.mapping(policy.get("spec")).get("podSelector"))
    return matches(selector, labels)


def _closing(policies: Sequence[raw.Object], type_: str, field: str) -> list[str]:
    """Return the names of the policies that limit this direction.

    There are none if one of them allows everything, because policies add up.
    """
    of_type: list[raw.Object] = []
    for policy in policies:
        spec = raw.mapping(policy.get("spec"))
        types = spec.get("policyTypes")
        if isinstance(types, list) and type_ in types:
            of_type.append(policy)
            if any(not rule for rule in raw.mappings(spec.get(field))):
                return []
    return [name_of(each) for each in of_type]
