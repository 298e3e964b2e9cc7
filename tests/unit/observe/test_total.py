"""Views of objects that anybody may have written: any JSON whatever becomes one, within bounds."""

import time
from typing import Any

import pytest
from benchrun import names
from benchrun.observe import (
    MAX_ARGS,
    MAX_ARGS_CHARS,
    MAX_ROWS,
    child_of,
    diagnose_client,
    diagnose_server,
    find_pod_with_hidden_cause,
    finished_run_of,
    image_pull_seconds,
    is_structural,
    pod_of,
    run_of,
    untrusted_json as raw,
)
from benchrun.observe.last_words import MAX_CHARS, bounded, last_words
from benchrun_client.engines import ENGINES
from benchrun_client.engines.vllm import log as vllm_log
from hypothesis import given, strategies as st

VLLM = ENGINES["VLLM"]

ROLES = (names.ROLE_SERVER, names.ROLE_CLIENT, names.ROLE_PROXY, "")
STARTUP = [
    "Loading weights took 2.13 seconds",
    "Model loading took 14.99 GiB memory and 15.678901 seconds",
    "(E pid=1) torch.compile takes 22.10 s in total",
    "init engine (profile) took 212.68 s (compilation: 13.01 s)",
    "Time spent downloading weights for a/b: 999999999.999999999 seconds",
]


def pulled(words: str) -> dict[str, Any]:
    """An event of the kubelet."""
    about = {"fieldPath": "spec.containers{server}"}
    return {
        "reason": "Pulled",
        "involvedObject": about,
        "message": f"Successfully pulled image x in {words}",
    }


WORDS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "name",
        "namespace",
        "uid",
        "labels",
        "annotations",
        "ownerReferences",
        "controller",
        "kind",
        "apiVersion",
        "conditions",
        "type",
        "reason",
        "message",
        "containers",
        "containerStatuses",
        "state",
        "lastState",
        "waiting",
        "terminated",
        "running",
        "startedAt",
        "exitCode",
        "args",
        "resources",
        "limits",
        "nvidia.com/gpu",
        "restartCount",
        "results",
        "loadPoint",
        "metrics",
        "uncertain",
        "completionTime",
        "headline",
        "initContainerStatuses",
        "image",
        "imageID",
        "podIP",
        "phase",
        "nodeName",
        "creationTimestamp",
        "generation",
        names.LABEL_ROLE,
        names.LABEL_RUN_UID,
        names.LABEL_SEQUENCE,
        names.ANNOTATION_ENVELOPE,
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(
        [
            "True",
            "False",
            "Job",
            "BenchmarkRun",
            "benchrun.dev/v1alpha1",
            "2026-01-01T00:00:00Z",
            "7",
            "server",
        ]
    )
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5)
    ),
    max_leaves=30,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=6)


@given(OBJECTS)
def test_any_object_is_a_run_of_some_sort(body: dict[str, Any]) -> None:
    run = run_of(body)
    assert max(map(len, (run.name, run.namespace, run.uid))) <= raw.MAX_NAME_CHARS
    assert isinstance(run.spec, dict)
    assert isinstance(run.status, dict)
    assert run.created_at is None or run.created_at.tzinfo is not None


@given(
    OBJECTS,
    st.sampled_from(["Deployment", "Job", "Service", "ConfigMap", "Unheard"]),
)
def test_any_object_is_a_child_of_some_sort(
    body: dict[str, Any], kind: str
) -> None:
    child = child_of(kind, body)
    assert child.kind == kind
    assert child.sequence is None or child.sequence >= 0
    assert child.owner_uid != "", "nobody is None"


@given(OBJECTS)
def test_any_object_is_a_pod_of_some_sort(body: dict[str, Any]) -> None:
    pod = pod_of(body)
    assert len(pod.args) <= MAX_ARGS
    assert sum(map(len, pod.args)) <= MAX_ARGS_CHARS
    assert pod.node != ""
    assert pod.waiting_reason != ""
    assert pod.unschedulable != ""


@given(OBJECTS)
def test_any_status_may_be_that_of_a_run_that_has_ended(
    status: dict[str, Any],
) -> None:
    found = finished_run_of(status)
    if found is not None:
        assert len(found.load_points) <= MAX_ROWS
        assert found.load_points_left_out >= 0
        assert all(
            figure is None or abs(figure) < float("inf")
            for load_point in found.load_points
            for figure in load_point.figures
        )


LINES = st.lists(
    st.text(max_size=30)
    | st.sampled_from(
        [
            "Traceback (most recent call last):",
            '  File "a.py", line 1, in f',
            "ValueError: no",
            "RuntimeError",
            "vllm serve: error: bad",
            "(EngineCore_0 pid=7) ERROR 11-21 12:00:00 [core.py:1] ValueError: x",
            "1 validation error for ModelConfig",
            "  Value error [type=value_error, input_value=0, input_type=int]",
            "See root cause above",
            "\r",
            "",
        ]
    ),
    max_size=12,
)


