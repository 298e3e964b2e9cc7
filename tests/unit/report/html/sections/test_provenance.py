"""What was measured with what."""

from dataclasses import replace

import yaml
from benchrun.api import BenchmarkRunSpec, ClientStatus, DatasetStatus
from benchrun.names import MAX_RUN_NAME
from benchrun.report.html import FactList
from benchrun.report.html.sections.provenance import manifest, provenance_section
from unit.report.html.reported_runs import (
    measured,
    reported,
    tables_of,
    with_status,
)


def test_provenance_names_what_really_ran() -> None:
    pairs = [
        pair
        for block in provenance_section(reported()).elements
        if isinstance(block, FactList)
        for pair in block.pairs
    ]
    server = measured().status.servers[0]
    assert ("Image that ran", server.image_digest) in pairs
    assert ("GPU", "NVIDIA-H100-80GB-HBM3") in pairs
    assert ("UID", measured().uid) in pairs
    assert ("Load engine", "vllm 0.32.0") in pairs


def test_provenance_names_what_the_platform_set() -> None:
    given = reported()
    (server, *others) = given.status.servers
    defaults = {"nodeSelector": "{pool: gpu}", "env.A": "1"}
    client = ClientStatus(defaults={"env.B": "2"})
    servers = [server.model_copy(update={"defaults": defaults}), *others]
    changed = with_status(given, servers=servers, client=client)
    told = [
        value
        for block in provenance_section(changed).elements
        if isinstance(block, FactList)
        for name, value in block.pairs
        if name == "From the platform's defaults"
    ]
    assert told == ["nodeSelector {pool: gpu}; env.A 1", "env.B 2"]


def test_the_users_labels_stand_beside_the_name() -> None:
    """What other tools call metadata: whose run it is, and of which build."""
    run = reported()
    labelled = replace(
        run, declared=replace(run.declared, labels=(("build", "7"), ("team", "x")))
    )
    first = next(
        e for e in provenance_section(labelled).elements if isinstance(e, FactList)
    )
    assert ("Labels", "build=7, team=x") in first.pairs


def test_data_that_was_read_is_named_with_what_was_left_out() -> None:
    data = DatasetStatus(
        name="chat",
        source="/data/x.json",
        sha256="d" * 64,
        rows_read=9,
        rows_used=5,
        rows_dropped={"too long": 4},
    )
    tables = tables_of(provenance_section(with_status(reported(), datasets=[data])))
    assert ("chat", "/data/x.json", "9", "5", "4 too long", "d" * 64) in [
        row for table in tables for row in table.rows.rows
    ]


def test_the_digest_of_every_stage_s_traffic_is_there() -> None:
    digests = {
        load_point
        for table in tables_of(provenance_section(reported()))
        for row in table.rows.rows
        for load_point in row
    }
    assert {record.prompts_digest for record in measured().records} <= digests


def test_the_manifest_measures_the_same_under_another_name() -> None:
    body = yaml.safe_load(manifest(reported().declared))
    assert (body["apiVersion"], body["kind"]) == (
        "benchrun.dev/v1alpha1",
        "BenchmarkRun",
    )
    assert body["metadata"] == {"name": "measured-again", "namespace": "lab"}
    assert BenchmarkRunSpec.model_validate(body["spec"]) == measured().spec


def test_what_was_said_to_the_one_run_is_left_out() -> None:
    body = yaml.safe_load(
        manifest(
            replace(
                reported().declared,
                spec={**measured().body, "cancel": True, "suspend": True},
            )
        )
    )
    assert {"cancel", "suspend"} & set(body["spec"]) == set()


def test_a_long_name_stays_one_that_a_run_may_have() -> None:
    declared = replace(
        reported().declared, name="a" * (MAX_RUN_NAME - 7) + "-" + "b" * 6
    )
    name = yaml.safe_load(manifest(declared))["metadata"]["name"]
    assert len(name) <= MAX_RUN_NAME
    assert name.endswith("a-again")


def test_the_manifest_begins_with_model_and_server_however_the_cluster_ordered_it() -> (
    None
):
    written = dict(sorted(measured().body.items()))
    body = yaml.safe_load(manifest(replace(reported().declared, spec=written)))
    assert list(body["spec"])[:3] == ["model", "server", "workloads"]
