"""Adapters that requests are for must be among those that the server loads."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.preflight.adapters import adapter_remarks
from benchrun_client.engines import ENGINES
from unit.api.spec_cases import absent, minimal

ASKED = [{"name": "sql", "percent": 40}, {"name": "talk", "percent": 20}]


def remarks(args: list[str], **changes: Any) -> list[tuple[str, str, str]]:
    """Return the remarks on a server with these arguments."""
    body = {"server.args": args, "workloads.0.request.adapters": ASKED} | changes
    spec = BenchmarkRunSpec.model_validate(minimal(body))
    return [
        (each.level, each.path, each.text.split()[0])
        for each in adapter_remarks(spec)
    ]


@pytest.mark.parametrize(
    ("missing", "args"),
    [
        (["sql", "talk"], []),
        (["talk"], ["--enable-lora", "--lora-modules", "sql=/a", "--max-loras=2"]),
        ([], ["--lora-modules", "sql=/a", "talk=/b"]),
        (
            [],
            [
                "--lora_modules=sql=/a",
                "--lora-modules",
                '{"name": "talk", "path": "/b"}',
            ],
        ),
        (["sql"], ["--lora-modules", "7", "talk=/b"]),
    ],
)
def test_each_adapter_that_is_not_loaded_is_an_error(
    missing: list[str], args: list[str]
) -> None:
    at = "spec.workloads[0].request.adapters"
    assert remarks(args) == [("Error", at, name) for name in missing]


def test_those_of_an_endpoint_are_not_known() -> None:
    body = {
        "server": absent(),
        "endpoint": {"url": "http://llm"},
        "workloads.0.request.adapters": ASKED,
    }
    spec = BenchmarkRunSpec.model_validate(minimal(body))
    assert adapter_remarks(spec) == []


@pytest.mark.parametrize(
    ("by_lot", "args"),
    [
        (
            True,
            ["--speculative-config", '{"rejection_sample_method": "synthetic"}'],
        ),
        (True, ["--speculative-config.rejection_sample_method=synthetic"]),
        (True, ["--speculative_config.rejection_sample_method", "synthetic"]),
        (
            False,
            ["--speculative-config", '{"rejection_sample_method": "standard"}'],
        ),
        (False, ["--speculative-config", '{"method": "ngram"}']),
        (False, []),
    ],
)
def test_acceptance_by_lot_is_seen_in_the_arguments(
    by_lot: bool, args: list[str]
) -> None:
    assert ENGINES["VLLM"].accepts_by_lot(args) is by_lot
