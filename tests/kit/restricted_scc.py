"""OpenShift's SecurityContextConstraints `restricted-v2`, as far as they look at a pod.

Its defaults for what a pod leaves out (user, SELinux label, group of volumes) come from the
namespace, so only what a pod says can break it.
"""

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

UIDS = range(1_000_680_000, 1_000_690_000)
"""Users and groups of a namespace, as OpenShift gives each one a range of its own."""
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
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
        if not volume.keys() - {"name"} <= VOLUMES:
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
