"""What limits, in the operator's own sentences."""

from __future__ import annotations

from benchrun.report.html.sections.results import limits_section
from unit.report.html.reported_runs import (
    measured,
    prose_of,
    reported,
    tables_of,
)


def test_limits_are_the_operator_s_own_sentences() -> None:
    section = limits_section(reported())
    assert section is not None
    (table,) = tables_of(section)
    said = {row.cell: row.bottleneck.sentence for row in measured().status.results if row.bottleneck}
    assert all(row[3] == said[row[0]] for row in table.rows.rows if row[1] == "limit")
    assert "chat/rate=inf" in {row[0] for row in table.rows.rows}
    assert "chat/rate=2" in prose_of(section)
