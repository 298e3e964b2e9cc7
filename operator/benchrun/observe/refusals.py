"""The meaning of the messages with which the API server or its plugins refuse a pod or an object.

`refusal_of` reads the refusals of all children. The run waits for a quota that has no room now, and
a request without an answer is retried. Every other refusal is a ruling: it stands until somebody
changes the spec, the policy or the cluster. The text of a webhook or a policy is not used to tell
these apart: people write it, and it may say anything.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from benchrun import names
from benchrun.observe import untrusted_json as raw
from benchrun.observe.last_words import bounded


class Means(StrEnum):
    """What a refusal means for the run."""

    # a quota has no room now, but may have later: the run waits for it
    QUOTA = "Quota"
    RETRY = "Retry"  # the API server, or a webhook that it calls, gave no answer
    NAMESPACE = "Namespace"  # the namespace is being deleted, and the run with it
    RULING = "Ruling"  # the refusal stands until the cause is changed


@dataclass(frozen=True, slots=True)
class Place:
    """The paths in a run's spec that describe a child of this role."""

    role: str
    server: str = "spec.server"  # spec.server or spec.offline

    @property
    def part(self) -> str:
        """Return the path of the section that says what the child runs (its image)."""
        ours = {
            names.ROLE_CLIENT: "spec.client",
            names.ROLE_PROXY: f"{self.server}.disaggregated.proxy",
        }
        return ours.get(self.role, self.server)

    @property
    def pod(self) -> str:
        """Return the path of the pod's placement and user settings; a proxy has the client's."""
        is_clients = self.role in (names.ROLE_CLIENT, names.ROLE_PROXY)
        return "spec.client.pod" if is_clients else f"{self.server}.pod"

    @property
    def resources(self) -> str:
        is_role = self.role in (names.ROLE_PREFILL, names.ROLE_DECODE)
        of_role = f"{self.server}.disaggregated.{self.role}"
        return f"{of_role if is_role else self.part}.resources"

    @property
    def has_pod(self) -> bool:
        """Return whether the spec describes such a child; it does not describe ConfigMaps."""
        return self.role in (names.ROLE_CLIENT, *names.SERVING_ROLES)


@dataclass(frozen=True, slots=True)
class Refusal:
    means: Means
    words: str  # the API server's words, bounded
    remedy: str  # what to do, in a sentence


# How controllers begin what they pass on, and the event recorder what it has seen several times.
_PASSED_ON = re.compile(
    r"^(?:FailedCreate: |\(combined from similar events\): |Error creating: "
    r"|create Pod \S+ in StatefulSet \S+ failed error: )+"
)
_NAMESPACE_ENDS = re.compile(
    r'because it is being terminated|^namespaces? "?[^" ]+"? not found|namespace \S+ is terminating'
)
_NOT_ASKED = re.compile(r"^(?:Internal error occurred: )?failed calling webhook ")
# What follows is somebody's own text.
_DENIED = re.compile(r"\bdenied (?:the )?request\b|\bdenied one or more images\b")
_OWN_TROUBLE = re.compile(r"^Internal error occurred: ")
"""Trouble of a webhook that answered with a 500."""
_NOT_READY = re.compile(r"\bnot yet synced\b")
"""Trouble of a policy whose parameters are not known yet."""
_QUOTA = re.compile(r"(?:^|: )exceeded quota: (?P<name>[^,]+)(?:, |$)")
_AMOUNTS = re.compile(
    r"requested: (?P<requested>\S+), used: (?P<used>\S+), limited: (?P<limited>\S+)"
)


def refusal_of(message: str, place: Place) -> Refusal:
    """Return what the refusal of a pod, or of an object that makes pods, means."""
    text = _PASSED_ON.sub("", message.strip())
    means, remedy = _judged(text, place)
    return Refusal(means, bounded(text).rstrip(". "), remedy)


def refused_pods(events: Iterable[raw.Object]) -> str:
    """Return why pods were not made, from the newest of these events; empty without events."""
    newest = max(events, key=_last_seen, default=None)
    message = (
        ""
        if newest is None
        else raw.text(newest.get("message"), raw.MAX_MESSAGE_CHARS)
    )
    return _PASSED_ON.sub("", message.strip())


