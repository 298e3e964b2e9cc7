"""A broken plan is refused with the field that is wrong, and never with a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.failures import RunFailure
from benchrun_client.run import MAX_PLAN_BYTES, peek_run_uid, read_plan
from unit.client.plans import TOKEN, TOKEN_DIGEST, plan


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "plan.json"
    file.write_text(text)
    return file


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(plan().to_json()), **changes})


def test_a_plan_reads_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_plan(written(tmp_path, plan().to_json())) == plan()


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param("Invalid JSON", "{", id="no-json"),
        pytest.param("stages", changed(stages=[]), id="no-stages"),
        pytest.param("surprise", changed(surprise=1), id="unknown-field"),
        pytest.param("health_deadline_seconds", changed(health_deadline_seconds=-1), id="out-of-bounds"),
        pytest.param("schema", changed(schema="benchrun.plan/99"), id="other-version"),
        pytest.param("larger than", "x" * (MAX_PLAN_BYTES + 1), id="huge"),
    ],
)
def test_a_broken_plan_is_refused_naming_what_is_wrong(tmp_path: Path, expected: str, text: str) -> None:
    with pytest.raises(RunFailure, match=expected) as failure:
        read_plan(written(tmp_path, text))
    assert failure.value.reason == "InvalidPlan"
    assert failure.value.exit_code == 2


def test_a_refusal_tells_no_values(tmp_path: Path) -> None:
    with pytest.raises(RunFailure) as failure:
        read_plan(written(tmp_path, changed(token_digest=TOKEN_DIGEST * 10, target=TOKEN_DIGEST)))
    assert TOKEN_DIGEST not in failure.value.message


def test_a_plan_holds_the_digest_of_the_token_and_not_the_token() -> None:
    text = plan().to_json()
    assert TOKEN_DIGEST in text
    assert TOKEN not in text


def test_a_missing_plan_is_refused_naming_the_file(tmp_path: Path) -> None:
    with pytest.raises(RunFailure, match=r"nowhere\.json: No such file"):
        read_plan(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param("run-1", changed(stages=[]), id="broken-elsewhere"),
        pytest.param("", changed(run_uid=7), id="no-text"),
        pytest.param("", changed(run_uid="x" * 65), id="too-long"),
        pytest.param("", "[]", id="no-object"),
        pytest.param("", "{", id="no-json"),
    ],
)
def test_the_run_uid_is_found_in_a_broken_plan_where_it_can_be(tmp_path: Path, expected: str, text: str) -> None:
    assert peek_run_uid(written(tmp_path, text)) == expected
