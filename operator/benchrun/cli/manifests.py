"""Read Kubernetes objects from files or standard input, and apply them."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchrun.api.sweep import spec
from benchrun.cli import cluster, errors
from benchrun.names import KIND, SHORT_NAME
from benchrun.observe import (
    is_finished,
    untrusted_json as raw,
    view_builders,
    views,
)

STANDARD_INPUT = "-"
MAX_BYTES = 8 * 1024 * 1024
"""Most bytes of a manifest. The API server refuses objects above 1.5 MB."""
# Endings of the files that are read where a folder is named.
ENDINGS = frozenset({".yaml", ".yml", ".json"})


def runs_in(path: Path) -> list[views.Run]:
    """Return the BenchmarkRuns of a file in order.

    Raises CommandError if it can't be read or has none.
    """
    if not (
        found := [
            view_builders.labelled_run_of(body)
            for body in objects_in(path)
            if body.get("kind") == KIND
        ]
    ):
        raise errors.CommandError(f"{path} holds no {KIND}")
    return found


def config_maps_in(path: Path) -> list[raw.Object]:
    """Return the ConfigMaps of a file, or of all files in a folder.

    Raises CommandError if one can't be read.
    """
    files = (
        sorted(each for each in path.iterdir() if each.suffix in ENDINGS)
        if path.is_dir()
        else [path]
    )
    return [
        body
        for file in files
        for body in objects_in(file)
        if body.get("kind") == "ConfigMap"
    ]


def objects_in(path: Path) -> list[raw.Object]:
    """Return all objects of a file, of any kind. Raises CommandError if it can't be read."""
    try:
        documents = list(
            yaml.load_all(path.read_text(encoding="utf-8"), Loader=LOADER)
        )
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise errors.CommandError(f"{path}: {error}") from error
    except RecursionError as error:
        raise errors.CommandError(f"{path}: nested too deeply") from error
    bodies = map(raw.mapping, documents)
    return [
        each
        for body in bodies
        for each in (
            raw.mappings(body.get("items")) if "items" in body else (body,)
        )
    ]


# CSafeLoader is ten times as fast, and a run's records are a megabyte. It exists where PyYAML was
# built with libyaml.
_YAML: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _with_string_keys(
    loader: Any, node: yaml.MappingNode, deep: bool = False
) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            key.tag = "tag:yaml.org,2002:str"
    found: dict[Any, Any] = _YAML.construct_mapping(loader, node, deep=deep)
    return found


