"""`--threshold NAME=VALUE` and `--severity CODE=SEVERITY`: what a run is judged by, if not by its spec alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import get_args

from pydantic import ValidationError

from benchrun.api.codes import FIXED, Code
from benchrun.api.measurement import CHANGEABLE, RuleSeverity
from benchrun.cli.errors import CommandError, unknown
from benchrun.judge.thresholds import Thresholds

THRESHOLDS = tuple(field.name.replace("_", "-") for field in fields(Thresholds))
DEFAULTS = ", ".join(f"{field.name.replace('_', '-')} {field.default:g}" for field in fields(Thresholds))
"""Every threshold with its value."""
SEVERITIES: tuple[str, ...] = get_args(RuleSeverity.model_fields["severity"].annotation)


def changed(thresholds: Thresholds, wanted: Sequence[str]) -> Thresholds:
    """The thresholds with these, each `name=value`; the last of a name stands. Raises CommandError."""
    for text in wanted:
        name, value = _split(text, "NAME=VALUE")
        if name.replace("_", "-") not in THRESHOLDS:
            raise unknown("threshold", name, THRESHOLDS)
        thresholds = replace(thresholds, **{name.replace("-", "_"): _number(name, value)})
    return thresholds


def severities(wanted: Sequence[str]) -> list[RuleSeverity]:
    """Each `code=severity`; the last of a code stands. Raises CommandError."""
    found: dict[str, RuleSeverity] = {}
    for text in wanted:
        code, severity = _split(text, "CODE=SEVERITY")
        if code in FIXED:
            raise CommandError(f"{code} can't be changed: where there is no number there is nothing to look past")
        if code not in CHANGEABLE:
            raise unknown("finding", code, CHANGEABLE)
        try:
            found[code] = RuleSeverity.model_validate({"code": code, "severity": severity})
        except ValidationError:
            raise CommandError(f"{text}: a severity is one of {', '.join(SEVERITIES)}") from None
    return list(found.values())


def known_code(text: str) -> Code:
    """The code of that name, however it is capitalised. Raises CommandError."""
    found = next((code for code in Code if code.lower() == text.lower()), None)
    if found is None:
        raise unknown("finding", text, list(Code))
    return found


def _split(text: str, form: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise CommandError(f"{text!r} is not {form}")
    return name, value


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise CommandError(f"{name}: {text!r} is not a number from 0 up")
    return value
