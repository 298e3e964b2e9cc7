"""Values read out of objects that anybody may have written."""

from datetime import UTC, datetime

import pytest
from benchrun.observe import untrusted_json as raw

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param(NOON, "2026-11-21T12:00:00Z", id="as Kubernetes writes it"),
        pytest.param(
            NOON.replace(microsecond=250_000),
            "2026-11-21T12:00:00.250000Z",
            id="MicroTime",
        ),
        pytest.param(NOON, "2026-11-21T13:00:00+01:00", id="in another zone"),
        pytest.param(NOON, "2026-11-21T12:00:00", id="without a zone it is UTC"),
        pytest.param(None, "yesterday", id="a word"),
        pytest.param(None, "2026-13-99T99:99:99Z", id="no such day"),
        pytest.param(None, "0001-01-01T00:00:00+23:59", id="before time began"),
        pytest.param(None, 1_700_000_000, id="a number"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_instant(expected: datetime | None, value: object) -> None:
    assert raw.instant(value) == expected


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param(3, 3, id="a number"),
        pytest.param(8, "8", id="a quantity"),
        pytest.param(0, "8Gi", id="a quantity with a unit"),
        pytest.param(0, "-3", id="a negative one"),
        pytest.param(0, "²", id="a digit that is none"),
        pytest.param(0, "9" * 5000, id="endless digits"),
        pytest.param(0, True, id="a truth"),
        pytest.param(0, 2.5, id="a fraction"),
        pytest.param(0, None, id="nothing"),
    ],
)
def test_number(expected: int, value: object) -> None:
    assert raw.number(value) == expected


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param("ab", "abcdef", id="a long one is cut"),
        pytest.param("a", "a", id="a short one is kept"),
        pytest.param("", 7, id="a number is none"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_text(expected: str, value: object) -> None:
    assert raw.text(value, 2) == expected


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param("10.0.0.7", "10.0.0.7", id="IPv4"),
        pytest.param("fd00::7", "fd00:0::7", id="IPv6"),
        pytest.param(None, "fe80::7%eth0", id="with a zone"),
        pytest.param(None, "10.0.0.7/metrics?", id="a part of a URL"),
        pytest.param(None, "evil.example", id="a name"),
        pytest.param(None, "1" * 300, id="endless digits"),
        pytest.param(None, 167_772_167, id="a number"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_address(expected: str | None, value: object) -> None:
    assert raw.address(value) == expected


def test_halves_of_characters_are_not_kept() -> None:
    assert raw.text("a\ud800b") == raw.end_of("a\ud800b") == "a?b"
    assert raw.text("Ä\U0001f600") == "Ä\U0001f600"


def test_the_end_of_a_text_is_its_last_part() -> None:
    assert raw.end_of("abcdef", 2) == "ef"
    assert raw.end_of(["abcdef"], 2) == ""


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param([{"a": 1}], [{"a": 1}, 7, None, "x"], id="only mappings"),
        pytest.param([], {"a": 1}, id="a mapping is no list"),
        pytest.param([], "text", id="nor is a text"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_mappings(expected: list[object], value: object) -> None:
    assert list(raw.mappings(value)) == expected


def test_a_condition_is_found_by_its_type() -> None:
    ready = {"type": "Ready", "status": "True"}
    assert (
        raw.condition({"conditions": [{"type": "Other"}, ready]}, "Ready") == ready
    )
    assert raw.condition({"conditions": None}, "Ready") == {}


@pytest.mark.parametrize("controller", ["true", 1, None, False])
def test_only_a_true_controller_controls(controller: object) -> None:
    assert (
        raw.controller(
            {"ownerReferences": [{"kind": "Job", "controller": controller}]}
        )
        == {}
    )
