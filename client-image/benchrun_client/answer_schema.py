"""Whether answers keep the JSON schema that their requests give: a sample is checked."""

import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchrun_client.contract import AnswerCheck
from benchrun_client.failures import shorten

MAX_CHECKED = 64  # Answers of a stage that are checked.
MAX_CHARACTERS = 32_768
"""Longest answer that is checked: 64 of them take a second."""
MAX_WHERE = 120
MAX_CHECK_SECONDS = 20.0
"""Most CPU that the check of a stage takes. Usual schemas take far less."""

Keyword = Callable[..., Any]
"""What the library calls for a keyword of a schema."""


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


def checked(
    answers: Sequence[str], schema: str, *, seconds: float = MAX_CHECK_SECONDS
) -> AnswerCheck | None:
    """Check answers against a schema; None if the schema, or none of them, can be checked.

    After `seconds` of CPU the rest is left out: schemas can be written that take for ever.
    Patterns of texts and names are not checked, nor what depends on them: an expression can take
    for ever as well.
    """
    until = time.process_time() + seconds
    found = []
    try:
        validator = _validator(json.loads(schema), until)
        if validator is None:
            return None
        for text in answers:
            try:
                found.append(_problem(text, validator))
            except TimeoutError:
                break
            # Nested too deep, or a reference that leads nowhere: the library raises what it likes.
            except Exception:
                continue
    except RecursionError:  # The schema itself is nested too deep.
        return None
    if answers and not found:
        return None
    broken = [problem for problem in found if problem is not None]
    return AnswerCheck(
        checked=len(found),
        broken=len(broken),
        where=broken[0] if broken else None,
    )


def _validator(schema: Mapping[str, Any], until: float) -> Any:
    """Return a validator of a schema; None if the schema is not valid.

    Once `process_time` has passed `until`, every check raises TimeoutError. The validator downloads
    nothing. The library comes with vLLM, which needs it as well; return None if an image lacks it.
    """
    try:
        library = importlib.import_module("jsonschema")
    except ImportError:
        return None
    usual = library.Draft202012Validator
    try:
        usual.check_schema(schema)
    except library.SchemaError:
        return None

    def in_time(keyword: Keyword) -> Keyword:
        def run(*asked: Any) -> Any:
            if time.process_time() > until:
                raise TimeoutError
            return keyword(*asked)

        return run

    keywords = {**usual.VALIDATORS, **_own_keywords(library)}
    timed = {name: in_time(keyword) for name, keyword in keywords.items()}
    nothing = importlib.import_module("referencing").Registry()
    return library.validators.extend(usual, timed)(schema, registry=nothing)


def _own_keywords(library: Any) -> Mapping[str, Keyword]:
    """Return our own checks for the keywords that the library checks slowly; some check nothing."""

    def unique(_: Any, wanted: bool, entries: Any, __: Any) -> Iterator[Any]:
        # The library compares each entry with each other one.
        if wanted and isinstance(entries, list):
            texts = {json.dumps(each, sort_keys=True) for each in entries}
            if len(texts) < len(entries):
                yield library.ValidationError("entries are equal")

    def additional(
        validator: Any, wanted: Any, value: Any, of: Mapping[str, Any]
    ) -> Any:
        # The library tries the patterns on every name.
        keyword = library.Draft202012Validator.VALIDATORS["additionalProperties"]
        is_open = "patternProperties" in of
        return () if is_open else keyword(validator, wanted, value, of)

    return {
        "additionalProperties": additional,
        "pattern": _unchecked,
        "patternProperties": _unchecked,
        "unevaluatedProperties": _unchecked,
        "uniqueItems": unique,
    }


def _unchecked(*_: object) -> tuple[()]:
    return ()


def _no_json(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _problem(text: str, validator: Any) -> str | None:
    """Return where an answer breaks the schema, without its words; None if it keeps it."""
    try:
        document = json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return "the whole: it is not JSON"
    error = next(validator.iter_errors(document), None)
    if error is None:
        return None
    return shorten(f"{error.json_path}: {error.validator}", MAX_WHERE)
