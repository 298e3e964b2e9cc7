"""A run in a row, word by word: what nobody knows is a dash."""

from datetime import timedelta
from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus, Bottleneck, Finding, Headline, ServerStatus
from benchrun.report.run_list import MAX_CODES, finding_codes, limit, run_list_rows, state
from unit.plan.specs import Json
from unit.report.going_on import BEGIN, ended, run_body, running
from unit.report.statuses import result

NOW = BEGIN + timedelta(hours=5)


def found(*pairs: tuple[str, str]) -> BenchmarkRunStatus:
    made = [Finding.model_validate({"code": c, "severity": s, "count": 1, "worst_stage": "s"}) for c, s in pairs]
    return BenchmarkRunStatus(findings=made)


@pytest.mark.parametrize(
    ("text", "most", "pairs"),
    [
        ("-", 1, ()),
        ("-", 1, (("A", "Note"),)),
        ("A", 1, (("A", "Suspect"),)),
        ("B +1", 1, (("A", "Suspect"), ("B", "Invalid"))),
        ("B, A", 2, (("A", "Suspect"), ("B", "Invalid"))),
        ("B, A", 6, (("A", "Suspect"), ("N", "Note"), ("B", "Invalid"))),
        ("A, B +1", 2, (("A", "Invalid"), ("B", "Invalid"), ("C", "Invalid"))),
    ],
)
def test_findings_worst_first(text: str, most: int, pairs: tuple[tuple[str, str], ...]) -> None:
    assert finding_codes(found(*pairs), most=most) == text


def test_a_row_names_one_finding() -> None:
    assert finding_codes(found(("A", "Suspect"), ("B", "Suspect"))) == "A +1"
    assert MAX_CODES == 1


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("Pending", {}),
        ("Running", {"phase": "Running", "verdict": "Valid"}),
        ("Valid", {"phase": "Completed", "verdict": "Valid"}),
        ("Completed", {"phase": "Completed"}),
        ("Cancelled", {"phase": "Cancelled", "verdict": "Valid"}),
    ],
)
def test_states(text: str, fields: Json) -> None:
    assert state(BenchmarkRunStatus(**fields)) == text


def limited(cell: str, limit: str | None) -> Any:
    bottleneck = Bottleneck.model_validate({"limit": limit, "sentence": "s"}) if limit is not None else None
    return result(cell, axis="rate", bottleneck=bottleneck)


@pytest.mark.parametrize(
    ("text", "headline", "rows"),
    [
        ("-", None, ()),
        ("-", None, (("a/rate=1", None), ("a/rate=2", "None"))),
        ("Compute", None, (("a/rate=1", "None"), ("a/rate=2", "Compute"), ("a/rate=3", "Client"))),
        ("Client", "a/rate=3", (("a/rate=2", "Compute"), ("a/rate=3", "Client"))),
        ("-", "a/rate=1", (("a/rate=1", "None"), ("a/rate=2", "Compute"))),
        ("-", "a/rate=9", (("a/rate=2", "Compute"),)),
    ],
)
def test_the_limit_is_that_of_the_headlines_load_point(
    text: str, headline: str | None, rows: tuple[tuple[str, str | None], ...]
) -> None:
    best = Headline(cell=headline, throughput="1", p99_ttft="1") if headline is not None else None
    assert limit(BenchmarkRunStatus(results=[limited(*row) for row in rows], headline=best)) == text


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        (("-", "-"), []),
        (("-", "-"), [ServerStatus(role="server")]),
        (("0.32.0", "-"), [ServerStatus(role="server", version="0.32.0", gpu="H100")]),
        (("-", "2"), [ServerStatus(role="server", gpus=2)]),
        (
            ("0.32.0", "3 H100"),
            [
                ServerStatus(role="prefill", gpus=2),
                ServerStatus(role="decode", gpus=1, gpu="H100", version="0.32.0"),
                ServerStatus(role="proxy"),
            ],
        ),
    ],
)
def test_the_row_shows_server_version_and_gpus(text: tuple[str, str], servers: list[ServerStatus]) -> None:
    rows = run_list_rows([run_body(ended(servers=servers))], now=NOW, wide=True)
    row = dict(zip(rows.headers, rows.rows[0], strict=True))
    assert list(row)[-4:] == ["model", "vLLM", "GPU", "image"]
    assert (row["vLLM"], row["GPU"]) == text


def test_runs_of_one_instant_are_in_order_of_their_names_and_those_without_one_last() -> None:
    bodies = [run_body(running(), name=name) for name in ("a", "c", "b", "none")]
    del bodies[3]["metadata"]["creationTimestamp"]
    rows = run_list_rows(bodies, now=NOW).rows
    assert [row[0] for row in rows] == ["c", "b", "a", "none"]
    assert [row[-1] for row in rows] == ["5h", "5h", "5h", "0s"]
