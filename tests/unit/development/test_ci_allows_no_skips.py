"""`.ci/run` fails when a check was skipped, wherever the skip was said, and says which."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from unit.development.commands import ROOT, typed

PASSES = "def test_passes(): assert True\n"
SKIPPED = {
    "in_a_test": "import pytest\ndef test_absent(): pytest.skip('no cluster')\n",
    "in_a_fixture": (
        "import pytest\n@pytest.fixture\ndef gpu(): pytest.skip('no GPU')\ndef test_absent(gpu): "
        "pass\n"
    ),
    "by_a_mark": (
        "import pytest\n@pytest.mark.skipif(True, reason='no GPU')\ndef test_absent(): pass\n"
    ),
    "expected_to_fail": (
        "import pytest\n@pytest.mark.xfail(reason='later')\ndef test_absent(): assert False\n"
    ),
    "a_whole_file": (
        "import pytest\npytest.importorskip('no_such_module')\ndef test_absent(): pass\n"
    ),
}


def ran(
    folder: Path, tests: Mapping[str, str], *, options: str = ""
) -> subprocess.CompletedProcess[str]:
    """What came of the project's own CI script, with its own pytest hooks and these tests."""
    for file in (".ci/run", "tests/conftest.py"):
        (folder / file).parent.mkdir()
        shutil.copy(ROOT / file, folder / file)
    for name, text in tests.items():
        (folder / f"tests/test_{name}.py").write_text(text)
    (folder / "Makefile").write_text(
        f".PHONY: test\ntest:\n\t{sys.executable} -m pytest {options} "
        "tests\ndevcluster-down:\n\ttouch taken-down\n"
    )
    return typed(".ci/run", folder=folder)


@pytest.mark.parametrize(
    "options", ["", "--numprocesses=2"], ids=["one process", "several"]
)
def test_every_way_to_skip_fails_the_check_by_name(
    tmp_path: Path, options: str
) -> None:
    done = ran(tmp_path, {"passes": PASSES, **SKIPPED}, options=options)
    assert done.returncode != 0
    (message,) = [
        line
        for line in done.stdout.splitlines()
        if line.startswith("skipped, which CI does not allow:")
    ]
    assert set(re.findall(r"tests/test_(\w+)\.py", message)) == SKIPPED.keys()
    assert (tmp_path / "taken-down").exists()


def test_nothing_skipped_passes_and_takes_the_cluster_down(tmp_path: Path) -> None:
    done = ran(tmp_path, {"passes": PASSES})
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert (tmp_path / "taken-down").exists()
