"""The page of ports, mesh and egress: its ports are the code's, its values the chart's, and its
policies what the API takes."""

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml
from benchrun.plan import RunDefaults
from benchrun_client.contract import GATE_PORT, READER_PORT, RECORD_PORT
from benchrun_client.engines import ENGINES
from chart.rendering import REPOSITORY, render
from chart.test_run_defaults import given

PAGE = (REPOSITORY / "docs" / "network.md").read_text()
BLOCKS: list[dict[str, Any]] = [
    body
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for body in yaml.safe_load_all(block)
]
POLICIES = [body for body in BLOCKS if "apiVersion" in body]
VALUES = [body for body in BLOCKS if "apiVersion" not in body]


def ports_between(whence: str, where: str) -> set[int]:
    """The ports in rows of the table that begin so."""
    rows = re.findall(rf"^\| {whence} \| {where} \| (.*?) \|", PAGE, re.MULTILINE)
    return {int(port) for row in rows for port in re.findall(r"\d+", row)}


def test_the_ports_of_the_page_are_those_of_the_code() -> None:
    engines = {engine.port for engine in ENGINES.values()}
    assert ports_between("operator", "servers") == engines
    assert ports_between("client", "servers.*?") == engines | {READER_PORT}
    assert ports_between("operator", "clients") == {RECORD_PORT}
    assert ports_between("client", "its other pods") == {GATE_PORT}


@pytest.mark.parametrize(
    "policy", POLICIES, ids=lambda body: body["metadata"]["name"]
)
def test_its_policies_are_accepted(policy: dict[str, Any]) -> None:
    kubernetes_validate.validate(
        policy, kubernetes_validate.latest_version(), strict=True
    )


@pytest.mark.parametrize("values", VALUES, ids=lambda body: "+".join(body))
def test_its_values_are_the_charts(values: dict[str, Any]) -> None:
    assert given(values) == RunDefaults.model_validate(values["runs"])
    assert render(values, component="release")


def test_all_of_them_are_read() -> None:
    assert (len(POLICIES), len(VALUES)) == (2, 2)
