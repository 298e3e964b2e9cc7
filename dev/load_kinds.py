"""The table of loads for `docs/how-to.md`: each field that lists loads, and what its kind says."""

from collections.abc import Iterator

from benchrun.api.base import json_name
from benchrun.api.workloads import LoadSpec
from benchrun_client.contract import KINDS


def table() -> str:
    """Return the table as Markdown, one row for each field of a spec's `load` that lists loads."""
    head = "| `load` | a row of the results | what is sent | steady part |\n|---|---|---|---|\n"
    return head + "".join(_rows())


def _rows() -> Iterator[str]:
    fields = LoadSpec.model_json_schema(by_alias=True)["properties"]
    for kind in KINDS:
        # All at once is a value of the request rates, no field of its own.
        if kind.varied is not None:
            field = json_name(kind.listed_in)
            sent = " ".join(fields[field]["description"].split())
            steady = "yes" if kind.no_plateau is None else f"no: {kind.no_plateau}"
            row = f"`{kind.name_in_ids}=...`, {kind.unit_in_words}"
            yield f"| `{field}` | {row} | {sent} | {steady} |\n"
