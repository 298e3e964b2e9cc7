"""How long the requests of each dataset get."""

from typing import Any

import pytest
from benchrun.api import Workload
from benchrun.preflight.request_volume import Lengths, lengths_of, longest_request
from unit.api.spec_cases import workload

FILE = {"path": "/data/rows"}


def workload_with(dataset: dict[str, Any]) -> Workload:
    return Workload.model_validate(workload(dataset=dataset))


@pytest.mark.parametrize(
    ("dataset", "lengths", "total"),
    [
        ({"random": {}}, Lengths(1024, 128, drops_long_rows=False), 1152),
        ({"random": {"inputTokens": 7, "outputTokens": 9}}, Lengths(7, 9, drops_long_rows=False), 16),
        (
            {"random": {"inputLengths": {"mean": 7, "stdev": 2, "min": 1, "max": 70}, "outputTokens": 9}},
            Lengths(70, 9, drops_long_rows=False),
            79,
        ),
        (
            {"random": {"outputLengths": {"mean": 7, "stdev": 2, "min": 1, "max": 70}}},
            Lengths(1024, 70, drops_long_rows=False),
            1094,
        ),
        ({"prefixRepetition": {}}, Lengths(512, 128, drops_long_rows=False), 640),
        (
            {"prefixRepetition": {"prefixTokens": 100, "suffixTokens": 20, "outputTokens": 3}},
            Lengths(120, 3, drops_long_rows=False),
            123,
        ),
        ({"shareGPT": {"file": FILE}}, Lengths(1024, 1024, drops_long_rows=True), 2048),
        ({"shareGPT": {"file": FILE, "maxPromptTokens": 2000}}, Lengths(2000, 48, drops_long_rows=True), 2048),
        ({"shareGPT": {"file": FILE, "maxPromptTokens": 9000}}, Lengths(9000, 1, drops_long_rows=True), 9001),
        ({"shareGPT": {"file": FILE, "maxTotalTokens": 5000}}, Lengths(1024, 3976, drops_long_rows=True), 5000),
        ({"shareGPT": {"file": FILE, "outputTokens": 7}}, Lengths(1024, 7, drops_long_rows=True), 1031),
        ({"texts": {"file": FILE, "column": "c"}}, Lengths(None, 1, drops_long_rows=True), None),
        (
            {"texts": {"file": FILE, "column": "c", "textsPerPrompt": 40, "outputTokensPerText": 3}},
            Lengths(None, 120, drops_long_rows=True),
            None,
        ),
        ({"custom": {"file": FILE}}, Lengths(None, None, drops_long_rows=True), None),
        ({"custom": {"file": FILE, "outputTokens": 9}}, Lengths(None, 9, drops_long_rows=True), None),
        (
            {"huggingFace": {"repository": "a/b", "column": "c", "outputTokens": 9}},
            Lengths(None, 9, drops_long_rows=True),
            None,
        ),
        ({"agent": {"staticPrefix": {}}}, Lengths(None, None, drops_long_rows=False), None),
        ({"agent": {"dynamicPrefix": {}, "outputTokens": 9}}, Lengths(None, None, drops_long_rows=False), None),
        ({"timedTrace": {"file": FILE}}, Lengths(None, None, drops_long_rows=True), None),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_lengths(dataset: dict[str, Any], lengths: Lengths, total: int | None) -> None:
    found = lengths_of(workload_with(dataset).dataset)
    assert (found, found.total) == (lengths, total)


SHORT: dict[str, Any] = {"random": {"inputTokens": 10, "outputTokens": 1}}
LONG: dict[str, Any] = {"random": {"inputTokens": 100, "outputTokens": 1}}
OPEN: dict[str, Any] = {"custom": {"file": FILE}}


@pytest.mark.parametrize(
    ("dataset", "max_tokens", "longest"),
    [
        pytest.param(SHORT, None, 11, id="without a limit"),
        pytest.param(SHORT, 8, 8, id="cut by the limit"),
        pytest.param(SHORT, 11, 11, id="as long as the limit"),
        pytest.param({"mix": [{"workload": "s"}, {"workload": "l"}]}, None, 101, id="the longest part of a mix"),
        pytest.param({"mix": [{"workload": "l"}, {"workload": "s"}]}, 50, 50, id="cut as well"),
        pytest.param(
            {"mix": [{"workload": "l"}, {"workload": "o"}]}, 50, None, id="one part that only its data tells of"
        ),
        pytest.param(OPEN, 50, None, id="only data"),
    ],
)
def test_the_longest_request_that_the_model_takes(
    dataset: dict[str, Any], max_tokens: int | None, longest: int | None
) -> None:
    named = [
        workload_with(each).model_copy(update={"name": name}) for name, each in (("s", SHORT), ("l", LONG), ("o", OPEN))
    ]
    assert longest_request(workload_with(dataset), named, max_tokens=max_tokens) == longest
