"""The plan as the operator mounted it."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from benchrun_client.contract import Plan
from benchrun_client.failures import RunFailure, first_line

MAX_PLAN_BYTES = 4 * 1024 * 1024
"""A ConfigMap holds 1 MiB; anything larger is not a plan."""
SHOWN_ERRORS = 5


def read_plan(path: Path) -> Plan:
    """Read and check the plan.

    Raises:
        RunFailure: `InvalidPlan`, naming the fields that are wrong.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise RunFailure("InvalidPlan", f"cannot read {path}: {error.strerror}") from error
    if len(text) > MAX_PLAN_BYTES:
        raise RunFailure("InvalidPlan", f"{path} is larger than {MAX_PLAN_BYTES} bytes")
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        raise RunFailure("InvalidPlan", f"{path}: {_told(error)}") from error


def peek_run_uid(path: Path) -> str:
    """The run's uid even when the plan is broken elsewhere, so that the operator knows whose failure it reads; else ''."""
    try:
        uid = json.loads(path.read_bytes()[:MAX_PLAN_BYTES])["run_uid"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return uid if isinstance(uid, str) and len(uid) <= 64 else ""


def _told(error: ValidationError) -> str:
    """The first errors as `field.path: what is wrong`; values are left out: not all of them are for a log."""
    problems = error.errors(include_input=False, include_url=False)
    told = [
        f"{'.'.join(str(part) for part in p['loc']) or 'plan'}: {first_line(p['msg'])}" for p in problems[:SHOWN_ERRORS]
    ]
    more = len(problems) - SHOWN_ERRORS
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")
