"""What a refusal means. The words are Kubernetes', and of those plugins, webhooks and policies whose
authors wrote their own."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.observe import Means, Place, quantity, refusal_of, refused_pods
from hypothesis import given, strategies as st
from kit.every_case import every

CASES = yaml.load(
    (Path(__file__).parent / "refusals.yaml").read_text(encoding="utf-8"),
    yaml.CSafeLoader,
)
TEXTS = [case["text"] for of_means in CASES.values() for case in of_means.values()]


@every("begins", ["", "FailedCreate: ", "FailedCreate: Error creating: "])
@every(
    ("means", "field", "text"),
    [
        pytest.param(
            Means(means),
            case.get("change", ""),
            case["text"],
            id=f"{means}: {name}",
        )
        for means, of_means in CASES.items()
        for name, case in of_means.items()
    ],
)
def test_what_it_means_and_what_to_change(
    means: Means, field: str, text: str, begins: str
) -> None:
    found = refusal_of(begins + text, Place("server"))
    assert found.means == means
    assert field in found.remedy
    assert ("quota" in found.remedy.lower()) <= ("quota" in text.lower())
    assert found.words in " ".join(text.split())


@pytest.mark.parametrize(
    ("role", "server", "fields"),
    [
        (
            "server",
            "spec.server",
            ("spec.server.resources", "spec.server.pod.priorityClassName"),
        ),
        (
            "server",
            "spec.offline",
            ("spec.offline.resources", "spec.offline.pod.priorityClassName"),
        ),
        (
            "client",
            "spec.server",
            ("spec.client.resources", "spec.client.pod.priorityClassName"),
        ),
        (
            "prefill",
            "spec.server",
            (
                "spec.server.disaggregated.prefill.resources",
                "spec.server.pod.priorityClassName",
            ),
        ),
        (
            "proxy",
            "spec.server",
            (
                "spec.server.disaggregated.proxy.resources",
                "spec.client.pod.priorityClassName",
            ),
        ),
    ],
)
def test_the_field_is_that_of_the_part_of_the_run(
    role: str, server: str, fields: tuple[str, str]
) -> None:
    place = Place(role, server)
    ruled = CASES["Ruling"]
    texts = (
        ruled["a LimitRange's most"]["text"],
        ruled["no such priority"]["text"],
    )
    for field, text in zip(fields, texts, strict=True):
        assert field in refusal_of(text, place).remedy


@every("text", TEXTS)
def test_of_a_config_map_no_field_is_named(text: str) -> None:
    assert "spec." not in refusal_of(text, Place("stage")).remedy


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1", "1"), ("0.5", "500m"), ("1000", "1k"), ("1024", "1Ki"), ("68719476736", "64Gi"),
        ("1500", "1.5e3"), ("0.001", "1e-3"), (None, "many"), (None, ""), (None, "-1"), (None, "1e999"),
        (None, "1" * 30),
    ],
)  # fmt: skip
def test_quantities(number: str | None, text: str) -> None:
    assert quantity(text) == (None if number is None else Decimal(number))


def event(message: str, at: str | None = None, **more: Any) -> dict[str, Any]:
    return {"message": message, "lastTimestamp": at} | more


ONE = "2026-01-01T00:00:01Z"
TWO = "2026-01-01T00:00:02Z"


@pytest.mark.parametrize(
    ("words", "events"),
    [
        pytest.param("", [], id="none"),
        pytest.param(
            "b", [event("a", ONE), event("Error creating: b", TWO)], id="the newest"
        ),
        pytest.param(
            "b",
            [event("a", ONE), event("b", series={"lastObservedTime": TWO})],
            id="of a series",
        ),
        pytest.param("", [event("", None), {"message": 4}], id="what is no text"),
    ],
)
def test_why_pods_are_not_made_by_events(
    words: str, events: list[dict[str, Any]]
) -> None:
    assert refused_pods(events) == words


@given(text=st.text() | st.sampled_from(TEXTS), role=st.text(max_size=9))
def test_any_words_mean_something(text: str, role: str) -> None:
    found = refusal_of(text, Place(role))
    assert len(json.dumps(found.words)) < 4000
    assert found.remedy.endswith(".")
