"""`docs/faults.md`: every fault, what becomes of a run to which it happens, and how soon.

`docs/faults.json` has what the tests of faults measured last (`make faults`)."""

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

For whoever wonders what becomes of a run when something breaks. Each fault was brought about by a test against a real
API server; the seconds are what it measured last, on two cores, many runs at a time.

- **Told**: from what shows the fault (an event, an exit, a pod's status) to the run's status. At most 10 s, but
  for answers of a client that can't be used (20 s) and a watch that is silent (90 s).
- **GPU free**: from when the run is to end until its server is let go. At most 5 s, but for the same
  two, an API server that is slow, and a namespace, which Kubernetes itself clears. A dash: it held none, or keeps it.
- *Waits*: the status names the reason at once; the run ends if that lasts for so long. In the tests some waits are
  shorter than they are by default.
- An asterisk: with real pods; all others with pods whose status the test writes, in a kubelet's and the scheduler's
  place.
- Of the control plane: meanwhile the server runs out of memory; the seconds count from the end of the fault, or of one
  that lasts from its beginning.

"""
_COLUMNS = "| fault | state | reason | waits | told | GPU free |\n|---|---|---|---|---|---|\n"


def faults_text(rows: Iterable[Row]) -> str:
    """Return the page: a table for each family, its rows in the order of the catalogue."""
    listed = list(rows)
    tables = (
        f"## {title}\n\n{_COLUMNS}{_lines(row for row in listed if row['family'] == family)}"
        for family, title in FAMILIES.items()
    )
    return _HEAD + "\n".join(tables)


def _lines(rows: Iterable[Row]) -> str:
    return "".join(f"| {' | '.join(_cells(row))} |\n" for row in rows)


def _cells(row: Row) -> tuple[str, ...]:
    real = " *" if row["tried"] == "real" else ""
    first = row["waits_as"]
    reason = f"{first}, then {row['reason']}" if first not in ("", row["reason"]) else row["reason"]
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
