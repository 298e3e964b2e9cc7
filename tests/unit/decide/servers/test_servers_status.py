"""`status.servers` says what really ran, and still does when the pods are gone."""

from dataclasses import replace

from benchrun.measure import ServerFacts
from unit.decide.scenes import URL_ENDPOINT, Scene

FACTS = ServerFacts(
    version="0.32.0", kv_cache_tokens=12_000, reported={"block_size": "16"}
)
TWO = {"image": "v", "replicas": 2, "resources": {"limits": {"nvidia.com/gpu": 1}}}
POD = {
    "image": "vllm:1",
    "image_digest": "vllm@sha256:1",
    "gpus": 1,
    "args": ("m", "--port=8000"),
}
KNOWN = (
    Scene()
    .measuring()
    .pod("server", **POD)
    .knowing(server_facts={"server-1": FACTS})
    .settled()
)


def test_the_server_status_has_pod_node_image_and_gpus() -> None:
    (server,) = KNOWN.ended().status.servers
    assert (server.pod, server.node, server.image_digest, server.gpus) == (
        "server-1",
        "n1",
        "vllm@sha256:1",
        1,
    )
    assert (server.version, server.kv_cache_tokens, server.reported) == (
        "0.32.0",
        12_000,
        {"block_size": "16"},
    )
    assert server.args == ["m", "--port=8000"]


def test_how_long_it_took_to_start() -> None:
    (server,) = KNOWN.ended().status.servers
    assert server.seconds_to_ready == 40.0  # scheduled at 20, healthy at 60


def test_after_a_restart_of_the_operator_what_was_known_stays() -> None:
    assert (
        KNOWN.operator_restarted().ended().status.servers
        == KNOWN.ended().status.servers
    )


def test_provenance_outlives_the_server() -> None:
    before = KNOWN.ended().status.servers
    assert KNOWN.without("Deployment", "server").ended().status.servers == before
    assert KNOWN.arrived(0, 1).ended().status.servers == before


def test_when_it_was_scheduled_stays_when_the_pod_is_gone() -> None:
    assert (
        KNOWN.without("Deployment", "server").ended().status.scheduled_time
        == "2026-01-01T00:00:20Z"
    )


def test_a_replacement_pod_does_not_inherit_figures() -> None:
    known = (
        Scene()
        .server_loading()
        .pod("server", **POD)
        .knowing(server_facts={"server-1": FACTS})
        .settled()
    )
    (server,) = (
        known.pod("server", name="server-2", image_digest=None)
        .ended()
        .status.servers
    )
    assert (server.pod, server.version, server.image_digest) == (
        "server-2",
        None,
        None,
    )


def test_an_endpoint_says_its_version_and_nothing_of_its_pods() -> None:
    (server,) = (
        Scene(spec=URL_ENDPOINT)
        .measuring()
        .knowing(server_facts={"10.0.0.7:8000": FACTS})
        .ended()
        .status.servers
    )
    assert (server.version, server.pod, server.gpu_reason) == (
        "0.32.0",
        None,
        "the operator reads no GPU figures of an endpoint's pods",
    )


def test_the_size_of_the_run_is_reported_at_once() -> None:
    estimate = Scene().ended().status.estimate
    assert estimate is not None
    # 100 requests at 1/s and 100 at 4/s, on one GPU
    assert (estimate.stages, estimate.requests, estimate.gpu_seconds) == (
        2,
        200,
        125,
    )


def addresses(scene: Scene) -> list[str]:
    (server,) = scene.ended().status.servers
    return server.addresses


def test_where_the_servers_were_is_known_once_their_pods_are_gone() -> None:
    two = (
        Scene()
        .measuring()
        .another_server("server-2", ip="10.0.0.10")
        .with_spec(server=TWO)
        .settled()
    )
    assert addresses(two) == ["10.0.0.9", "10.0.0.10"]
    one_left = replace(
        two, pods=tuple(pod for pod in two.pods if pod.name != "server-1")
    )
    assert sorted(addresses(one_left)) == ["10.0.0.10", "10.0.0.9"]
    assert addresses(
        one_left.settled().without("Deployment", "server")
    ) == addresses(one_left)


def test_a_pod_without_an_address_has_none_and_those_of_replaced_ones_are_bounded() -> (
    None
):
    assert addresses(Scene().server_pending()) == []
    scene = Scene().server_loading()
    for number in range(40):
        scene = scene.pod(
            "server", name=f"server-{number}", ip=f"10.1.0.{number}"
        ).settled()
    assert (len(addresses(scene)), addresses(scene)[:2]) == (
        32,
        ["10.1.0.39", "10.1.0.38"],
    )


def test_pods_that_answer_nobody_have_no_part_in_it() -> None:
    scene = (
        Scene()
        .measuring()
        .another_server("server-1-1", ip="10.0.0.11", rank=1)
        .with_spec(server=TWO)
    )
    assert addresses(scene) == ["10.0.0.9"]


def test_an_endpoint_has_no_addresses_of_ours() -> None:
    assert addresses(Scene(spec=URL_ENDPOINT).measuring()) == []
