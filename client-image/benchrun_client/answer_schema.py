"""Whether answers keep the JSON schema that their requests give: a sample is checked. Pure."""

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchrun_client.contract import AnswerCheck
from benchrun_client.failures import shorten

MAX_CHECKED = 64  # Answers of a stage that are checked.
MAX_CHARACTERS = 32_768
"""Longest answer that is checked: 64 of them take a second."""
MAX_WHERE = 120


def sampled(
    texts: Sequence[str], stopped: Sequence[bool], ok: Sequence[bool]
) -> tuple[str, ...]:
    """Return some of the answers that the model ended itself, evenly spread over the stage.

    An answer that was cut off at its greatest length is no sign: it is half a document.
    """
    whole = [
        text
        for text, ended, answered in zip(texts, stopped, ok, strict=True)
        if ended and answered and len(text) <= MAX_CHARACTERS
    ]
    if len(whole) <= MAX_CHECKED:
        return tuple(whole)
    step = (len(whole) - 1) / (MAX_CHECKED - 1)
    return tuple(whole[round(step * place)] for place in range(MAX_CHECKED))


def checked(answers: Sequence[str], schema: str) -> AnswerCheck | None:
    """Check answers against a schema; None if the schema itself can't be read.

    Patterns of texts are not checked: an expression can take for ever.
    """
    validator = _validator(json.loads(schema))
    if validator is None:
        return None
    try:
        problems = [_problem(text, validator) for text in answers]
    # A reference that leads nowhere, or for ever: the library raises what it likes.
    except Exception:
        return None
    broken = [problem for problem in problems if problem is not None]
    return AnswerCheck(
        checked=len(answers),
        broken=len(broken),
        where=broken[0] if broken else None,
    )


def _validator(schema: Mapping[str, Any]) -> Any:
    """Return a validator that fetches nothing; None if the schema is none.

    The library comes with vLLM, which needs it as well; None if an image lacks it.
    """
    try:
        library = importlib.import_module("jsonschema")
    except ImportError:
        return None
    kind = library.validators.extend(
        library.Draft202012Validator,
        {"pattern": _unchecked, "patternProperties": _unchecked},
    )
    try:
        kind.check_schema(schema)
    except library.SchemaError:
        return None
    nothing = importlib.import_module("referencing").Registry()
    return kind(schema, registry=nothing)


def _unchecked(*_: object) -> tuple[()]:
    return ()


def _problem(text: str, validator: Any) -> str | None:
    """Return where an answer breaks the schema, without its words; None if it keeps it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return "the whole: it is not JSON"
    error = next(validator.iter_errors(document), None)
    if error is None:
        return None
    return shorten(f"{error.json_path}: {error.validator}", MAX_WHERE)
