"""Noted defaults: memory for few texts, of which no namespace takes what holds for another."""

from collections.abc import Iterator

import pytest
from benchrun import names
from benchrun.observe import noted_defaults as kept
from benchrun.observe.noted_defaults import (
    MAX_NAMESPACES,
    MAX_OF_NAMESPACE,
    MAX_TEXTS,
    NotedDefaults,
    noted_defaults,
)

OURS = '{"copyLabels":["team"]}'


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept, "_texts", {})
    monkeypatch.setattr(kept, "_noted_by", {})
    yield
    assert len(kept._texts) <= MAX_TEXTS
    assert kept._texts.keys() == kept._noted_by.keys()
    assert all(0 < len(by) <= MAX_NAMESPACES for by in kept._noted_by.values())


def noted(text: str, namespace: str) -> NotedDefaults:
    found = noted_defaults({names.ANNOTATION_DEFAULTS: text}, namespace=namespace)
    assert found is not None
    return found


def test_one_namespace_cannot_push_out_what_holds_for_another() -> None:
    ours = noted(OURS, "lab")
    for number in range(10 * MAX_TEXTS):
        noted(f"forged {number}", "evil")
    assert ours.text == OURS
    assert len(kept._texts) == 1 + MAX_OF_NAMESPACE


def test_nor_where_it_was_the_first_to_note_it() -> None:
    noted(OURS, "evil")
    ours = noted(OURS, "lab")
    for number in range(10 * MAX_TEXTS):
        noted(f"forged {number}", "evil")
    assert ours.text == OURS


def test_what_several_namespaces_have_outlives_what_one_has() -> None:
    ours = [noted(OURS, namespace) for namespace in ("lab", "shop")]
    for number in range(10 * MAX_TEXTS):
        noted(f"forged {number}", f"evil-{number}")
    assert {each.text for each in ours} == {OURS}


def test_of_a_namespace_the_newest_are_kept() -> None:
    found = [noted(f"text {n}", "lab") for n in range(MAX_OF_NAMESPACE + 1)]
    assert [each.text is None for each in found] == [True] + [
        False
    ] * MAX_OF_NAMESPACE
    assert noted("text 0", "lab").text == "text 0"


def test_namespaces_are_counted_up_to_a_bound() -> None:
    for number in range(2 * MAX_NAMESPACES):
        noted(OURS, f"lab-{number}")
    assert len(kept._noted_by) == 1
