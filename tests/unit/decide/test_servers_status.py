"""`status.servers` says what really ran, and still does when the pods are gone."""

from __future__ import annotations

from benchrun.measure.samples import ServerFacts
from unit.decide.scenes import URL_ENDPOINT, Scene

FACTS = ServerFacts(version="0.32.0", kv_cache_tokens=12_000, reported={"block_size": "16"})
POD = {"image": "vllm:1", "image_digest": "vllm@sha256:1", "gpus": 1, "args": ("m", "--port=8000")}
KNOWN = Scene().measuring().pod("server", **POD).knowing(facts={"server-1": FACTS}).settled()


def test_what_ran_where_with_what() -> None:
    (server,) = KNOWN.decide().status.servers
    assert (server.pod, server.node, server.image_digest, server.gpus) == ("server-1", "n1", "vllm@sha256:1", 1)
    assert (server.version, server.kv_cache_tokens, server.reported) == ("0.32.0", 12_000, {"block_size": "16"})
    assert server.args == ["m", "--port=8000"]


def test_how_long_it_took_to_start() -> None:
    (server,) = KNOWN.decide().status.servers
    assert server.seconds_to_ready == 40.0  # scheduled at 20, healthy at 60


def test_after_a_restart_of_the_operator_what_was_known_stays() -> None:
    assert KNOWN.operator_restarted().decide().status.servers == KNOWN.decide().status.servers


def test_provenance_outlives_the_server() -> None:
    before = KNOWN.decide().status.servers
    assert KNOWN.without("Deployment", "server").decide().status.servers == before
    assert KNOWN.arrived(0, 1).decide().status.servers == before


def test_when_it_was_scheduled_stays_when_the_pod_is_gone() -> None:
    ended = KNOWN.without("Deployment", "server").decide().status
    assert ended.scheduled_time == "2026-01-01T00:00:20Z"


def test_nothing_of_a_pod_is_said_of_its_successor() -> None:
    known = Scene().server_loading().pod("server", **POD).knowing(facts={"server-1": FACTS}).settled()
    (server,) = known.pod("server", name="server-2", image_digest=None).decide().status.servers
    assert (server.pod, server.version, server.image_digest) == ("server-2", None, None)


def test_an_endpoint_says_its_version_and_nothing_of_its_pods() -> None:
    (server,) = Scene(spec=URL_ENDPOINT).measuring().knowing(facts={"10.0.0.7:8000": FACTS}).decide().status.servers
    assert (server.version, server.pod, server.gpu_reason) == ("0.32.0", None, "an endpoint's pods are not inspected")


def test_the_size_of_the_run_is_told_at_once() -> None:
    estimate = Scene().decide().status.estimate
    assert estimate is not None
    # 100 requests at 1/s and 100 at 4/s, on one GPU
    assert (estimate.stages, estimate.requests, estimate.gpu_seconds) == (2, 200, 125)
