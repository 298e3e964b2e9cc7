"""Whoever waits for a thread's words gets one, whatever goes wrong in it."""

from __future__ import annotations

from queue import SimpleQueue

import pytest
from benchrun.cli.errors import KubectlError
from benchrun.cli.processes import FollowedProcess


class Failing(FollowedProcess):
    def __init__(self, error: Exception) -> None:
        super().__init__("failing")
        self._error = error
        self.told = SimpleQueue[KubectlError]()

    def _until_the_end(self) -> None:
        raise self._error

    def _failed(self, error: KubectlError) -> None:
        self.told.put(error)


def test_trouble_with_kubectl_is_told_as_it_is() -> None:
    error = KubectlError("no such run", "NotFound")
    failing = Failing(error)
    failing.start()
    assert failing.told.get(timeout=10) is error
    failing.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_our_own_is_told_too_and_nobody_waits_for_ever() -> None:
    failing = Failing(ValueError("a pod without a name"))
    failing.start()
    assert str(failing.told.get(timeout=10)) == "ValueError: a pod without a name"
    failing.stop()


def test_one_that_never_began_can_be_stopped() -> None:
    failing = Failing(ValueError("never raised"))
    failing.stop()
    assert failing.told.empty()
