"""Fixtures shared by the tests of commands."""

from pathlib import Path

import pytest
from unit.cli.fake_kubectl import FakeKubectl


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    """Install the scripted kubectl on PATH, for this process and those it starts."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = FakeKubectl(folder)
    fake.install()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return fake
