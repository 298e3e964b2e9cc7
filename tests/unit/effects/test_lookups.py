"""Each kind of look-up against a cluster in memory: what it finds, and what it says where there is
nothing."""

from collections.abc import Mapping
from typing import Any

import pytest
from benchrun.api import MAX_COMPILATIONS
from benchrun.decide import decision
from benchrun.effects import (
    KINDS,
    About,
    ClusterError,
    Forbidden,
    NotFound,
    NotFoundOut,
    Tools,
    Unavailable,
)
from benchrun.observe import Children, Run
from benchrun_client.engines import ENGINES, StartupPhases
from unit.runtime.bodies import NAMESPACE, UID
from unit.runtime.judges import Judge
from unit.runtime.memory_cluster import MemoryCluster

VLLM = ENGINES["VLLM"]

ABOUT = About(
    Run(namespace=NAMESPACE, name="chat", uid=UID, generation=1), Children()
)
Configured = Mapping[decision.ExporterKind, decision.Exporters]
EXPORTERS: Configured = {
    "gpu": decision.Exporters("gpu-operator", "app=nvidia-dcgm-exporter", 9400)
}
NO_EXPORTERS: Configured = {}
EXPORTER = decision.ExporterPod("dcgm-x", "10.1.0.7")
TAIL = decision.LogTail(pod="p", container="server", previous=True)
LOG = decision.Compilations(
    pod="p", container="server", since="2026-11-21T11:59:00Z", engine=VLLM
)
START = decision.ServerStart(pod="p", uid="u", container="server", engine=VLLM)
PODS = decision.EndpointPods(service="vllm", port=8001)
LABELLED = decision.LabelledPods((("app", "vllm"), ("role", "")), port=8001)
COMPILED = (
    "2026-11-21T11:59:30.500000000Z WARNING Triton kernel JIT compilation during inference: f. "
    "This ..."
)
LOADED = "INFO Loading weights took 2.50 seconds"
PULLED = {
    "reason": "Pulled",
    "message": 'Successfully pulled image "v" in 7.5s',
    "involvedObject": {"fieldPath": "spec.containers{server}"},
}
ERRORS = [
    Unavailable("down"),
    NotFound("gone", code=404),
    Forbidden("no", code=403),
]


@pytest.fixture
def cluster() -> MemoryCluster:
    """Where it is looked up."""
    return MemoryCluster()


async def found(
    cluster: MemoryCluster,
    query: decision.Query[Any],
    exporters: Configured = EXPORTERS,
) -> Any:
    return await KINDS[type(query)].look_up(
        Tools(cluster, Judge(), exporters), ABOUT, query
    )


async def test_all_flavours_are_read_or_none(cluster: MemoryCluster) -> None:
    query = decision.Flavors(("cpu", "h200"))
    for name in query.names:
        with pytest.raises(NotFound):
            await found(cluster, query)
        about = {"name": name, "namespace": ""}
        spec = {"nodeLabels": {"pool": name}}
        cluster.add("ResourceFlavor", {"metadata": about, "spec": spec})
    assert [flavor.node_labels for flavor in await found(cluster, query)] == [
        (("pool", "cpu"),),
        (("pool", "h200"),),
    ]


async def test_the_end_of_the_failed_containers_log(cluster: MemoryCluster) -> None:
    assert await found(cluster, TAIL) == "the last words"
    assert cluster.log == [("log", "p", "server")]


@pytest.mark.parametrize(
    ("log", "instants"),
    [(COMPILED, (1_795_262_370.5,)), ("INFO nothing of the kind", ())],
)
async def test_when_kernels_were_compiled(
    cluster: MemoryCluster, log: str, instants: tuple[float, ...]
) -> None:
    cluster.log_text = log
    assert await found(cluster, LOG) == instants
    assert cluster.log == [("log since", "p", LOG.since)]


async def test_as_many_compilations_as_are_kept(cluster: MemoryCluster) -> None:
    cluster.log_text = "\n".join([COMPILED] * MAX_COMPILATIONS)
    assert len(await found(cluster, LOG)) == MAX_COMPILATIONS


