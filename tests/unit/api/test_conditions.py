"""Conditions: how one is set, found and dated, and reasons that never change their names."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from benchrun.api import (
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    answer_of,
    find_condition,
    is_true,
    timestamp,
    with_condition,
)
from benchrun.api.sweep import SweepReason

T0 = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LATER = T0 + timedelta(minutes=5)


def condition(
    type_: ConditionType = "Ready",
    status: ConditionStatus = "False",
    **fields: str | int,
) -> Condition:
    return Condition.model_validate(
        {"type": type_, "status": status, "reason": "Pending", **fields}
    )


def test_a_new_one_is_appended_and_dated() -> None:
    first = with_condition((), condition("Accepted", "True"), now=T0)
    both = with_condition(first, condition("Ready"), now=LATER)
    assert [(c.type, c.status, c.last_transition_time) for c in both] == [
        ("Accepted", "True", "2026-01-01T12:00:00Z"),
        ("Ready", "False", "2026-01-01T12:05:00Z"),
    ]


@pytest.mark.parametrize(
    ("answer", "conditions"),
    [
        (None, "Complete=True"),
        (None, "Complete=False ObjectivesMet=True"),
        (None, "Failed=True ObjectivesMet=False"),
        ("Met", "Complete=True ObjectivesMet=True/ObjectivesMet"),
        ("Missed", "Complete=True ObjectivesMet=False/ObjectivesMissed"),
        ("Undecided", "Complete=True ObjectivesMet=Unknown/ObjectivesInconclusive"),
        ("NotRegressed", "Complete=True NotRegressed=True/NotRegressed"),
        ("NotRegressedHere", "Complete=True NotRegressed=True/NotRegressedHere"),
        ("RegressedHere", "Complete=True NotRegressed=False/RegressedHere"),
        ("Undecided", "Complete=True NotRegressed=Unknown/OneServerASide"),
        (
            "Missed, Regressed",
            "NotRegressed=False/Regressed ObjectivesMet=False Complete=True",
        ),
        (
            "Met, Undecided",
            "Complete=True ObjectivesMet=True NotRegressed=Unknown/Underpowered",
        ),
        (
            "Undecided",
            "Complete=True ObjectivesMet=Unknown NotRegressed=Unknown/Inconclusive",
        ),
    ],
)
def test_the_answer_of_a_measured_run(answer: str | None, conditions: str) -> None:
    """Of one that failed or goes on there is none."""
    made = []
    for text in conditions.split():
        type_, _, rest = text.partition("=")
        status, _, reason = rest.partition("/")
        made.append(
            Condition.model_validate(
                {"type": type_, "status": status, "reason": reason or "Any"}
            )
        )
    assert answer_of(tuple(made)) == answer


def test_one_of_its_type_is_replaced_in_its_place() -> None:
    before = with_condition(
        with_condition((), condition("Ready"), now=T0),
        condition("Complete"),
        now=T0,
    )
    after = with_condition(
        before,
        condition("Ready", "True", reason="Finished", message="done"),
        now=LATER,
    )
    assert [(c.type, c.status, c.reason, c.message) for c in after] == [
        ("Ready", "True", "Finished", "done"),
        ("Complete", "False", "Pending", ""),
    ]
    assert [c.last_transition_time for c in after] == [
        "2026-01-01T12:05:00Z",
        "2026-01-01T12:00:00Z",
    ]


def test_its_time_stays_as_long_as_its_status_does() -> None:
    before = with_condition((), condition(reason="Pending"), now=T0)
    (after,) = with_condition(
        before, condition(reason="Measuring", observed_generation=2), now=LATER
    )
    assert (
        after.reason,
        after.observed_generation,
        after.last_transition_time,
    ) == (
        "Measuring",
        2,
        "2026-01-01T12:00:00Z",
    )


def test_setting_it_twice_changes_nothing() -> None:
    once = with_condition((), condition(message="m"), now=T0)
    assert with_condition(once, condition(message="m"), now=LATER) == once


@pytest.mark.parametrize(
    ("length", "kept"), [(4095, 4095), (4096, 4096), (4097, 4096)]
)
def test_a_message_is_cut_to_what_the_schema_takes(length: int, kept: int) -> None:
    long = condition().model_copy(update={"message": "m" * length})
    (found,) = with_condition((), long, now=T0)
    assert len(found.message) == kept
    assert Condition.model_validate(found.model_dump()) == found


@pytest.mark.parametrize(
    ("status", "true"), [("True", True), ("False", False), ("Unknown", False)]
)
def test_only_true_is_true(status: ConditionStatus, true: bool) -> None:
    found = (condition("Ready", status), condition("Complete", "True"))
    assert is_true(found, "Ready") is true
    assert find_condition(found, "Ready") == found[0]


def test_an_unset_condition_is_not_true() -> None:
    assert not is_true((condition("Complete", "True"),), "Ready")
    assert find_condition((), "Ready") is None


def test_instants_are_written_as_kubernetes_writes_them() -> None:
    assert (
        timestamp(datetime(2026, 1, 2, 3, 4, 5, 999_999, tzinfo=UTC))
        == "2026-01-02T03:04:05Z"
    )


def test_condition_types_are_distinct() -> None:
    assert len(set(get_args(ConditionType))) == len(get_args(ConditionType))


NOT_AFTER_THEIR_NAME = {
    "OUT_OF_GPU_MEMORY": "OutOfGPUMemory",
    "KV_CACHE_TOO_SMALL": "KVCacheTooSmall",
    "PENDING_DEADLINE": "PendingDeadlineExceeded",
    "STARTUP_DEADLINE": "StartupDeadlineExceeded",
    "RUN_DEADLINE": "RunDeadlineExceeded",
    "BUDGET_SPENT": "GPUSecondsBudgetSpent",
}


@pytest.mark.parametrize("reasons", [Reason, SweepReason])
def test_reasons_are_their_names_in_camel_case_or_stand_here(reasons: type) -> None:
    for name, value in vars(reasons).items():
        if name.isupper():
            camel = "".join(word.capitalize() for word in name.split("_"))
            assert value == NOT_AFTER_THEIR_NAME.get(name, camel)


@pytest.mark.parametrize("reasons", [Reason, SweepReason])
def test_no_reason_has_two_names(reasons: type) -> None:
    values = [getattr(reasons, name) for name in dir(reasons) if name.isupper()]
    assert len(set(values)) == len(values) > 10


DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("reasons", [Reason, SweepReason])
def test_every_reason_is_named_in_the_docs(reasons: type) -> None:
    """In those that a person wrote: a finding may have the name of a reason, and the reference
    lists values."""
    pages = [*DOCS.glob("*.md")]
    text = " ".join(page.read_text(encoding="utf-8") for page in pages)
    values = [value for name, value in vars(reasons).items() if name.isupper()]
    assert [
        value for value in values if re.search(rf"\b{value}\b", text) is None
    ] == []
