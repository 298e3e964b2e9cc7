"""What a finished run did not keep of its measurement, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.api.status import BenchmarkRunStatus


def missing_sentences(stored: BenchmarkRunStatus, missing: Mapping[str, int]) -> list[str]:
    """`missing`: records that were judged once and are gone, by cell."""
    repeats = {row.cell: row.repeats for row in stored.results}
    told = [_of_cell(cell, lost, judged=repeats.get(cell)) for cell, lost in missing.items()]
    timeline = next((each for each in stored.truncated if each.field == "timeline"), None)
    if timeline is not None:
        told.append(
            f"{timeline.included} of {timeline.total} chunks of the timeline were kept: "
            "readings of the servers are missing, and findings that rest on them may differ"
        )
    return told


def _of_cell(cell: str, lost: int, *, judged: int | None) -> str:
    if judged is None:
        return f"{cell}: not all of its records are kept"
    if lost >= judged:
        return f"{cell}: not judged, since none of its records is kept"
    return f"{cell}: judged by {judged - lost} of its {judged} repeats, since the other records are not kept"
