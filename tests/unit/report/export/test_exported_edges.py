"""What an export knows of its run where little is known: no server, no row, no version, no limit."""

from __future__ import annotations

import pytest
from benchrun.api import BenchmarkRunStatus
from benchrun.report.export.exported import engine_figures, only, server_version, trusted
from benchrun.report.export.run_tables import request_table
from unit.measure.records import edge
from unit.report.export.runs import (
    CAPPED,
    CELLS,
    CHAT,
    CHAT_AGAIN,
    FIRST,
    STAGES,
    failing,
    measured,
    row,
    run,
    stage,
    status,
)


@pytest.mark.parametrize(
    ("said", "in_status", "version"),
    [
        pytest.param(("0.33.0",), "0.32.0", "0.33.0", id="the-server-itself-before-the-status"),
        pytest.param((None,), "0.32.0", "0.32.0", id="else-the-status"),
        pytest.param((None, "0.33.0"), None, "0.33.0", id="any-server-that-says-it"),
        pytest.param((None,), None, None, id="nobody"),
        pytest.param((), "0.32.0", "0.32.0", id="no-servers"),
    ],
)
def test_the_version_is_what_the_server_said_of_itself(
    said: tuple[str | None, ...], in_status: str | None, version: str | None
) -> None:
    edges = tuple(edge().model_copy(update={"version": each}) for each in said)
    whole = run(measured(CHAT, servers=edges), of_status=status(version=in_status))
    assert server_version(whole, whole.stages[0]) == version


def test_without_a_server_in_the_status_there_is_none() -> None:
    whole = run(of_status=BenchmarkRunStatus())
    assert whole.server is None
    assert {each.verdict for each in whole.stages} == {"Unknown"}
    assert trusted(whole)[1] == dict.fromkeys(CELLS, "not judged")


def test_a_run_with_no_stage_left_has_no_cells() -> None:
    assert only(run(), []).stages == ()
    assert list(only(run(), []).cells()) == []


def test_a_cell_stands_where_its_first_stage_does_whatever_comes_between() -> None:
    late = run(*(measured(each) for each in (CAPPED, CHAT_AGAIN, FIRST, CHAT)))
    assert [(cell, [each.id for each in stages]) for cell, stages in late.cells()] == [
        (CELLS[1], [CAPPED]),
        (CELLS[0], [CHAT, CHAT_AGAIN]),
        (CELLS[2], [FIRST]),
    ]


def test_a_stage_without_a_limit_says_none() -> None:
    scalars = {name: value for name, value in measured(CHAT).scalars.items() if name != "max_concurrency"}
    (free,) = run(measured(CHAT, scalars=scalars)).stages
    assert (free.max_concurrency, free.request_rate) == (None, None)
    assert type(stage(CHAT).max_concurrency) is int, "the engine says 4.0"


def test_a_file_is_named_without_folders() -> None:
    assert [each.file_name for each in run().stages] == [each.replace("/", "-") for each in STAGES]


def test_an_instant_keeps_its_microseconds() -> None:
    (odd,) = run(
        measured(CHAT, first_send_unix_us=1_800_000_000_000_001, last_receive_unix_us=1_800_000_001_999_999)
    ).stages
    assert (odd.began.microsecond, odd.ended.microsecond) == (1, 999_999)


def test_the_engines_zeros_for_what_was_not_measured_are_not_passed_on() -> None:
    (gone,) = run(failing(CHAT, failed=24)).stages
    figures = engine_figures(gone)
    assert {value for name, value in figures.items() if name.endswith("_ms")} == {None}
    assert figures["total_input_tokens"] == measured(CHAT).scalars["total_input_tokens"]
    assert figures.keys() == measured(CHAT).scalars.keys()


def test_of_chunks_that_are_not_tokens_the_gaps_are_not_passed_on_and_the_rest_is() -> None:
    rows = [row(CELLS[0], "Suspect", ["ChunksAreNotTokens"])]
    (chunked,) = run(measured(CHAT), of_status=status(rows)).stages
    hidden = {name for name, value in engine_figures(chunked).items() if value is None and name.endswith("_ms")}
    assert hidden == {name for name in measured(CHAT).scalars if name.endswith("_itl_ms")}


def test_a_request_table_of_a_mixed_stage() -> None:
    table = request_table(run(failing(CHAT, failed=23)))
    ok = [values[[column.name for column in table.columns].index("ok")] for values in table.rows]
    assert ok == [True] + [False] * 23