def _last_seen(event: raw.Object) -> str:
    """Return when the event was last seen, in RFC 3339, which sorts as text.

    The text has whole seconds, or more digits if the event has a series.
    """
    series = raw.mapping(event.get("series"))
    seen = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
    )
    return max(raw.text(each) for each in seen)


def is_ruling_on_valid(message: str) -> bool:
    """Return whether a plugin refused the object, although the object passed validation.

    The status code does not tell: policies may refuse with the code of an invalid object.
    """
    return " is forbidden: " in message or _DENIED.search(message) is not None


def _judged(text: str, place: Place) -> tuple[Means, str]:
    if _NAMESPACE_ENDS.search(text) and not _DENIED.search(text):
        return (
            Means.NAMESPACE,
            "The namespace is being deleted, and the run with it.",
        )
    if _NOT_ASKED.match(text):
        return Means.RETRY, _RETRIED
    if (denied := _DENIED.search(text)) is not None:
        head = text[: denied.start()]
        tail = text[denied.end() :]
        if _OWN_TROUBLE.match(head) or (
            tail.startswith(": failed to") and _NOT_READY.search(tail)
        ):
            return Means.RETRY, _RETRIED
        return Means.RULING, _of_a_policy(
            denied[0].removesuffix("request") + tail, place
        )
    if (quota := _QUOTA.search(text)) is not None:
        return _of_a_quota(text, quota["name"], place)
    for found, fields in _RULINGS:
        if found.search(text):
            return Means.RULING, _remedy(fields, place)
    if _RETRY.search(text):
        return Means.RETRY, _RETRIED
    return Means.RULING, _of_a_policy(text, place)


_RETRIED = "It is retried."


def _of_a_quota(text: str, name: str, place: Place) -> tuple[Means, str]:
    """Return the meaning and the remedy of a full quota.

    A quota that is smaller than this one request can never grant it, so that is a ruling.
    """
    too_much = _beyond(text)
    if not too_much:
        return (
            Means.QUOTA,
            "The run continues when enough of the namespace's quota is free.",
        )
    asks = f"One object asks for more {', '.join(too_much)} than quota {name} allows in all"
    if not place.has_pod or all(_COUNTED.search(resource) for resource in too_much):
        return Means.RULING, f"{asks}: have the quota raised."
    return (
        Means.RULING,
        f"{asks}: lower {place.resources}, or have the quota raised.",
    )


_COUNTED = re.compile(r"^(?:count/|pods$|configmaps$|services\b)")


def _beyond(text: str) -> list[str]:
    """Return the resources for which this one request is larger than the whole quota."""
    if (found := _AMOUNTS.search(text)) is None:
        return []
    requested = _amounts(found["requested"])
    limited = _amounts(found["limited"])
    return [
        resource
        for resource, amount in requested.items()
        if resource in limited and amount > limited[resource]
    ]


def _amounts(text: str) -> dict[str, Decimal]:
    pairs = (each.rpartition("=") for each in text.rstrip(".").split(","))
    read = (
        (resource, quantity(amount)) for resource, _, amount in pairs if resource
    )
    return {resource: amount for resource, amount in read if amount is not None}


