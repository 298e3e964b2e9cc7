"""Objects in files, as `kubectl get -o yaml` or `-o json` writes them: one object, a list, or several documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchrun.api.base import KIND
from benchrun.cli.errors import CommandError
from benchrun.observe import raw
from benchrun.observe.trim import run_of
from benchrun.observe.views import Run

ENDINGS = frozenset({".yaml", ".yml", ".json"})
"""Of files that are looked into, where a folder is named."""


def runs_in(path: Path) -> list[Run]:
    """The BenchmarkRuns of a file, in order. Raises CommandError where it can't be read or holds none."""
    found = [run_of(body) for body in objects_in(path) if body.get("kind") == KIND]
    if not found:
        raise CommandError(f"{path} holds no {KIND}")
    return found


def config_maps_in(path: Path) -> list[raw.Object]:
    """The ConfigMaps of a file, or of all files of a folder. Raises CommandError where one can't be read."""
    files = sorted(each for each in path.iterdir() if each.suffix in ENDINGS) if path.is_dir() else [path]
    return [body for file in files for body in objects_in(file) if body.get("kind") == "ConfigMap"]


def objects_in(path: Path) -> list[raw.Object]:
    """All objects of a file, of any kind. Raises CommandError where it can't be read."""
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=LOADER))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CommandError(f"{path}: {error}") from error
    return [body for document in documents for body in _objects(document)]


def _objects(document: object) -> Iterator[raw.Object]:
    body = raw.mapping(document)
    yield from raw.mappings(body.get("items")) if "items" in body else (body,)


_FASTEST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Where libyaml was there when PyYAML was built; ten times as fast, and a run's records are a megabyte."""
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
LOADER: Any = type(
    "KubernetesLoader",
    (_FASTEST,),
    {
        "yaml_implicit_resolvers": {
            first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
            for first, resolvers in _FASTEST.yaml_implicit_resolvers.items()
        }
    },
)
"""Reads as Kubernetes does: what looks like a date is a string."""
