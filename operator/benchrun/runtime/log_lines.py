"""Format of log entries: of bounded length, on one line, with fields for the object concerned."""

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import Decision
from benchrun.names import KIND
from benchrun.observe import Key, untrusted_json

MAX_CHARACTERS = 4000
"""Most characters of a message, and of a traceback."""
_FIELD = {KIND: "run", SWEEP_KIND: "sweep"}
# The default is never changed in place.
_fields: ContextVar[Mapping[str, str]] = ContextVar("log fields", default={})  # noqa: B039


def concerns(key: Key) -> None:
    """Add the object to every later log entry of this task and of the tasks that it starts."""
    _fields.set({"namespace": key.namespace, _FIELD[key.kind]: key.name})


def concerns_stage(stage: str | None) -> None:
    """Add the stage to every later log entry of this task; None removes it."""
    rest = {name: value for name, value in _fields.get().items() if name != "stage"}
    _fields.set(rest if stage is None else {**rest, "stage": stage})


def fields_of(record: logging.LogRecord) -> Mapping[str, str]:
    """Return the log fields that name the object a log entry is about.

    Kopf's own entries carry the object; for all others it is the one being worked on (`_fields`).
    """
    ref = getattr(record, "k8s_ref", None)
    if not isinstance(ref, Mapping) or ref.get("kind") not in _FIELD:
        return _fields.get()
    return {
        "namespace": str(ref.get("namespace")),
        _FIELD[ref["kind"]]: str(ref.get("name")),
    }


class JsonFormatter(logging.Formatter):
    """Writes each entry as a JSON object: time, level, logger, the object, message and error."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname.lower(),
            "logger": record.name,
            **fields_of(record),
            "message": _bounded(record.getMessage()),
        }
        if record.exc_info:
            entry["error"] = _bounded(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """Writes each entry as one line with the object at its end; no message can begin a new line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: ")

    def format(self, record: logging.LogRecord) -> str:
        record.asctime = self.formatTime(record)
        fields = "".join(
            f" {name}={_on_one_line(v)}" for name, v in fields_of(record).items()
        )
        line = (
            self.formatMessage(record) + _on_one_line(record.getMessage()) + fields
        )
        if record.exc_info:
            lines = _bounded(self.formatException(record.exc_info)).splitlines()
            line += "".join(f"\n  {_on_one_line(each)}" for each in lines)
        return line


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def _on_one_line(text: str) -> str:
    """Escape control characters, which could move the cursor or end the line."""
    shown = _bounded(text)
    return shown if shown.isprintable() else "".join(map(_spelled, shown))


def _spelled(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def decided_in_words(before: Mapping[str, Any], decision: Decision) -> str:
    """Describe what a decision changes, in one line.

    The line has the phase, the conditions, the objects to create and delete, why the run ends, and
    when it is reconciled next.
    """
    status = decision.status
    known = {
        each.get("type"): each
        for each in untrusted_json.mappings(before.get("conditions"))
    }
    changes = [
        f"{each.type}={each.status} ({each.reason})"
        for each in status.conditions
        if (each.status, each.reason)
        != tuple(known.get(each.type, {}).get(key) for key in ("status", "reason"))
    ]
    if status.phase != before.get("phase"):
        changes.insert(0, f"phase {status.phase}")
    made = [f"{each['kind']} {each['metadata']['name']}" for each in decision.apply]
    parts = {
        "changes": changes,
        "makes": made,
        "deletes": [f"{each.kind} {each.name}" for each in decision.delete],
        "ends as": [] if decision.ending is None else [decision.ending.reason],
        "next reconcile in": []
        if decision.requeue_after_seconds is None
        else [f"{decision.requeue_after_seconds:.1f} s"],
    }
    words = [f"{what} {', '.join(each)}" for what, each in parts.items() if each]
    return f"decided: {'; '.join(words) or 'nothing'}"