LOADER: Any = type(
    "KubernetesLoader", (_YAML,), {"construct_mapping": _with_string_keys}
)
"""YAML loader that reads like Kubernetes: a text that looks like a date is a string, and every key
is a string."""
LOADER.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag != "tag:yaml.org,2002:timestamp"
    ]
    for first, resolvers in LOADER.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to apply."""

    source: str  # File, and the document's number in it, for errors.
    text: str  # Text as it was written: kubectl reads YAML values in its own way.
    kind: str
    name: str | None  # Name; None: the API server makes it from generateName.
    namespace: str | None  # Namespace; None: that of the command or of the context.


def manifests_in(paths: Sequence[str]) -> list[Manifest]:
    """Return all objects of the files in order; `-` is standard input.

    Raises CommandError for what is not an object.
    """
    if not (found := [each for path in paths for each in _manifests(path)]):
        raise errors.CommandError(
            f"{', '.join(map(_title, paths))} holds no object; examples/ has some to start from"
        )
    return found


def _manifests(path: str) -> Iterator[Manifest]:
    title = _title(path)
    try:
        documents = _documents(_text(path))
    except yaml.YAMLError as error:
        raise errors.CommandError(
            f"{title} is not valid YAML: {_where(error)}"
        ) from error
    except OSError as error:
        raise errors.CommandError(
            f"{title} can't be read: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        raise errors.CommandError(
            f"{title} is not valid UTF-8 (byte {error.start})"
        ) from error
    except RecursionError as error:
        raise errors.CommandError(f"{title} is nested too deeply") from error
    except ValueError as error:  # A value is not of the type that its tag names.
        raise errors.CommandError(f"{title} can't be read: {error}") from error
    for number, (text, document) in enumerate(documents, start=1):
        if document is not None:
            yield _manifest(
                title if len(documents) == 1 else f"{title}, document {number}",
                text,
                document,
            )


def _manifest(source: str, text: str, document: object) -> Manifest:
    body = raw.mapping(document)
    metadata = raw.mapping(body.get("metadata"))
    kind = raw.text(body.get("kind"))
    name = raw.text(metadata.get("name"))
    generated = raw.text(metadata.get("generateName"))
    problem = None
    if not kind or not raw.text(body.get("apiVersion")):
        problem = (
            "an object needs apiVersion and kind, for example "
            f"benchrun.dev/v1alpha1 and {KIND}"
        )
    elif kind.endswith("List") and "items" in body:
        problem = (
            f"a {kind} is not supported; write its objects as documents, with "
            "--- between them"
        )
    elif not name and not generated:
        problem = "metadata has neither name nor generateName; set one of them"
    elif name and generated:
        problem = "metadata has both name and generateName; remove one of them"
    if problem is not None:
        raise errors.CommandError(f"{source}: {problem}")
    return Manifest(
        source,
        text,
        kind,
        name or None,
        raw.text(metadata.get("namespace")) or None,
    )


def _documents(text: str) -> list[tuple[str, object]]:
    """Return each YAML document as text and parsed. Raises YAMLError."""
    if text.lstrip().startswith("{"):
        try:
            return [(text, json.loads(text))]
        except ValueError:
            pass  # YAML may begin with a brace, too.
    found: list[tuple[str, object]] = []
    begin = 0
    for event in yaml.parse(text, Loader=LOADER):
        if (
            isinstance(event, yaml.DocumentStartEvent)
            and event.start_mark is not None
        ):
            begin = event.start_mark.index
        elif (
            isinstance(event, yaml.DocumentEndEvent) and event.end_mark is not None
        ):
            document = text[begin : event.end_mark.index]
            found.append((document, yaml.load(document, Loader=LOADER)))
    return found


def _text(path: str) -> str:
    if path == STANDARD_INPUT:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise errors.CommandError(
            f"{_title(path)} is larger than {MAX_BYTES // 1024**2} MiB, too large for a manifest"
        )
    return data.decode("utf-8-sig")


def _title(path: str) -> str:
    return "standard input" if path == STANDARD_INPUT else path


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    if mark is None or problem is None:
        return str(error).splitlines()[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


@dataclass(frozen=True, slots=True)
class AppliedObject:
    """An object that was applied, with the name that it has in the cluster."""

    kind: str
    namespace: str
    name: str
    # Whether the run or sweep existed before and has not ended.
    was_there: bool = False


def applied(manifest: Manifest, kubectl: cluster.Kubectl) -> AppliedObject:
    """Apply a manifest and return the object.

    Raises CommandError; it begins with the name of the file if the object is at fault.
    """
    if kubectl.namespace and manifest.namespace not in (None, kubectl.namespace):
        both = f"metadata.namespace is {manifest.namespace}, but -n is {kubectl.namespace}"
        raise errors.CommandError(
            f"{manifest.source}: {both}; leave one of them out"
        )
    within = kubectl.within(manifest.namespace)
    try:
        if manifest.name is not None and manifest.kind in cluster.RESOURCES:
            return _once(manifest, manifest.name, within)
        return _as_applied(
            within.apply(manifest.text, named=manifest.name is not None)
        )
    except errors.CommandError as error:
        if (
            isinstance(error, errors.KubectlError)
            and error.trouble in errors.OF_THE_CLUSTER
        ):
            raise
        raise errors.CommandError(f"{manifest.source}: {error}") from error


def _once(manifest: Manifest, name: str, kubectl: cluster.Kubectl) -> AppliedObject:
    """Apply a run or sweep that has a name.

    Raises CommandError if it exists with another spec, or has ended. A finished one would not be
    measured again, so the command must not succeed.
    """
    before = kubectl.find(name, resource=cluster.RESOURCES[manifest.kind])
    status = raw.mapping(before.get("status")) if before is not None else {}
    has_ended = is_finished(status)
    is_sweep = manifest.kind == spec.KIND
    delete = (
        "delete it with its results: kubectl delete "
        f"{spec.SHORT_NAME if is_sweep else SHORT_NAME} {name}"
    )
    try:
        body = kubectl.apply(manifest.text, dry_run=has_ended)
    except errors.KubectlError as error:
        if error.trouble != "Immutable":
            raise
        rename = (
            f"use another name, or generateName: {name}- for a new one each time"
        )
        raise errors.CommandError(
            f"{name} exists with another spec ({error}); {rename}, or {delete}"
        ) from error
    if has_ended:
        ended = f"{raw.text(status.get('phase'))}, {raw.text(status.get('completionTime'))}"
        once = (
            f"a {'sweep' if is_sweep else 'run'} is measured once; benchrun report {name} shows "
            "its result"
        )
        remedy = f"to measure again write generateName: {name}- in place of the name, or {delete}"
        raise errors.CommandError(
            f"{name} has ended before ({ended}), and {once}; {remedy}"
        )
    return _as_applied(body, was_there=before is not None)


def _as_applied(body: cluster.Body, *, was_there: bool = False) -> AppliedObject:
    metadata = raw.mapping(body.get("metadata"))
    name = raw.text(metadata.get("name"))
    namespace = raw.text(metadata.get("namespace"))
    return AppliedObject(raw.text(body.get("kind")), namespace, name, was_there)
