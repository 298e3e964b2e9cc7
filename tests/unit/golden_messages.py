"""Messages that users see, word for word, in one golden file. Other tests look at codes, fields and numbers.

After a wanted change: `UPDATE_GOLDEN=1 pytest` with the tests that fail, in one process; then read the diff.
"""

import os
from pathlib import Path

import pytest
import yaml

GOLDEN = Path(__file__).parent / "cli" / "golden" / "messages.yaml"


def assert_golden(surface: str, case: str, *messages: str) -> None:
    """These are the messages of the case."""
    known = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_GOLDEN"):
        known.setdefault(surface, {})[case] = list(messages)
        GOLDEN.write_text(yaml.safe_dump(known, width=120, allow_unicode=True), encoding="utf-8")
        pytest.fail(f"{GOLDEN.name} was written; read its diff")
    assert known[surface][case] == list(messages)
