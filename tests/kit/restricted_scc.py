"""OpenShift's SecurityContextConstraints `restricted-v2`, as far as they look at a pod.

Its defaults for what a pod leaves out (user, SELinux label, group of volumes) come from the
namespace, so only what a pod says can break it.
"""

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

UIDS = range(1_000_680_000, 1_000_690_000)
"""Users and groups of a namespace, as OpenShift gives each one a range of its own."""
RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
"""Kinds of volumes that OpenShift's constraints and the restricted Pod Security Standard allow."""
CAPABILITIES = {"NET_BIND_SERVICE"}
_HOST = ("hostNetwork", "hostPID", "hostIPC")


def violations(pod: Object) -> list[str]:
    """Return what the constraints refuse in the spec of a pod, by field; nothing if they admit it."""
    return [*_of_pod(pod), *(v for each in _containers(pod) for v in _of(each))]


def _containers(pod: Object) -> Iterator[Object]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod.get(kind, [])


def _of_pod(pod: Object) -> Iterator[str]:
    yield from (name for name in _HOST if pod.get(name))
    for volume in pod.get("volumes", []):
        if not volume.keys() - {"name"} <= RESTRICTED_VOLUMES:
            yield f"volumes.{volume['name']}"
    security = pod.get("securityContext", {})
    if security.get("fsGroup", UIDS[0]) not in UIDS:
        yield "fsGroup"
    yield from _of_both(security)


def _of_both(security: Object) -> Iterator[str]:
    if security.get("runAsUser", UIDS[0]) not in UIDS:
        yield "runAsUser"
    if security.get("seccompProfile", {}).get("type", "RuntimeDefault") != (
        "RuntimeDefault"
    ):
        yield "seccompProfile"
    if "seLinuxOptions" in security:
        yield "seLinuxOptions"


def _of(container: Object) -> Iterator[str]:
    security = container.get("securityContext", {})
    name = container["name"]
    found = list(_of_both(security))
    if security.get("privileged"):
        found.append("privileged")
    if security.get("allowPrivilegeEscalation") is not False:
        found.append("allowPrivilegeEscalation")
    capabilities = security.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        found.append("capabilities.drop")
    if not set(capabilities.get("add", [])) <= CAPABILITIES:
        found.append("capabilities.add")
    if any("hostPort" in port for port in container.get("ports", [])):
        found.append("hostPort")
    yield from (f"{name}.{each}" for each in found)


def pods_of(manifest: Object) -> list[Object]:
    """Return the specs of the pods that an object makes; none for an object that makes none."""
    spec = manifest.get("spec") or {}
    if manifest["kind"] == "CronJob":
        return pods_of({"kind": "Job", **spec["jobTemplate"]})
    if "leaderWorkerTemplate" in spec:
        both = spec["leaderWorkerTemplate"]
        return [both[each]["spec"] for each in ("leaderTemplate", "workerTemplate")]
    return [spec["template"]["spec"]] if "template" in spec else []


_ALL = (
    "(object.spec.containers + (has(object.spec.initContainers) ? "
    "object.spec.initContainers : [])).all(c, {each})"
)
_SECURITY = "!has(c.securityContext) || "


def _within(field: str, of: str) -> str:
    return f"(!has({of}.{field}) || ({of}.{field} >= {UIDS.start} && {of}.{field} < {UIDS.stop}))"


def _profile(of: str) -> str:
    return (
        f"(!has({of}.seccompProfile) || !has({of}.seccompProfile.type) || "
        f"{of}.seccompProfile.type == 'RuntimeDefault') && !has({of}.seLinuxOptions)"
    )


_POD = "object.spec.securityContext"
_RULES = {
    "host": " && ".join(
        f"!(has(object.spec.{name}) && object.spec.{name})" for name in _HOST
    ),
    "volumes": (
        "!has(object.spec.volumes) || object.spec.volumes.all(v, "
        + " || ".join(f"has(v.{kind})" for kind in sorted(RESTRICTED_VOLUMES))
        + ")"
    ),
    "pod.user": f"!has({_POD}) || ({_within('runAsUser', _POD)} && {_within('fsGroup', _POD)})",
    "pod.profile": f"!has({_POD}) || ({_profile(_POD)})",
    "user": _ALL.format(each=_SECURITY + _within("runAsUser", "c.securityContext")),
    "profile": _ALL.format(each=f"{_SECURITY}({_profile('c.securityContext')})"),
    "privileged": _ALL.format(
        each=_SECURITY
        + "!(has(c.securityContext.privileged) && c.securityContext.privileged)"
    ),
    "allowPrivilegeEscalation": _ALL.format(
        each="has(c.securityContext) && has(c.securityContext.allowPrivilegeEscalation) && "
        "!c.securityContext.allowPrivilegeEscalation"
    ),
    "capabilities": _ALL.format(
        each="has(c.securityContext) && has(c.securityContext.capabilities) && "
        "has(c.securityContext.capabilities.drop) && 'ALL' in c.securityContext.capabilities.drop "
        "&& (!has(c.securityContext.capabilities.add) || "
        f"c.securityContext.capabilities.add.all(a, a in {sorted(CAPABILITIES)}))"
    ),
    "hostPort": _ALL.format(
        each="!has(c.ports) || c.ports.all(p, !has(p.hostPort))"
    ),
}
"""The same in CEL, by what a rule looks at. As the constraints do, they look at pods, not at what
makes them."""


_NEW_PODS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
    "operations": ["CREATE"],
}


def assigning_policy(name: str, namespace: str) -> list[Object]:
    """Build the policy that gives pods a user and a group of volumes, as OpenShift does where they
    name none, and its binding."""
    given = f"runAsUser: {UIDS.start}, fsGroup: {UIDS.start}"
    security = "Object.spec.securityContext"
    applied = (
        f"Object{{spec: Object.spec{{securityContext: {security}{{{given}}}}}}}"
    )
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [_NEW_PODS]},
        "matchConditions": [
            {
                "name": "names-no-user",
                "expression": f"!has({_POD}) || !has({_POD}.runAsUser)",
            }
        ],
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": applied},
            }
        ],
    }
    return _with_binding("MutatingAdmissionPolicy", name, namespace, spec)


def requiring_label(name: str, namespace: str, label: str) -> list[Object]:
    """Build the policy that refuses pods without that label, and its binding."""
    has = f"has(object.metadata.labels) && '{label}' in object.metadata.labels"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_NEW_PODS]},
        "validations": [
            {"expression": has, "message": f"pods need the label {label}"}
        ],
    }
    return _with_binding(
        "ValidatingAdmissionPolicy",
        name,
        namespace,
        spec,
        validationActions=["Deny"],
    )


def admission_policy(name: str, namespace: str) -> list[Object]:
    """Build the policy that does in this namespace what the constraints do, and its binding."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_NEW_PODS]},
        "validations": [
            {"expression": cel, "message": f"restricted-v2: {what}"}
            for what, cel in _RULES.items()
        ],
    }
    return _with_binding(
        "ValidatingAdmissionPolicy",
        name,
        namespace,
        spec,
        validationActions=["Deny"],
    )


def _with_binding(
    kind: str, name: str, namespace: str, spec: Object, **binding: Any
) -> list[Object]:
    """Build a policy and what binds it to one namespace."""
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    bound = {
        "policyName": name,
        "matchResources": {"namespaceSelector": chosen},
        **binding,
    }
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": each,
            "metadata": {"name": name},
            "spec": body,
        }
        for each, body in ((kind, spec), (f"{kind}Binding", bound))
    ]
