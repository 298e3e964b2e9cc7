"""What tests of commands share."""

from pathlib import Path

import pytest
from unit.cli.fake_kubectl import FakeKubectl


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    """The one on PATH, for this process and those it starts."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = FakeKubectl(folder)
    fake.install()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return fake
