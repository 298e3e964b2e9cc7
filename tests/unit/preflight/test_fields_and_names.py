"""Fields that do not exist, values of another type, names: where each is, what was meant, what there is."""

from typing import Any

import pytest
from unit.api.spec_cases import absent
from unit.preflight.checks import checked, messages

LOAD, DATASET = "spec.workloads[0].load", "spec.workloads[0].dataset"


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        ({"model.revison": "x"}, "spec.model.revison", "unknown field; did you mean revision?"),
        ({"model.source": {"hubb": {}}}, "spec.model.source.hubb", "unknown field; did you mean hub?"),
        ({"model.source": {"s4": {}}}, "spec.model.source.s4", "unknown field; there are hub, pvc, imageVolume, path"),
        (
            {"workloads.0.load.zebra": 1},
            f"{LOAD}.zebra",
            "unknown field; there are requestRates, maxConcurrency, burstiness, concurrencies, search, traceSpeeds, batchSizes",
        ),
        ({"workloads.0.dataset.random.inputToken": 1}, f"{DATASET}.random.inputToken", "did you mean inputTokens?"),
        ({"workloads.0.dataset.zebra": {}}, f"{DATASET}.zebra", "unknown field; there are random, prefixRepetition"),
        ({"zzzzzz": 1}, "spec.zzzzzz", "unknown field"),
        ({"objectives": [{"metrics": "TTFT"}]}, "spec.objectives[0].metrics", "unknown field; did you mean metric?"),
        ({"server.env": [{"name": "A", "val": "1"}]}, "spec.server.env[0].val", "unknown field; did you mean value?"),
        ({"server.pod.nodeSelektor": {}}, "spec.server.pod.nodeSelektor", "unknown field; did you mean nodeSelector?"),
    ],
)
def test_an_unknown_field(changes: dict[str, Any], path: str, text: str) -> None:
    errors = messages(checked(changes), "Error")
    assert text in errors[path]
    assert not text.startswith("unknown field") or errors[path].startswith("unknown field")


def test_where_nothing_is_near_and_there_are_many_none_is_listed() -> None:
    assert messages(checked({"zzzzzz": 1}), "Error") == {"spec.zzzzzz": "unknown field"}


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        ({"repeats": "2"}, "spec.repeats", "Input should be a valid integer, not '2'"),
        ({"repeats": 0}, "spec.repeats", "Input should be greater than or equal to 1, not 0"),
        ({"repeats": 1.5}, "spec.repeats", "Input should be a valid integer, not 1.5"),
        ({"suspend": "yes"}, "spec.suspend", "Input should be a valid boolean, not 'yes'"),
        ({"model.name": absent()}, "spec.model.name", "must be there"),
        ({"workloads.0.dataset": absent()}, DATASET, "must be there"),
        ({"workloads.0.load.requestRates": [1]}, f"{LOAD}.requestRates[0]", "Input should be a valid string, not 1"),
        ({"workloads.0.load": []}, LOAD, "Input should be a valid dictionary or instance of Load"),
        ({"workloads.0.load": {"concurrencies": [8, 8]}}, f"{LOAD}.concurrencies", "8 is listed twice"),
        ({"workloads.0.api": "Chats"}, "spec.workloads[0].api", "Input should be 'Completions' or 'Chat', not 'Chats'"),
        (
            {"server.resources": {"limits": {"cpu": "two"}}},
            "spec.server.resources.limits.cpu",
            r"String should match pattern '^[0-9]+(\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i|e[0-9]{1,2})?$', not 'two'",
        ),
        (
            {"server.resources": {"limits": {"cpu": -1}}},
            "spec.server.resources.limits.cpu",
            "Input should be a valid string, not -1",
        ),
        (
            {"workloads.0.dataset": {"texts": {"file": {"path": "/x"}, "column": "c", "textsPerPrompt": 20_000}}},
            f"{DATASET}.texts.textsPerPrompt",
            "Input should be less than or equal to 10000, not 20000",
        ),
        (
            {"repeats": 100, "workloads.0.load": {"concurrencies": [1, 2, 3]}},
            "spec.repeats",
            "300 stages; the limit is 256",
        ),
        ({"workloads.0.load.maxConcurrency": 0}, f"{LOAD}.maxConcurrency", "greater than or equal to 1, not 0"),
    ],
)
def test_a_wrong_value(changes: dict[str, Any], path: str, text: str) -> None:
    assert text in messages(checked(changes), "Error")[path]


@pytest.mark.parametrize(
    ("metadata", "path", "text"),
    [
        ({"name": "a" * 41}, "metadata.name", "41 characters; names of children are made from it: at most 40"),
        (
            {"name": "a.b"},
            "metadata.name",
            "'a.b' must be lower-case letters, digits and dashes, no dash at either end",
        ),
        ({"name": ""}, "metadata.name", "'' must be lower-case letters, digits and dashes, no dash at either end"),
        ({"name": 5}, "metadata.name", "must be there"),
        ({"generateName": 5}, "metadata.name", "must be there"),
        ({"name": "a", "zebra": 1}, "metadata.zebra", "unknown field"),
        ({"name": "a", "annotation": {}}, "metadata.annotation", "unknown field; did you mean annotations?"),
    ],
)
def test_a_wrong_name(metadata: dict[str, Any], path: str, text: str) -> None:
    assert messages(checked(metadata=metadata), "Error")[path] == text


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 40])
def test_a_name_that_children_can_be_called_after(name: str) -> None:
    assert messages(checked(metadata={"name": name}), "Error") == {}


def test_what_kubectl_prints_can_be_checked_again() -> None:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "t"}
    assert (
        messages(checked(metadata={**metadata, "managedFields": [], "selfLink": "x"}, status={"phase": "x"}), "Error")
        == {}
    )


@pytest.mark.parametrize(
    ("outside", "path", "text"),
    [
        ({"apiVersion": "v1"}, "apiVersion", "'v1': this benchrun knows benchrun.dev/v1alpha1"),
        ({"apiVersion": None}, "apiVersion", "None: this benchrun knows benchrun.dev/v1alpha1"),
        ({"stats": {}}, "stats", "unknown field; did you mean status?"),
        ({"q": {}}, "q", "unknown field; there are apiVersion, kind, metadata, spec, status"),
        ({"metadata": []}, "metadata", "must be there, with a name"),
        ({"spec": []}, "spec", "must be there"),
    ],
)
def test_an_error_around_the_spec_has_this_text(outside: dict[str, Any], path: str, text: str) -> None:
    assert messages(checked(**outside), "Error")[path] == text


def test_a_generated_name_needs_kubectl_create() -> None:
    found = checked(metadata={"generateName": "chat-"})
    assert messages(found, "Note")["metadata.generateName"] == "kubectl create takes it, kubectl apply does not"
