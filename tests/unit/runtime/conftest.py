"""Fixtures in which reconciling begins."""

import pytest
from unit.runtime.scene import Scene


@pytest.fixture
async def scene() -> Scene:
    made = Scene()
    await made.listed()
    return made
