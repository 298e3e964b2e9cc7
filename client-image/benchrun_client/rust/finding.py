"""Where vLLM's Rust client is: one binary that the vLLM package brings along in its builds for GPUs."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchrun_client.failures import RunFailure, first_line, shorten
from benchrun_client.rust.command import FLAGS

BINARY = "vllm-rs"
ANSWER_SECONDS = 30.0
_REMEDY = "Build the client image on one of vLLM for GPUs, 0.32 or newer, and name it in client.image; or leave client.engine at VLLM."


@dataclass(frozen=True, slots=True)
class Binary:
    """The program, and the version that it says it is."""

    path: Path
    version: str


def find_binary() -> Binary:
    """The client, looked for before a server is started for it, and asked whether it knows all that we will ask of it.

    Raises:
        RunFailure: `EngineMissing`, with the places looked in or what is wrong with the one found, and the remedy.
    """
    places = list(_places())
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        looked = " and ".join([*map(str, places), "PATH"])
        raise RunFailure("EngineMissing", f"the client image has no {BINARY} (looked in {looked}). {_REMEDY}")
    version = _said(path, "--version").split()
    known = _said(path, "bench", "serve", "--help").split()
    missing = [flag for flag in FLAGS if flag not in known]
    if missing or not version:
        raise RunFailure("EngineMissing", f"{path} ({' '.join(version)}) does not know {', '.join(missing)}. {_REMEDY}")
    return Binary(path, version[-1])


def _places() -> Iterator[Path]:
    """In the vLLM package, which is not imported for it; then as the shell would find it."""
    package = importlib.util.find_spec("vllm")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        yield Path(folder) / BINARY
    if found := shutil.which(BINARY):
        yield Path(found)


def _said(path: Path, *words: str) -> str:
    try:
        answer = subprocess.run(
            [path, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        why = first_line(error.stderr) or f"exit code {error.returncode}"
        raise RunFailure("EngineMissing", f"{path} {' '.join(words)}: {shorten(why, 300)}. {_REMEDY}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailure("EngineMissing", f"{path} does not run here: {first_line(error)}. {_REMEDY}") from error
    return answer.stdout
