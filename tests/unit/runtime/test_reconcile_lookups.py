"""What a pass looks up for a decision: logs, and the addresses of an endpoint."""

from __future__ import annotations

import pytest
from benchrun.decide.decision import LogRange, LogWanted, Ref
from benchrun.effects.errors import ClusterError, Forbidden, NotFound, Unavailable
from benchrun.runtime.queue import Later
from unit.runtime.bodies import NAMESPACE
from unit.runtime.scene import NOW, Scene


async def test_log_tail_is_fetched_once_and_decided_upon_at_once(scene: Scene) -> None:
    wanted = LogWanted(pod="p", container="vllm", previous=True)
    assert await scene.once(log_wanted=wanted) == 0.0
    await scene.once(log_wanted=wanted, requeue_after_seconds=5)
    assert scene.worlds[1].collected.log_tail == "the last words"
    assert scene.cluster.log.count(("log", "p", "vllm")) == 1


async def test_log_that_is_gone_is_not_asked_for_again(scene: Scene) -> None:
    scene.cluster.broken["log"] = NotFound("no such container", code=404)
    await scene.once(log_wanted=LogWanted(pod="p", container="vllm", previous=False))
    await scene.once()
    collected = scene.worlds[1].collected
    assert (collected.log_tail, collected.log_tail_tried) == (None, True)


async def test_log_is_asked_for_again_when_the_api_server_was_away(scene: Scene) -> None:
    scene.cluster.broken["log"] = Unavailable("down")
    with pytest.raises(Later):
        await scene.once(log_wanted=LogWanted(pod="p", container="vllm", previous=False))
    await scene.once(requeue_after_seconds=1)
    assert scene.worlds[1].collected.log_tail_tried is False


SEARCH = LogRange(pod="p", container="vllm", since_seconds=60)
COMPILED = "2026-11-21T11:59:30.500000000Z WARNING Triton kernel JIT compilation during inference: f. This ..."


async def test_log_is_searched_before_the_server_goes(scene: Scene) -> None:
    scene.cluster.log_text = COMPILED
    await scene.once(log_search=SEARCH, delete=(Ref("Deployment", NAMESPACE, "d", "u"),))
    assert scene.cluster.log[:2] == [("log since", "p", "60"), ("delete", "Deployment", "d")]
    await scene.once()
    collected = scene.worlds[1].collected
    assert (collected.log_searched, collected.compilations) == (True, (NOW.timestamp() - 29.5,))


@pytest.mark.parametrize("error", [Unavailable("down"), NotFound("gone", code=404), Forbidden("no", code=403)])
async def test_log_that_can_not_be_had_is_not_waited_for(scene: Scene, error: ClusterError) -> None:
    scene.cluster.broken["log since"] = error
    await scene.once(log_search=SEARCH, delete=(Ref("Deployment", NAMESPACE, "d", "u"),))
    assert ("delete", "Deployment", "d") in scene.cluster.log
    await scene.once()
    collected = scene.worlds[1].collected
    assert (collected.log_searched, collected.compilations) == (True, None)


async def test_a_log_that_never_comes_does_not_hold_the_server(scene: Scene) -> None:
    scene.cluster.log_hangs = True
    await scene.once(log_search=SEARCH, delete=(Ref("Deployment", NAMESPACE, "d", "u"),))
    assert ("delete", "Deployment", "d") in scene.cluster.log


@pytest.fixture
async def endpoint() -> Scene:
    """A run against an existing Service."""
    made = Scene()
    body = made.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]
    body["spec"] = {"endpoint": {"serviceRef": {"name": "vllm", "port": 8001}}}
    await made.listed()
    return made


async def test_endpoint_is_looked_up_by_the_name_in_the_spec(endpoint: Scene) -> None:
    endpoint.cluster.addresses = ("10.0.0.1:8001",)
    assert await endpoint.once(lookup_endpoint=True, requeue_after_seconds=5) == 0.0
    assert await endpoint.once(lookup_endpoint=True, requeue_after_seconds=5) == 5
    assert endpoint.worlds[1].collected.endpoint_addresses == ("10.0.0.1:8001",)
    assert ("endpoints", "vllm", "8001") in endpoint.cluster.log


async def test_service_that_does_not_exist_has_no_addresses(endpoint: Scene) -> None:
    endpoint.cluster.broken["endpoints"] = NotFound("no such service", code=404)
    await endpoint.once(lookup_endpoint=True)
    await endpoint.once()
    assert endpoint.worlds[1].collected.endpoint_addresses == ()