@pytest.mark.parametrize(
    ("log", "is_whole"),
    [
        pytest.param(
            "INFO nothing of the kind", False, id="none in the part that was read"
        ),
        pytest.param(
            COMPILED, False, id="one in the part that was read: there may be more"
        ),
        pytest.param(
            "\n".join([COMPILED] * (MAX_COMPILATIONS + 1)),
            True,
            id="more than are kept",
        ),
    ],
)
async def test_compilations_that_are_not_known(
    cluster: MemoryCluster, log: str, is_whole: bool
) -> None:
    cluster.log_text = log
    cluster.log_is_whole = is_whole
    with pytest.raises(NotFoundOut):
        await found(cluster, LOG)


async def test_how_a_server_started(cluster: MemoryCluster) -> None:
    cluster.log_text = LOADED
    cluster.image_pulls = (PULLED,)
    assert await found(cluster, START) == decision.Start(
        StartupPhases(load=2.5), image_pull_seconds=7.5
    )
    assert cluster.log == [("log head", "p", "server"), ("image events", "u")]


async def test_pods_by_their_labels(cluster: MemoryCluster) -> None:
    # An answer, which replaces the one before: the addresses may be those of other pods by now.
    assert await found(cluster, LABELLED) == ()
    cluster.addresses = ("10.0.0.1:8001", "10.0.0.2:8001")
    assert await found(cluster, LABELLED) == cluster.addresses
    assert cluster.log[1:] == [("pod addresses", "app=vllm,role=", "8001")]
    assert KINDS[decision.LabelledPods].again_seconds == 4.0


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("verb", "start"),
    [
        ("log head", decision.Start(StartupPhases(), image_pull_seconds=7.5)),
        (
            "image events",
            decision.Start(StartupPhases(load=2.5), image_pull_seconds=None),
        ),
    ],
)
async def test_one_half_of_a_start_may_be_missing(
    cluster: MemoryCluster, verb: str, start: decision.Start, error: ClusterError
) -> None:
    cluster.log_text = LOADED
    cluster.image_pulls = (PULLED,)
    cluster.broken[verb] = error
    assert await found(cluster, START) == start


async def test_the_exporter_of_a_node(cluster: MemoryCluster) -> None:
    cluster.exporters["n1"] = EXPORTER
    assert await found(cluster, decision.Exporter("gpu", "n1")) == EXPORTER
    assert cluster.log == [("exporter", "gpu-operator", "n1")]
    with pytest.raises(NotFoundOut, match="n2"):
        await found(cluster, decision.Exporter("gpu", "n2"))


@pytest.mark.parametrize(
    ("kind", "exporters"), [("gpu", NO_EXPORTERS), ("cpu", EXPORTERS)]
)
async def test_without_exporters_nothing_is_queried(
    cluster: MemoryCluster, kind: decision.ExporterKind, exporters: Configured
) -> None:
    with pytest.raises(NotFoundOut):
        await found(cluster, decision.Exporter(kind, "n1"), exporters=exporters)
    assert cluster.log == []


async def test_the_pods_behind_a_service(cluster: MemoryCluster) -> None:
    cluster.addresses = ("10.0.0.1:8001", "10.0.0.2:8001")
    assert await found(cluster, PODS) == cluster.addresses
    assert cluster.log == [("endpoints", "vllm", "8001")]


async def test_a_service_without_ready_pods_is_re_requested(
    cluster: MemoryCluster,
) -> None:
    with pytest.raises(NotFoundOut, match="vllm"):
        await found(cluster, PODS)
    assert KINDS[decision.EndpointPods].retry_seconds == 4.0


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("verb", "query"),
    [
        ("log", TAIL),
        ("log since", LOG),
        ("exporter", decision.Exporter("gpu", "n1")),
        ("endpoints", PODS),
        ("pod addresses", LABELLED),
    ],
)
async def test_what_the_api_server_says_no_to_is_passed_on(
    cluster: MemoryCluster,
    verb: str,
    query: decision.Query[Any],
    error: ClusterError,
) -> None:
    cluster.broken[verb] = error
    with pytest.raises(type(error), match=str(error)):
        await found(cluster, query)
