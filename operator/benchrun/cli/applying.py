"""Objects of a manifest, brought into the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.api.base import SHORT_NAME
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.api.sweep.spec import SHORT_NAME as SWEEP_SHORT_NAME
from benchrun.cli.errors import CommandError
from benchrun.cli.kubectl import Body, Kubectl
from benchrun.cli.kubectl_errors import OF_THE_CLUSTER, KubectlError
from benchrun.cli.manifests import Manifest
from benchrun.cli.targets import RESOURCES
from benchrun.observe import raw


@dataclass(frozen=True, slots=True)
class Applied:
    """An object as it is in the cluster now."""

    kind: str
    namespace: str
    name: str
    was_there: bool = False
    """A run or sweep that had been created before and has not ended."""


def applied(manifest: Manifest, kubectl: Kubectl) -> Applied:
    """The object. Raises CommandError; where the object is at fault, what it says begins with the file."""
    if kubectl.namespace and manifest.namespace not in (None, kubectl.namespace):
        raise CommandError(
            f"{manifest.source}: metadata.namespace is {manifest.namespace}, and -n says {kubectl.namespace}; "
            "leave one of them out"
        )
    try:
        return _applied(manifest, kubectl.within(manifest.namespace))
    except CommandError as error:
        if isinstance(error, KubectlError) and error.trouble in OF_THE_CLUSTER:
            raise
        raise CommandError(f"{manifest.source}: {error}") from error


def _applied(manifest: Manifest, kubectl: Kubectl) -> Applied:
    if manifest.name is None:
        return _told(kubectl.create(manifest.text))
    if manifest.kind not in RESOURCES:
        return _told(kubectl.apply(manifest.text))
    return _once(manifest, manifest.name, kubectl)


def _once(manifest: Manifest, name: str, kubectl: Kubectl) -> Applied:
    """What has ended is not measured again, so it must not look as if it were."""
    there = kubectl.find(name, resource=RESOURCES[manifest.kind])
    ended = raw.mapping(there.get("status")) if there is not None else {}
    has_ended = bool(ended.get("completionTime"))
    try:
        body = kubectl.apply(manifest.text, dry_run=has_ended)
    except KubectlError as error:
        if error.trouble != "Immutable":
            raise
        raise CommandError(_other_spec(manifest.kind, name, error)) from error
    if has_ended:
        raise CommandError(_measured_already(manifest.kind, name, ended))
    return _told(body, was_there=there is not None)


def _told(body: Body, *, was_there: bool = False) -> Applied:
    metadata = raw.mapping(body.get("metadata"))
    name, namespace = raw.text(metadata.get("name")), raw.text(metadata.get("namespace"))
    return Applied(raw.text(body.get("kind")), namespace, name, was_there)


def _other_spec(kind: str, name: str, error: KubectlError) -> str:
    return (
        f"{name} exists, with another spec ({error}). Give this one another name, or generateName: {name}- for a new one "
        f"each time, or delete the old one and its results first: {_delete(kind, name)}"
    )


def _measured_already(kind: str, name: str, status: raw.Object) -> str:
    noun = "sweep" if kind == SWEEP_KIND else "run"
    return (
        f"{name} has run before ({raw.text(status.get('phase'))}, {raw.text(status.get('completionTime'))}), and a {noun} is "
        f"measured once; benchrun report {name} shows its result. To measure again write generateName: {name}- in place of "
        f"the name, or delete it and its results first: {_delete(kind, name)}"
    )


def _delete(kind: str, name: str) -> str:
    return f"kubectl delete {SWEEP_SHORT_NAME if kind == SWEEP_KIND else SHORT_NAME} {name}"
