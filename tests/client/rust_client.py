"""vLLM's client in Rust, as a client image has it: here it is first on the PATH, since the CPU build of vLLM lacks it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from client.processes import CACHE

RUST_CLIENT = CACHE / "vllm-rs" / "vllm-rs"


@contextmanager
def rust_client_on_path() -> Iterator[None]:
    """For every client started within."""
    if not RUST_CLIENT.exists():
        pytest.fail(f"{RUST_CLIENT} is missing: `python3 devcluster vllm-rs` fetches it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{RUST_CLIENT.parent}:{os.environ['PATH']}")
        yield
