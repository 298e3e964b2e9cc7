"""A file that is one JSON value as a whole, each fault named with its line."""

from __future__ import annotations

import json
from typing import Any

from benchrun_client.datasets.lines import not_utf8
from benchrun_client.failures import RunFailure


def json_value(content: bytes, *, name: str, should_be: str) -> Any:
    """What the content of a file holds. `should_be`: a sentence that says what is expected of it, for the message.

    Raises:
        RunFailure: `DatasetInvalid`, naming line and place in it.
    """
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise RunFailure(
            "DatasetInvalid", f"{name}, line {error.lineno}, column {error.colno}: {error.msg}. {should_be}"
        ) from error
    except UnicodeDecodeError as error:
        raise not_utf8(error, name=name) from error
    except RecursionError as error:
        raise RunFailure("DatasetInvalid", f"{name}: nested too deeply") from error
