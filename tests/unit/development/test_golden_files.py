"""The golden files hold messages of tests that exist."""

import re
from pathlib import Path

import yaml

UNIT = Path(__file__).parents[1]


def test_every_kept_message_is_of_a_test() -> None:
    stale = []
    for file in (UNIT / "golden").glob("*.yaml"):
        for module, tests in yaml.safe_load(
            file.read_text(encoding="utf-8")
        ).items():
            source = UNIT / file.stem / f"{module.replace('.', '/')}.py"
            names = (
                set(
                    re.findall(
                        r"def (test_\w+)", source.read_text(encoding="utf-8")
                    )
                )
                if source.exists()
                else set()
            )
            stale += [
                f"{file.name}: {module}: {test}"
                for test in tests
                if test.partition("[")[0] not in names
            ]
    assert stale == []
