"""Parquet, read back by pyarrow."""

import io
import sys
from datetime import UTC
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from benchrun.report.export.csv_parquet import (
    replica_table,
    request_table,
    server_table,
    stage_table,
)
from benchrun.report.export.encoders import (
    RUN_KEY,
    ExportTable,
    NotExportable,
    as_parquet,
)
from unit.report.export.runs import (
    CHAT,
    FIRST,
    LOAD_POINTS,
    UID,
    failing,
    measured,
    row,
    run,
    status,
)


def back(table: ExportTable) -> Any:
    return pyarrow.parquet.read_table(io.BytesIO(as_parquet(table, run_uid=UID)))


@pytest.mark.parametrize(
    "make", [stage_table, server_table, replica_table, request_table]
)
def test_values_come_back_as_they_were(make: Any) -> None:
    judged = [row(LOAD_POINTS[0], "Suspect", ["Drift", "TooFewSamples"])]
    table = make(
        run(measured(CHAT), failing(FIRST, failed=2), of_status=status(judged))
    )
    read = back(table)
    assert read.column_names == [column.name for column in table.columns]
    for values, known in zip(
        zip(*(column.to_pylist() for column in read.columns), strict=True),
        table.rows,
        strict=True,
    ):
        assert [list(v) if isinstance(v, tuple) else v for v in known] == list(
            values
        )


def test_a_column_has_its_type_even_where_all_is_unknown() -> None:
    types = {
        field.name: str(field.type)
        for field in back(stage_table(run(failing(CHAT, failed=24)))).schema
    }
    assert {
        name: types[name]
        for name in ("mean_ttft_ms", "completed", "findings", "began", "stage")
    } == {
        "mean_ttft_ms": "double",
        "completed": "int64",
        "findings": "list<element: string>",
        "began": "timestamp[us, tz=UTC]",
        "stage": "string",
    }


def test_an_unknown_number_is_null() -> None:
    column = back(stage_table(run(measured(FIRST)))).column("mean_tpot_ms")
    assert (column.null_count, column.to_pylist()) == (1, [None])


def test_instants_are_of_one_time_zone() -> None:
    (began,) = back(stage_table(run(measured(CHAT)))).column("began").to_pylist()
    assert began.astimezone(UTC).isoformat() == "2027-01-15T08:00:00.250000+00:00"


def test_the_file_itself_says_whose_it_is() -> None:
    assert back(request_table(run())).schema.metadata[RUN_KEY] == UID.encode()


def test_a_table_without_rows_keeps_its_columns() -> None:
    empty = ExportTable(stage_table(run()).columns, [])
    assert (back(empty).num_rows, back(empty).num_columns) == (
        0,
        len(empty.columns),
    )


def test_without_pyarrow_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        NotExportable, match=r"pipx install --force '\.\[report,export\]'"
    ):
        as_parquet(stage_table(run()), run_uid="u")
