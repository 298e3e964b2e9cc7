"""The operator's image is made of what the project pins."""

import re
import tomllib

from chart.rendering import REPOSITORY

LOCK = (REPOSITORY / "requirements" / "operator.txt").read_text()
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;\\]+)", re.MULTILINE)


def test_the_lock_holds_every_version_the_project_pins() -> None:
    locked = {pin["name"]: pin["version"] for pin in PIN.finditer(LOCK)}
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["operator"]
    for requirement in wanted:
        name = re.split(r"[=<>!~ ;\[]", requirement)[0]
        assert name in locked, (
            f"{name} is not locked; run the command in the first lines of requirements/operator.txt"
        )
        if pinned := PIN.match(requirement):
            assert locked[name] == pinned["version"]


def test_every_locked_distribution_has_a_hash() -> None:
    entries = re.split(r"^(?=[a-z0-9-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert [
        entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry
    ] == []


def test_the_lock_names_no_index() -> None:
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", LOCK)
