"""A hook for golden messages: every test may check its messages with `golden(message)`."""

from collections.abc import Iterator

import pytest
from unit import golden_messages


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Tell golden_messages which test runs, and check that all of its messages came."""
    golden_messages.begin(item)
    yield
    golden_messages.end()
