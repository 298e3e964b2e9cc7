"""What was measured with what."""

from __future__ import annotations

from benchrun.api import DatasetStatus
from benchrun.report.html.blocks import Facts
from benchrun.report.html.sections.provenance import provenance_section
from unit.report.html.reported_runs import (
    measured,
    reported,
    tables_of,
    with_status,
)


def test_provenance_names_what_really_ran() -> None:
    pairs = [
        pair for block in provenance_section(reported()).blocks if isinstance(block, Facts) for pair in block.pairs
    ]
    server = measured().status.servers[0]
    assert ("Image that ran", server.image_digest) in pairs
    assert ("GPU", "NVIDIA-H100-80GB-HBM3") in pairs
    assert ("UID", measured().uid) in pairs
    assert ("Load engine", "vllm 0.32.0") in pairs


def test_data_that_was_read_is_named_with_what_was_left_out() -> None:
    data = DatasetStatus(
        name="chat", source="/data/x.json", sha256="d" * 64, rows_read=9, rows_used=5, rows_dropped={"too long": 4}
    )
    tables = tables_of(provenance_section(with_status(reported(), datasets=[data])))
    assert ("chat", "/data/x.json", "9", "5", "4 too long", "d" * 64) in [
        row for table in tables for row in table.rows.rows
    ]


def test_the_digest_of_every_stage_s_traffic_is_there() -> None:
    digests = {cell for table in tables_of(provenance_section(reported())) for row in table.rows.rows for cell in row}
    assert {record.prompts_digest for record in measured().records} <= digests
