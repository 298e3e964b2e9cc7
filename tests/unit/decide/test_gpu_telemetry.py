"""The exporter on a server's node is looked for once, and its page is read beside the server's
own."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from benchrun.decide import (
    SEVERAL_NODES,
    Answer,
    Decision,
    Exporter,
    ExporterEndpoint,
    ExporterKind,
    ExporterPod,
    Exporters,
    PodRoad,
    decide,
)
from unit.decide.scenes import URL_ENDPOINT, Scene
from unit.decide.test_many_nodes import RUN, with_gpus, with_worker

EXPORTERS: Mapping[ExporterKind, Exporters] = {
    "gpu": Exporters("gpu-operator", "app=nvidia-dcgm-exporter", 9400)
}
NO_EXPORTERS: Mapping[ExporterKind, Exporters] = {}
EXPORTER = ExporterPod("dcgm-x", "10.1.0.7")
ASKED = Exporter("gpu", "n1")
MEASURING = Scene().measuring().pod("server", gpus=2)
FOUND = MEASURING.with_answers({ASKED: Answer(EXPORTER)})


def decided(
    scene: Scene,
    *,
    exporters: Mapping[ExporterKind, Exporters] = EXPORTERS,
    road: PodRoad = "Direct",
) -> Decision:
    facts = scene.facts()
    return decide(
        replace(
            facts,
            context=replace(facts.context, exporters=exporters, pod_road=road),
        )
    )


def wanted(decision: Decision) -> list[Exporter]:
    return [query for query in decision.lookups if isinstance(query, Exporter)]


def page(decision: Decision) -> ExporterEndpoint | None:
    [target] = decision.scrape
    return next(iter(target.exporters), None)


def reason(decision: Decision) -> str | None:
    [server] = decision.status.servers
    return server.no_gpu_telemetry_reason


def test_the_node_of_a_server_with_gpus_is_requested() -> None:
    decision = decided(MEASURING)
    assert (wanted(decision), page(decision), reason(decision)) == (
        [ASKED],
        None,
        None,
    )


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(Scene().measuring(), id="a server without GPUs"),
        pytest.param(
            Scene().server_loading().pod("server", gpus=2), id="one that loads"
        ),
        pytest.param(Scene(spec=URL_ENDPOINT).measuring(), id="an endpoint"),
    ],
)
def test_nobody_else_is(scene: Scene) -> None:
    assert wanted(decided(scene)) == []


def test_without_configured_exporters_there_are_none() -> None:
    decision = decided(FOUND, exporters=NO_EXPORTERS)
    assert (wanted(decision), page(decision), reason(decision)) == ([], None, None)


def test_its_page_is_read_beside_the_servers_own() -> None:
    decision = decided(FOUND)
    assert page(decision) == ExporterEndpoint(
        "gpu", "http://10.1.0.7:9400/metrics", namespace="lab"
    )
    assert reason(decision) is None


def test_through_the_api_server_where_pods_are_not_reached() -> None:
    path = "/api/v1/namespaces/gpu-operator/pods/dcgm-x:9400/proxy/metrics"
    assert page(decided(FOUND, road="Proxy")) == ExporterEndpoint(
        "gpu", path, namespace="lab"
    )


def test_an_ipv6_address_stands_in_brackets() -> None:
    found = page(
        decided(
            MEASURING.with_answers(
                {ASKED: Answer(ExporterPod("dcgm-x", "fd00::7"))}
            )
        )
    )
    assert found is not None
    assert found.url == "http://[fd00::7]:9400/metrics"


def test_a_node_without_exporter_is_the_reason_and_is_re_requested() -> None:
    decision = decided(MEASURING.with_answers({ASKED: Answer(None, "none")}))
    assert (wanted(decision), page(decision)) == ([ASKED], None)
    assert reason(decision) == "no GPU exporter runs on node n1: install one there"


def test_a_page_that_reports_nothing_is_the_reason() -> None:
    scene = FOUND.knowing(
        exporter_troubles={
            ("gpu", "server-1"): "the exporter's page has no GPU of this pod"
        }
    )
    assert reason(decided(scene)) == "the exporter's page has no GPU of this pod"


def test_a_server_over_several_nodes_has_gpus_elsewhere() -> None:
    """Half of its power would pass for all of it."""
    decision = decided(
        with_worker(with_gpus(RUN.measuring())).with_answers(
            {ASKED: Answer(EXPORTER)}
        )
    )
    assert (wanted(decision), page(decision), reason(decision)) == (
        [],
        None,
        SEVERAL_NODES,
    )


CPU = Exporter("cpu", "n1")
BOTH = {**EXPORTERS, "cpu": Exporters("monitoring", "app=cadvisor", 8080)}
WITH_CADVISOR = FOUND.with_answers(
    {ASKED: Answer(EXPORTER), CPU: Answer(ExporterPod("cadvisor-x", "10.1.0.8"))}
)


def test_cadvisor_is_looked_for_and_read_in_the_same_way() -> None:
    assert wanted(decided(MEASURING, exporters=BOTH)) == [ASKED, CPU]
    [target] = decided(WITH_CADVISOR, exporters=BOTH).scrape
    assert target.exporters == (
        ExporterEndpoint("gpu", "http://10.1.0.7:9400/metrics", namespace="lab"),
        ExporterEndpoint("cpu", "http://10.1.0.8:8080/metrics", namespace="lab"),
    )


def test_of_a_server_without_gpus_it_is_read_alone() -> None:
    assert wanted(decided(Scene().measuring(), exporters=BOTH)) == [CPU]


def test_its_troubles_are_no_reason_for_missing_figures_of_gpus() -> None:
    assert (
        reason(
            decided(
                WITH_CADVISOR.knowing(
                    exporter_troubles={("cpu", "server-1"): "broken"}
                ),
                exporters=BOTH,
            )
        )
        is None
    )
