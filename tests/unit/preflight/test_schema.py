"""What the API server would refuse is refused before: at the same field, in the same words.

The table of specs is the one that the API server itself is asked about, in
tests/cluster/test_validation.py."""

from typing import Any

import pytest
from unit.api.spec_cases import ACCEPTED, REFUSED, Refused, Spec, rule
from unit.golden_messages import golden
from unit.preflight.checks import checked, messages


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in REFUSED.items()]
)
def test_refused_where_the_api_server_refuses(case: Refused) -> None:
    found = checked(case.changes)
    errors = messages(found, "Error")
    assert found.has_errors
    assert found.volume is None
    assert [
        path
        for path in errors
        if path.startswith(case.path) or case.path.startswith(path)
    ] == list(errors)
    if case.message is not None:
        assert errors.keys() == {case.path}
        assert case.message in errors[case.path]


@pytest.mark.parametrize(
    "spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()]
)
def test_what_is_accepted_has_no_error_of_form(spec: Spec) -> None:
    found = checked(spec=spec)
    assert [
        path
        for path in messages(found, "Error")
        if not path.startswith(("spec.server.args", "spec.runDeadline"))
    ] == []
    assert found.volume is not None


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"model.revison": "main"}, "spec.model.revison"),
        ({"server.tensorParallel": 4}, "spec.server.tensorParallel"),
        ({"workloads.0.load.rates": ["1"]}, "spec.workloads[0].load.rates"),
        (
            {"workloads.0.dataset.random.inputToken": 4},
            "spec.workloads[0].dataset.random.inputToken",
        ),
        ({"serverr": {}}, "spec.serverr"),
    ],
)
def test_unknown_fields_are_named_with_the_nearest(
    changes: dict[str, Any], path: str
) -> None:
    golden(messages(checked(changes), "Error")[path])


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("metric", "p99_tft_ms", "did you mean p99_ttft_ms"),
        ("metric", "p97_ttft_ms", 'add "97" to measurement.percentiles'),
        ("relativeTo", "server.kvCacheMax", "did you mean kvCacheMaxPercent"),
        ("when", "load >> 1.0", "at character 7"),
    ],
)
def test_a_rule_of_ones_own_is_checked_with_its_field(
    field: str, value: str, said: str
) -> None:
    found = messages(checked(rule(**{field: value})), "Error")
    assert said in found[f"spec.validity.rules[0].{field}"]


def test_a_value_of_another_type_is_shown() -> None:
    assert messages(checked({"repeats": "2"}), "Error")["spec.repeats"].endswith(
        "not '2'"
    )


def test_all_problems_are_reported_at_once() -> None:
    errors = messages(
        checked(
            {"repeats": 0, "model.revison": "x", "workloads.0.api": "Responses"}
        ),
        "Error",
    )
    assert set(errors) == {
        "spec.repeats",
        "spec.model.revison",
        "spec.workloads[0].api",
    }


@pytest.mark.parametrize(
    ("outside", "path"),
    [
        ({"apiVersion": "benchrun.dev/v1"}, "apiVersion"),
        ({"metadata": {}}, "metadata.name"),
        ({"metadata": None}, "metadata"),
        ({"metadata": {"name": "Chat"}}, "metadata.name"),
        ({"metadata": {"name": "chat-"}}, "metadata.name"),
        ({"metadata": {"name": "x" * 41}}, "metadata.name"),
        ({"metadata": {"name": "x", "label": {}}}, "metadata.label"),
        ({"spce": {}}, "spce"),
        ({"spec": None}, "spec"),
    ],
)
def test_a_wrong_field_around_the_spec_is_an_error(
    outside: dict[str, Any], path: str
) -> None:
    golden(messages(checked(**outside), "Error")[path])


def test_a_generated_name_is_no_error() -> None:
    found = checked(metadata={"generateName": "chat-"})
    assert messages(found, "Error") == {}
    assert "metadata.generateName" in messages(found, "Note")