_QUANTITY = re.compile(
    r"(?P<number>\d{1,20}(?:\.\d{1,20})?)(?P<unit>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,2})?"
)
_DECIMAL = {
    "n": -9,
    "u": -6,
    "m": -3,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def quantity(text: str) -> Decimal | None:
    """Parse a Kubernetes quantity (`500m`, `64Gi`, `1e3`) to a number; None for other text."""
    if (found := _QUANTITY.fullmatch(text)) is None:
        return None
    number = Decimal(found["number"])
    unit = found["unit"] or ""
    if unit in _BINARY:
        return number * Decimal(1024) ** (_BINARY.index(unit) + 1)
    if unit in _DECIMAL:
        return number.scaleb(_DECIMAL[unit])
    return number.scaleb(int(unit[1:])) if unit else number


# Fields are written as they stand in the spec; {part}, {pod} and {resources} come from `Place`.
_OPERATORS_RIGHTS = "operator"
_RULINGS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), fields)
    for pattern, fields in (
        (r"\bno PriorityClass with name ", ("{pod}.priorityClassName",)),
        (
            r"insufficient quota to match these scopes: .*PriorityClass",
            ("{pod}.priorityClassName",),
        ),
        (
            r"integer value of priority|preemptionPolicy",
            ("{pod}.priorityClassName",),
        ),
        (
            r"\bRuntimeClass\b|\bpod rejected: Pod.*Overhead",
            ("{pod}.runtimeClassName",),
        ),
        (
            (
                r"service account \S+: serviceaccounts? \S+ not found"
                r"|service account \S+ was not found"
            ),
            ("{pod}.serviceAccountName",),
        ),
        (
            r"because service account \S+ does not reference that",
            ("{pod}.serviceAccountName", "{pod}.volumes", "{pod}.imagePullSecrets"),
        ),
        (r"\b(?:maximum|minimum) \S+ usage per \S+ is\b", ("{resources}",)),
        (r"\bmax limit to request ratio per\b", ("{resources}",)),
        (
            r"\bfailed quota: .*must specify\b|\binsufficient quota to consume\b",
            ("{resources}",),
        ),
        (
            r"violates PodSecurity.*(?:hostPath|restricted volume types)",
            ("{pod}.volumes", "{pod}.securityContext"),
        ),
        (r"violates PodSecurity", ("{pod}.securityContext",)),
        (
            r"unable to validate against any (?:security context constraint|pod security policy)",
            ("{pod}.securityContext", "{pod}.volumes", "{pod}.serviceAccountName"),
        ),
        (r"\bpod tolerations\b.*\bconflict\b", ("{pod}.tolerations",)),
        (r"\bnode label selector conflicts\b", ("{pod}.nodeSelector",)),
        (r"\bcannot (?:create|get|patch|list) resource\b", (_OPERATORS_RIGHTS,)),
        (r"^\S+ \S+ is invalid: .*\bresources\b", ("{resources}",)),
        (r"^\S+ \S+ is invalid: ", ()),
    )
)
# Time-outs of the operator, the API server, its storage, and of plugins that were not ready. Only
# the fixed words of plugins are matched, which name nothing that a user chose.
_RETRY = re.compile(
    r"not yet ready to handle request|not yet synced|status unknown for quota|try again"
    r"|timed out|\bi/o timeout\b|handshake timeout|request timeout|^Timeout: |deadline exceeded"
    r"|too many requests|^Internal error occurred: |\betcdserver: |connection refused"
    r"|connection reset|\bEOF$|no such host|no route to host|network is unreachable"
    r"|currently unable to handle the request|unable to return a response in the time allotted"
    r"|object has been modified|Operation cannot be fulfilled|shutting down|leader changed"
    r"|service unavailable|an error on the server|is \(re\)initializing|^Unauthorized$"
    r"|failed to (?:get|list) \S+.*: ",
    re.IGNORECASE,
)
_NAMED = (
    (r"\bpriority ?class", "{pod}.priorityClassName"),
    (r"\bruntime ?class", "{pod}.runtimeClassName"),
    (r"\bservice ?account", "{pod}.serviceAccountName"),
    (r"\btolerat", "{pod}.tolerations"),
    (r"\bnode ?selector|\baffinity", "{pod}.nodeSelector"),
    (r"\bhostPath|\bvolume", "{pod}.volumes"),
    (
        r"\brunAs|\bsecurity ?context|\bprivileged|\bseccomp|\bfsGroup|\broot\b",
        "{pod}.securityContext",
    ),
    (
        r"\bresources?\b|\blimits?\b|\brequests?\b|\bgpus?\b|\bmemory\b|\bcpu\b",
        "{resources}",
    ),
    (r"\bimages?\b|\bregistr|\btag\b|\bdigest\b", "{part}.image"),
)
_MOST_NAMED = 3


def _of_a_policy(words: str, place: Place) -> str:
    """Return what to change, by the fields that the policy's words mention."""
    fields = (
        field
        for pattern, field in _NAMED
        if re.search(pattern, words, re.IGNORECASE)
    )
    return _remedy(tuple(fields)[:_MOST_NAMED], place)


def _remedy(fields: tuple[str, ...], place: Place) -> str:
    if fields == (_OPERATORS_RIGHTS,):
        return "Give the operator's ServiceAccount the rights that the chart lists."
    if not place.has_pod:
        return "Have the cluster's policies and the operator's rights allow it."
    paths = [
        each.format(part=place.part, pod=place.pod, resources=place.resources)
        for each in fields or ("{part}",)
    ]
    return f"Change {' or '.join(paths)} in a new run, or what the cluster allows."
