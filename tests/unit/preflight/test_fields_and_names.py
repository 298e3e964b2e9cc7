"""Fields that do not exist, values of another type, names: where each is, what was meant, what
there is."""

from typing import Any

import pytest
from unit.api.spec_cases import absent
from unit.golden_messages import golden
from unit.preflight.checks import checked, messages

LOAD = "spec.workloads[0].load"
DATASET = "spec.workloads[0].dataset"


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        (
            {"model.revison": "x"},
            "spec.model.revison",
            "unknown field; did you mean revision?",
        ),
        (
            {"model.source": {"hubb": {}}},
            "spec.model.source.hubb",
            "unknown field; did you mean hub?",
        ),
        (
            {"model.source": {"s4": {}}},
            "spec.model.source.s4",
            "unknown field; there are hub, pvc, imageVolume, path",
        ),
        (
            {"workloads.0.load.zebra": 1},
            f"{LOAD}.zebra",
            "unknown field; there are requestRates, maxConcurrency, burstiness, concurrencies, "
            "sessions, start, thinkSeconds, search, traceSpeeds, batchSizes",
        ),
        (
            {"workloads.0.dataset.random.inputToken": 1},
            f"{DATASET}.random.inputToken",
            "did you mean inputTokens?",
        ),
        (
            {"workloads.0.dataset.zebra": {}},
            f"{DATASET}.zebra",
            "unknown field; there are random, prefixRepetition",
        ),
        ({"zzzzzz": 1}, "spec.zzzzzz", "unknown field"),
        (
            {"objectives": [{"metrics": "TTFT"}]},
            "spec.objectives[0].metrics",
            "unknown field; did you mean metric?",
        ),
        (
            {"server.env": [{"name": "A", "val": "1"}]},
            "spec.server.env[0].val",
            "unknown field; did you mean value?",
        ),
        (
            {"server.pod.nodeSelektor": {}},
            "spec.server.pod.nodeSelektor",
            "unknown field; did you mean nodeSelector?",
        ),
    ],
)
def test_an_unknown_field(changes: dict[str, Any], path: str, text: str) -> None:
    errors = messages(checked(changes), "Error")
    assert text in errors[path]
    assert not text.startswith("unknown field") or errors[path].startswith(
        "unknown field"
    )


def test_where_nothing_is_near_and_there_are_many_none_is_listed() -> None:
    assert messages(checked({"zzzzzz": 1}), "Error") == {
        "spec.zzzzzz": "unknown field"
    }


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"repeats": "2"}, "spec.repeats"),
        ({"repeats": 0}, "spec.repeats"),
        ({"repeats": 1.5}, "spec.repeats"),
        ({"suspend": "yes"}, "spec.suspend"),
        ({"model.name": absent()}, "spec.model.name"),
        ({"workloads.0.dataset": absent()}, DATASET),
        ({"workloads.0.load.requestRates": [1]}, f"{LOAD}.requestRates[0]"),
        ({"workloads.0.load": []}, LOAD),
        ({"workloads.0.load": {"concurrencies": [8, 8]}}, f"{LOAD}.concurrencies"),
        ({"workloads.0.api": "Chats"}, "spec.workloads[0].api"),
        (
            {"server.resources": {"limits": {"cpu": "two"}}},
            "spec.server.resources.limits.cpu",
        ),
        (
            {"server.resources": {"limits": {"cpu": -1}}},
            "spec.server.resources.limits.cpu",
        ),
        (
            {
                "workloads.0.dataset": {
                    "texts": {
                        "file": {"path": "/x"},
                        "column": "c",
                        "textsPerPrompt": 20_000,
                    }
                }
            },
            f"{DATASET}.texts.textsPerPrompt",
        ),
        (
            {"repeats": 100, "workloads.0.load": {"concurrencies": [1, 2, 3]}},
            "spec.repeats",
        ),
        ({"workloads.0.load.maxConcurrency": 0}, f"{LOAD}.maxConcurrency"),
    ],
)
def test_a_wrong_value(changes: dict[str, Any], path: str) -> None:
    golden(messages(checked(changes), "Error")[path])


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"name": "a" * 41}, "metadata.name"),
        ({"name": "a.b"}, "metadata.name"),
        ({"name": ""}, "metadata.name"),
        ({"name": 5}, "metadata.name"),
        ({"generateName": 5}, "metadata.name"),
        ({"name": "a", "zebra": 1}, "metadata.zebra"),
        ({"name": "a", "annotation": {}}, "metadata.annotation"),
    ],
)
def test_a_wrong_name(metadata: dict[str, Any], path: str) -> None:
    golden(messages(checked(metadata=metadata), "Error")[path])


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 40])
def test_a_name_that_children_can_be_called_after(name: str) -> None:
    assert messages(checked(metadata={"name": name}), "Error") == {}


def test_what_kubectl_prints_can_be_checked() -> None:
    metadata = {
        "name": "a",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "t",
    }
    assert (
        messages(
            checked(
                metadata={**metadata, "managedFields": [], "selfLink": "x"},
                status={"phase": "x"},
            ),
            "Error",
        )
        == {}
    )


@pytest.mark.parametrize(
    ("outside", "path"),
    [
        ({"apiVersion": "v1"}, "apiVersion"),
        ({"apiVersion": None}, "apiVersion"),
        ({"stats": {}}, "stats"),
        ({"q": {}}, "q"),
        ({"metadata": []}, "metadata"),
        ({"spec": []}, "spec"),
    ],
)
def test_an_error_around_the_spec_has_this_text(
    outside: dict[str, Any], path: str
) -> None:
    golden(messages(checked(**outside), "Error")[path])


def test_a_generated_name_needs_kubectl_create() -> None:
    found = checked(metadata={"generateName": "chat-"})
    golden(messages(found, "Note")["metadata.generateName"])
