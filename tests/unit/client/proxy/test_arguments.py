"""The command line."""

from __future__ import annotations

import pytest
from benchrun_client.proxy.port import MAX_IN_FLIGHT, Arguments, parse

BOTH = ["--prefill=http://p:8000/", "--decode=http://d:8000"]


def test_two_names_are_enough() -> None:
    assert parse(BOTH) == Arguments(
        prefill="http://p:8000",
        decode="http://d:8000",
        prefill_replicas=None,
        decode_replicas=None,
        address="0.0.0.0",
        port=8000,
        max_in_flight=MAX_IN_FLIGHT,
    )


def test_everything_can_be_said() -> None:
    said = ["--prefill-replicas=2", "--decode-replicas=3", "--address=::", "--port=1", "--max-in-flight=4"]
    found = parse([*BOTH, *said])
    assert (found.prefill_replicas, found.decode_replicas) == (2, 3)
    assert (found.address, found.port, found.max_in_flight) == ("::", 1, 4)


@pytest.mark.parametrize(
    "words",
    [
        [],
        BOTH[:1],
        [*BOTH, "--max-in-flight=0"],
        [*BOTH, "--prefill-replicas=0"],
        [*BOTH, "--port=x"],
        [*BOTH, "--foo"],
        *([BOTH[0], f"--decode={url}"] for url in ("d:8000", "https://d", "http://", "http://u:p@d", "http://d/x", "")),
    ],
)
def test_what_makes_no_sense_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err
