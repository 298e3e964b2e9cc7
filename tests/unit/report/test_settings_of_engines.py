"""Settings that follow from several flags have the setting's name, not a flag's."""

import pytest
from benchrun.api import BenchmarkRunStatus, ServerStatus
from benchrun.report.run_settings import settings_rows


@pytest.mark.parametrize(
    ("args", "reported", "longest"),
    [
        (["--ctx-size", "4096", "--parallel", "4"], {"n_ctx": "1024"}, "1024"),
        (["--parallel", "4"], {"n_ctx": "512"}, "512 (reported)"),
        (["--ctx-size", "many"], {}, "default"),
        ([], {}, "default"),
    ],
)
def test_the_longest_sequence_is_that_of_a_slot(
    args: list[str], reported: dict[str, str], longest: str
) -> None:
    server = ServerStatus(
        role="server", engine="LlamaCpp", args=args, reported=reported
    )
    status = BenchmarkRunStatus(servers=[server])
    rows = {row[0]: row[1:] for row in settings_rows({}, status).rows}
    assert rows["longest sequence"] == (longest, "server", "server.args")
    assert "ctx-size" not in rows
