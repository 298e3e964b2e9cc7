"""Where the Rust client is looked for, and what is said where it is not, or is of no use. Programs here are small scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchrun_client.failures import RunFailure
from benchrun_client.rust import finding
from benchrun_client.rust.command import FLAGS
from benchrun_client.rust.finding import Binary, find_binary

HELP = " ".join(FLAGS)


@pytest.fixture(autouse=True)
def _empty_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)


def program(folder: Path, *, version: str = "vllm-rs 0.32.0", flags: str = HELP, code: int = 0) -> Path:
    file = folder / "vllm-rs"
    file.write_text(f'#!/bin/sh\ncase "$1" in --version) echo {version};; *) echo {flags};; esac\nexit {code}\n')
    file.chmod(0o755)
    return file


def test_it_is_found_on_the_path_with_the_version_it_tells(tmp_path: Path) -> None:
    file = program(tmp_path)
    assert find_binary() == Binary(file, "0.32.0")


def test_the_one_of_the_vllm_package_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, version="vllm-rs 0.1.0")
    package = tmp_path / "vllm"
    package.mkdir()

    class Spec:
        submodule_search_locations = (str(package),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec if name == "vllm" else None)
    # A package without it, as that of the CPU build, leaves the one on the path.
    assert find_binary().version == "0.1.0"
    file = program(package)
    assert find_binary() == Binary(file, "0.32.0")


def refusal() -> str:
    with pytest.raises(RunFailure) as raised:
        find_binary()
    assert raised.value.reason == "EngineMissing"
    assert raised.value.exit_code == 2
    assert "client.image" in raised.value.message
    assert "client.engine" in raised.value.message
    return raised.value.message


def test_where_it_is_missing_the_places_are_named() -> None:
    assert "looked in PATH" in refusal()


def test_one_that_knows_less_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    program(tmp_path, flags=HELP.replace("--custom-output-len", ""))
    assert "(vllm-rs 0.32.0) does not know --custom-output-len." in refusal()


def test_one_that_fails_is_quoted(tmp_path: Path) -> None:
    file = program(tmp_path)
    file.write_text('#!/bin/sh\necho "GLIBC_2.38 not found" >&2\nexit 3\n')
    assert "GLIBC_2.38 not found" in refusal()


def test_one_for_another_machine_is_told(tmp_path: Path) -> None:
    program(tmp_path).write_bytes(b"\x7fELF of another machine")
    assert "does not run here" in refusal()


def test_one_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "ANSWER_SECONDS", 0.2)
    program(tmp_path).write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    assert "does not run here" in refusal()
