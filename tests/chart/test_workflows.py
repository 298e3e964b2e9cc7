"""The workflows of CI and releases: as actionlint reads them, and their scripts as they run."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from chart.rendering import REPOSITORY
from kit.tools import tool

WORKFLOWS = REPOSITORY / ".github" / "workflows"
FILES = sorted(WORKFLOWS.iterdir())
DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def test_actionlint_finds_nothing() -> None:
    assert FILES
    assert tool("actionlint", "-no-color", *FILES, folder=REPOSITORY) == ""


def workflow(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text())
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_part_of_a_pipe_that_fails_fails_the_step(file: Path) -> None:
    """Only a shell that is named gets `pipefail`."""
    assert workflow(file)["defaults"]["run"]["shell"] == "bash"


def script(job: str, name: str) -> str:
    """The script of a step of the release."""
    steps = workflow(WORKFLOWS / "release.yaml")["jobs"][job]["steps"]
    (found,) = (step["run"] for step in steps if step.get("name") == name)
    return str(found)


def run(text: str, folder: Path, **environment: str) -> int:
    """Run a script as a runner does, with the programs of `bin` before all others."""
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    given = {**os.environ, "PATH": path, **environment}
    return subprocess.run(command, cwd=folder, env=given, check=False).returncode


def stands_in(folder: Path, name: str, text: str = "") -> None:
    """Put a program into `bin` that notes how it was called."""
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/bash\necho "$(basename "$0") $*" >> calls\n{text}')
    program.chmod(0o755)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_a_release_is_named_by_its_version_and_an_owner_without_capitals(
    tmp_path: Path,
) -> None:
    text = script("version", "The tag is the project's version")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    out = tmp_path / "out"
    given = {"GITHUB_OUTPUT": str(out), "GITHUB_REPOSITORY_OWNER": "Bench-RUN"}
    assert run(text, tmp_path, GITHUB_REF_NAME="v1.2.4", **given) == 1
    assert not out.exists()
    assert run(text, tmp_path, GITHUB_REF_NAME="v1.2.3", **given) == 0
    assert out.read_text() == "version=1.2.3\nregistry=ghcr.io/bench-run\n"


def test_both_architectures_get_one_name_which_is_signed_by_digest(
    tmp_path: Path,
) -> None:
    for image in ("operator", "client"):
        for runner in ("ubuntu-24.04", "ubuntu-24.04-arm"):
            folder = tmp_path / "digests" / f"digests-{image}-{runner}"
            folder.mkdir(parents=True)
            (folder / f"{len(image)}{len(runner)}").touch()
    written = json.dumps({"containerimage.descriptor": {"digest": DIGEST}})
    stands_in(
        tmp_path,
        "docker",
        f'while [ "$1" != --metadata-file ]; do shift; done; echo \'{written}\' > "$2"\n',
    )
    stands_in(tmp_path, "cosign")
    text = script(
        "publish", "One name for both architectures of each image, signed"
    )
    given = {"REGISTRY": "ghcr.io/us", "VERSION": "1.2.3"}
    assert run(text, tmp_path, **given) == 0
    made, signed, *_ = calls(tmp_path)
    assert "--tag ghcr.io/us/operator:1.2.3" in made
    parts = {f"ghcr.io/us/operator@sha256:{each}" for each in (812, 816)}
    assert set(made.split()[-2:]) == parts
    assert signed == f"cosign sign --yes ghcr.io/us/operator@{DIGEST}"
    assert (tmp_path / "digests.txt").read_text().splitlines() == [
        f"--digest operator={DIGEST}",
        f"--digest client={DIGEST}",
    ]
    stands_in(tmp_path, "docker", "echo '{}' > operator.json\n")
    assert run(text, tmp_path, **given) != 0


@pytest.mark.parametrize("fails", [False, True])
def test_the_chart_is_signed_by_the_digest_that_was_pushed(
    tmp_path: Path, fails: bool
) -> None:
    said = f"Pushed: ghcr.io/us/charts/benchrun:1.2.3\\nDigest: {DIGEST}\\n"
    pushes = "exit 1" if fails else f"printf '{said}' >&2"
    stands_in(tmp_path, "helm", f'[ "$1" != push ] || {{ {pushes}; }}\n')
    stands_in(tmp_path, "cosign")
    text = script("publish", "The chart as an OCI artifact, signed")
    given = {"REGISTRY": "ghcr.io/us", "VERSION": "1.2.3"}
    given |= {"GITHUB_ACTOR": "someone", "GITHUB_TOKEN": "t"}
    assert (run(text, tmp_path, **given) != 0) == fails
    signed = f"cosign sign --yes ghcr.io/us/charts/benchrun@{DIGEST}"
    assert (signed in calls(tmp_path)) != fails
