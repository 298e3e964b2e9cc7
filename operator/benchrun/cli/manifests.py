"""Manifests in files or on standard input, as `run -f` takes them.

They are looked into, and handed to kubectl as they are written: it has its own idea of what a YAML value means.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchrun.api.base import KIND
from benchrun.cli.errors import CommandError
from benchrun.cli.run_files import LOADER
from benchrun.observe import raw

STANDARD_INPUT = "-"
MAX_BYTES = 8 * 1024 * 1024
"""Of one file. The API server takes no object above 1.5 MB."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object that is asked for."""

    source: str
    """File and place in it, for errors."""
    text: str
    kind: str
    name: str | None
    """None where the API server makes it, from generateName."""
    namespace: str | None
    """None: that of the command or of the context."""


def manifests_in(paths: Sequence[str]) -> list[Manifest]:
    """All objects of the files, in order; `-` is standard input. Raises CommandError for what is no object."""
    found = [each for path in paths for each in _manifests(path)]
    if not found:
        raise CommandError(f"{', '.join(map(_title, paths))} holds no object; begin with one of examples/")
    return found


def _manifests(path: str) -> Iterator[Manifest]:
    title = _title(path)
    try:
        documents = _documents(_text(path))
    except yaml.YAMLError as error:
        raise CommandError(f"{title} is no YAML: {_where(error)}") from error
    except OSError as error:
        raise CommandError(f"{title} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{title} is no text in UTF-8: byte {error.start} is none of it") from error
    except ValueError as error:  # a value that is not of the type that its tag names
        raise CommandError(f"{title} can't be read: {error}") from error
    for number, (text, document) in enumerate(documents, start=1):
        if document is not None:
            yield _manifest(title if len(documents) == 1 else f"{title}, document {number}", text, document)


def _manifest(source: str, text: str, document: object) -> Manifest:
    body = raw.mapping(document)
    metadata = raw.mapping(body.get("metadata"))
    kind = raw.text(body.get("kind"))
    name, generated = raw.text(metadata.get("name")), raw.text(metadata.get("generateName"))
    problem = None
    if not kind or not raw.text(body.get("apiVersion")):
        problem = f"an object has apiVersion and kind, for example benchrun.dev/v1alpha1 and {KIND}"
    elif kind.endswith("List") and "items" in body:
        problem = f"a {kind} is not taken; write its objects as documents, with --- between them"
    elif not name and not generated:
        problem = "metadata has neither name nor generateName"
    elif name and generated:
        problem = "metadata has both name and generateName; take one of them out"
    if problem is not None:
        raise CommandError(f"{source}: {problem}")
    return Manifest(source, text, kind, name or None, raw.text(metadata.get("namespace")) or None)


def _documents(text: str) -> list[tuple[str, object]]:
    """Each as it is written and as it reads. Raises YAMLError."""
    if text.lstrip().startswith("{"):
        try:
            return [(text, json.loads(text))]
        except ValueError:
            pass  # YAML may begin with a brace, too
    found: list[tuple[str, object]] = []
    begin = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.DocumentStartEvent) and event.start_mark is not None:
            begin = event.start_mark.index
        elif isinstance(event, yaml.DocumentEndEvent) and event.end_mark is not None:
            document = text[begin : event.end_mark.index]
            found.append((document, yaml.load(document, Loader=LOADER)))
    return found


def _text(path: str) -> str:
    """Raises OSError, UnicodeDecodeError or CommandError."""
    if path == STANDARD_INPUT:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise CommandError(f"{_title(path)} is larger than {MAX_BYTES // 1024**2} MiB; that is no manifest")
    return data.decode("utf-8-sig")


def _title(path: str) -> str:
    return "standard input" if path == STANDARD_INPUT else path


def _where(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return str(error).splitlines()[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
