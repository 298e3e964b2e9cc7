"""Tables as Parquet, by pyarrow: an extra of the command, `pip install 'benchrun-operator[export]'`."""

from __future__ import annotations

import io
from typing import Any

from benchrun.report.export.files import NotExportable
from benchrun.report.export.table import Kind, Table

RUN_KEY = b"benchrun.run_uid"
"""In the file's own metadata."""


def as_parquet(table: Table, *, run_uid: str) -> bytes:
    """Every column has its type even where all its values are null. Raises NotExportable without pyarrow."""
    try:
        # Fifty megabytes to download, for this format alone.
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise NotExportable("Parquet takes pyarrow: pip install 'benchrun-operator[export]'") from error
    schema = pyarrow.schema(
        [(column.name, _type(pyarrow, column.kind)) for column in table.columns], metadata={RUN_KEY: run_uid.encode()}
    )
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    arrays = [pyarrow.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(arrays, schema=schema), buffer)
    return buffer.getvalue()


def _type(pyarrow: Any, kind: Kind) -> Any:
    types = {
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
        "instant": pyarrow.timestamp("us", tz="UTC"),
    }
    return types[kind]
