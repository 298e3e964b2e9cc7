"""One exit code for several runs."""

from __future__ import annotations

import pytest
from benchrun.report.exit_codes import worst_code


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 5], 5),
        ([5, 3], 3),
        ([3, 4], 4),
        ([4, 2, 3], 2),
        ([2, 1], 1),
    ],
)
def test_the_worst_decides(codes: list[int], worst: int) -> None:
    assert worst_code(codes) == worst
    assert worst_code(reversed(codes)) == worst
