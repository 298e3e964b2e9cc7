"""`benchrun explain`: the pages of findings, from a checkout and from an installed package; no
cluster is asked."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from benchrun.cli.__main__ import main
from benchrun.judge.rules.rule import Code
from unit.golden_messages import golden

Capture = pytest.CaptureFixture[str]
REPOSITORY = Path(__file__).parents[3]
PAGES = REPOSITORY / "docs/findings"


@pytest.mark.parametrize(
    "name", ["PrefixCacheContaminated", "prefixcachecontaminated"]
)
def test_the_page_of_a_code_is_printed_as_it_is_written(
    name: str, capsys: Capture
) -> None:
    assert main(["explain", name]) == 0
    written = (PAGES / "PrefixCacheContaminated.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == written


def test_a_terminal_gets_it_laid_out(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["explain", "Preempted"]) == 0
    output = capsys.readouterr().out
    assert "What it means" in output
    assert "## What it means" not in output


def test_the_list_names_every_code_with_severity_and_a_line(
    capsys: Capture,
) -> None:
    assert main(["explain"]) == 0
    output = capsys.readouterr().out.splitlines()
    first_words = [
        line.split()[0] for line in output[1:] if line and not line.startswith(" ")
    ]
    assert first_words == [code.value for code in Code]
    row = next(line for line in output if line.startswith("OutputTooShort"))
    assert row.split()[1:4] == ["Suspect", "or", "Invalid"]
    golden(row)


def test_an_unknown_code_is_an_error_that_names_the_nearest(
    capsys: Capture,
) -> None:
    assert main(["explain", "PrefixCacheHits"]) == 1
    output = " ".join(capsys.readouterr().err.split())
    assert "did you mean PrefixCacheContaminated" in output


def test_a_name_like_none_is_answered_with_all(capsys: Capture) -> None:
    assert main(["explain", "../../etc/passwd"]) == 1
    output = " ".join(capsys.readouterr().err.split())
    assert "did you mean" not in output
    assert all(code.value in output for code in Code)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    read_end, writing = os.pipe()
    os.close(read_end)
    try:
        command = [
            sys.executable,
            "-m",
            "benchrun.cli.__main__",
            "explain",
            "Drift",
        ]
        ended = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_package_brings_the_pages_along(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path),
    ]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    # In isolation from this checkout but for its dependencies: the pages must come from the
    # package.
    probe = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "from benchrun.cli.commands import explain\n"
        f"assert explain.__file__.startswith({str(installed)!r}), explain.__file__\n"
        "print(*(page.code for page in explain.pages()))"
    )
    output = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert output.stdout.split() == [code.value for code in Code]


def test_the_operators_image_copies_the_pages_to_where_they_are_looked_for() -> (
    None
):
    dockerfile = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    assert "COPY operator/benchrun /app/src/benchrun\n" in dockerfile
    assert "COPY docs/findings /app/src/benchrun/findings\n" in dockerfile
    assert "!docs/findings\n" in (REPOSITORY / ".dockerignore").read_text(
        encoding="utf-8"
    )
