"""`docs/faults.md`: every fault, what happens to a run that it hits, and how soon.

`docs/faults.json` has the latest measurements of the fault tests (`make faults`).
"""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
FAMILIES = {
    "server": "Servers",
    "client": "Clients",
    "refusal": "What the API server refuses",
    "control plane": "The control plane",
}
_HEAD = """\
# Faults

What becomes of a run when something breaks, and how soon. Tests bring each fault about against a \
real API server; the
seconds are what they measured last, on two cores, with some thirty runs at a time.

- **state, reason**: what the run's status says in the end; \
of a run that goes on, what it says meanwhile. "A, then B": A
  at once, B when the run ends.
- **waits**: how long that has to last until the run ends. Deadlines are shorter in these tests \
than they are by default.
- **told**: from the first sign in the cluster (an event, an exit, \
a deadline) until the status says it. At most 10 s.
- **GPU free**: from when the run has to end until the deletion of its server is under way. \
At most 5 s, but for a namespace.
  A dash: it held no GPU, or keeps it.
- An asterisk: tried with real pods. For the others the test writes the pods' status, \
as a kubelet and a scheduler do.

"""
_NOTES = {
    "client": (
        "Answers that can't be used (another contract, another run, a stage twice) end the run "
        "when three come in a row, within 4 s."
    ),
    "control plane": (
        "While each of these lasts, the server runs out of memory; in the rows that end as "
        "Completed, the run is measured to its end. The seconds count from when the fault is over, "
        "or when the operator is ready again; if the fault stays, from the end of the server.\n\n"
        "- *The namespace is deleted*: Kubernetes deletes its content itself, in its own order; "
        "within 15 s.\n"
        "- *Every watch falls silent*: once a server or client that has answered answers no more, "
        "its pods are looked at. Of pods that have never answered, a silent watch is noticed after "
        "70 s."
    ),
}
_COLUMNS = "| fault | state | reason | waits | told | GPU free |\n|---|---|---|---|---|---|\n"


def faults_text(rows: Iterable[Row]) -> str:
    """Return the page: a table for each family, its rows in the order of the catalogue."""
    listed = list(rows)
    tables = (
        f"## {title}\n\n{_note(family)}{_COLUMNS}"
        f"{_lines(row for row in listed if row['family'] == family)}"
        for family, title in FAMILIES.items()
    )
    return _HEAD + "\n".join(tables)


def _note(family: str) -> str:
    return f"{_NOTES[family]}\n\n" if family in _NOTES else ""


def _lines(rows: Iterable[Row]) -> str:
    return "".join(f"| {' | '.join(_cells(row))} |\n" for row in rows)


def _cells(row: Row) -> tuple[str, ...]:
    real = " *" if row["tried"] == "real" else ""
    first = row["waits_as"]
    reason = (
        f"{first}, then {row['reason']}"
        if first not in ("", row["reason"])
        else row["reason"]
    )
    waits = f"{row['waits_seconds']:g} s" if row["waits_seconds"] else ""
    return (
        f"{row['what']}{real}",
        row["phase"],
        reason,
        waits,
        _seconds(row["told_seconds"]),
        _seconds(row["freed_seconds"]),
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"
