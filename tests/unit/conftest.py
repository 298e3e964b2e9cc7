"""Every test may hold messages against its golden file: `golden(message)`."""

from collections.abc import Iterator

import pytest
from unit import golden_messages


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Say which test runs, and that all of its messages came."""
    golden_messages.begin(item)
    yield
    golden_messages.end()