@given(LINES)
def test_whatever_a_log_holds_its_last_words_are_one_short_line(
    lines: list[str],
) -> None:
    words = last_words("\n".join(lines), VLLM)
    assert len(words) <= MAX_CHARS
    assert len(words.splitlines()) <= 1
    assert words == words.strip()


@given(st.text(max_size=2000))
def test_bounding_twice_changes_nothing(text: str) -> None:
    once = bounded(text)
    assert bounded(once) == once


@given(
    st.text(st.characters(categories=("L", "N")), min_size=10, max_size=40),
    st.text(" ab:", max_size=20),
)
def test_a_token_is_never_among_the_words(tail: str, around: str) -> None:
    token = "hf_" + "".join(c for c in tail if c.isascii()).ljust(10, "x")
    assert token not in bounded(f"{around} {token} {around}")
    assert token not in bounded(f"Authorization: Bearer {token}")
    assert token not in bounded(f"https://user:{token}@hub.example/model")


@given(st.lists(st.text(max_size=40), max_size=20))
def test_instants_of_compilations_are_in_order(lines: list[str]) -> None:
    found = vllm_log.compilations(
        "\n".join(f"{line} JIT compilation during inference" for line in lines)
    )
    assert list(found) == sorted(found)


@given(st.lists(st.text(max_size=40) | st.sampled_from(STARTUP), max_size=20))
def test_phases_of_any_log_are_seconds(lines: list[str]) -> None:
    found = VLLM.startup_phases("\n".join(lines))
    for seconds in (found.download, found.load, found.compile, found.warm_up):
        assert seconds is None or 0 <= seconds < 1e12


@given(st.lists(OBJECTS | st.builds(pulled, st.text(max_size=60)), max_size=5))
def test_any_events_tell_a_wait_or_none(events: list[dict[str, Any]]) -> None:
    wait = image_pull_seconds(events, container="server")
    assert wait is None or 0 <= wait < 1e14


@given(
    OBJECTS,
    st.text(max_size=200) | LINES.map("\n".join),
    st.none() | st.text(max_size=200),
    st.sampled_from(ROLES),
)
def test_whatever_a_pod_left_behind_it_is_diagnosed_or_not(
    body: dict[str, Any], message: str, log: str | None, role: str
) -> None:
    ended = {"exitCode": 1, "message": message, "reason": "Error"}
    container = {
        "name": "server",
        "restartCount": 3,
        "state": {"terminated": ended},
        "lastState": {"terminated": ended},
    }
    metadata = {"labels": {names.LABEL_ROLE: role}, "name": "p"}
    pod = pod_of(
        {"metadata": metadata, "status": {**body, "containerStatuses": [container]}}
    )
    for found in (
        diagnose_server([pod], None, VLLM, log_tail=log),
        diagnose_client([pod], None, VLLM),
    ):
        assert found is None or len(found.message.encode(errors="replace")) < 4096
    find_pod_with_hidden_cause([pod], VLLM)


@given(
    st.text(max_size=200)
    | st.text("0123456789/ nodesarvilb:.,()'", max_size=80).map(
        "0/3 nodes are available: ".__add__
    )
)
def test_any_word_of_a_scheduler_is_structural_or_not(message: str) -> None:
    assert is_structural(message) in (True, False)


UNITS = [
    "\n",
    "\r",
    "a\n",
    " ",
    "^",
    "a.",
    "A.",
    "(x pid=1) ",
    "(a pid=1 pid=2 ",
    "INFO 11-21 12:00:00 ",
    "[a:1] ",
    "Error",
    "ValueError: x\n",
    "w: error: ",
    "w ",
    "hf_aaaaaaaaa",
    "Bearer ",
    "://a",
    " [type=a, input_value=",
    "1 validation error for X\n",
    "init engine (",
    "init engine (a) took ",
    "init engine (a) took (compilation: ",
    "Model loading took ",
    "Loading weights took 1 ",
    "torch.compile took ",
    "Time spent downloading weights for ",
    "(a pid=",
    "\u2028",
    "\x1e",
    "\x1b]",
    "Warning: ",
    '"',
    "2026-11-21T12:00:00Z JIT compilation during inference\n",
]


@pytest.mark.parametrize("unit", UNITS)
def test_half_a_megabyte_of_anything_takes_no_time(unit: str) -> None:
    log = "ValueError: " + unit * (512 * 1024 // len(unit))
    began = time.process_time()
    last_words(log, VLLM)
    bounded(log)
    VLLM.startup_phases(log)
    vllm_log.compilations(log)
    assert time.process_time() - began < 20, (
        "what grows with the square of the length takes minutes, not a part of a second"
    )


def test_words_steer_no_terminal() -> None:
    assert bounded("\x1b[31mbad\x1b[0m flag\u202e") == "bad flag"
