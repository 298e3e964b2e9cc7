"""The manifest that measures the same again."""

from __future__ import annotations

import yaml
from benchrun.api import BenchmarkRunSpec
from benchrun.names import MAX_RUN_NAME
from benchrun.report.html.sections.provenance import manifest
from unit.report.html.reported_runs import (
    measured,
    reported,
)


def test_the_manifest_measures_the_same_under_another_name() -> None:
    body = yaml.safe_load(manifest(reported()))
    assert body["apiVersion"] == "benchrun.dev/v1alpha1"
    assert body["kind"] == "BenchmarkRun"
    assert body["metadata"] == {"name": "measured-again", "namespace": "lab"}
    assert BenchmarkRunSpec.model_validate(body["spec"]) == measured().spec


def test_what_was_said_to_the_one_run_is_left_out() -> None:
    body = yaml.safe_load(manifest(reported(written={**measured().body, "cancel": True, "suspend": True})))
    assert {"cancel", "suspend"} & set(body["spec"]) == set()


def test_a_long_name_stays_one_that_a_run_may_have() -> None:
    name = yaml.safe_load(manifest(reported(name="a" * (MAX_RUN_NAME - 7) + "-" + "b" * 6)))["metadata"]["name"]
    assert len(name) <= MAX_RUN_NAME
    assert name.endswith("a-again")


def test_the_manifest_begins_with_model_and_server_however_the_cluster_ordered_it() -> None:
    written = dict(sorted(measured().body.items()))
    assert list(yaml.safe_load(manifest(reported(written=written)))["spec"])[:3] == ["model", "server", "workloads"]
