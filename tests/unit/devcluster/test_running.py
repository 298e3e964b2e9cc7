"""Running programs: what comes back, and how a failure reads."""

from pathlib import Path

import pytest

from devcluster.reporting import DevclusterError
from devcluster.running import run, succeeds, wait_until


def test_output_comes_back_and_input_goes_in(tmp_path: Path) -> None:
    assert run("cat", text="in and out") == "in and out"
    assert run("pwd", folder=tmp_path).strip() == str(tmp_path)
    assert run("sh", "-c", "echo $MARK", extra={"MARK": "here"}) == "here\n"


def test_a_failure_reads_as_one_line_with_the_last_of_what_was_said() -> None:
    with pytest.raises(DevclusterError, match=r"^sh failed with 3: the reason$"):
        run("sh", "-c", "echo some context >&2; echo the reason >&2; exit 3")


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(DevclusterError, match="there is no program no-such-program"):
        run("no-such-program", "--version")
    assert not succeeds("no-such-program")


def test_what_is_shown_goes_to_stderr_so_that_stdout_stays_clean(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("sh", "-c", "echo out; echo err >&2", shown=True) == ""
    assert capfd.readouterr() == ("", "out\nerr\n")


def test_waiting_ends_with_the_condition_or_with_the_remedy() -> None:
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), what="it", timeout_seconds=5, remedy="none needed")
    with pytest.raises(DevclusterError, match=r"^it: not within 0 s; look there$"):
        wait_until(lambda: False, what="it", timeout_seconds=0, remedy="look there")
