"""Kinds that a cluster may lack: what is said where they are missing, and how they are deleted."""

import pytest
from benchrun.decide import Ref
from benchrun.effects import Forbidden, NotFound, NotServed
from unit.effects.scripted_api import Answer, Json, answering, gives, refuses

NO_SUCH_PATH = Answer(404, b"404 page not found\n")


def manifest(kind: str, version: str) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "g", "namespace": "lab"}}


async def test_a_kind_that_is_not_served_differs_from_one_that_is() -> None:
    async with answering(NO_SUCH_PATH) as exchange:
        with pytest.raises(NotServed, match=r"^this cluster has no leaderworkersets\.leaderworkerset\.x-k8s\.io$"):
            await exchange.api.apply(manifest("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"))
    assert exchange.writes == [("POST", "leaderworkersets", "404")]


async def test_a_missing_namespace_is_named_for_builtin_kinds() -> None:
    async with answering(refuses(404, "NotFound", "namespaces lab not found")) as exchange:
        with pytest.raises(NotFound, match="namespaces lab not found") as raised:
            await exchange.api.apply(manifest("Service", "v1"))
    assert not isinstance(raised.value, NotServed)


async def test_a_webhook_that_does_not_answer_is_a_refusal_with_its_name() -> None:
    words = 'Internal error occurred: failed calling webhook "mleaderworkerset.kb.io": connection refused'
    async with answering(refuses(500, "InternalError", words)) as exchange:
        with pytest.raises(Forbidden, match=r"mleaderworkerset\.kb\.io"):
            await exchange.api.apply(manifest("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"))


async def test_groups_are_deleted_in_the_foreground() -> None:
    async with answering(gives({})) as exchange:
        await exchange.api.delete(Ref("LeaderWorkerSet", "lab", "g", "uid-9"))
    (request,) = exchange.requests
    assert request.path == "/apis/leaderworkerset.x-k8s.io/v1/namespaces/lab/leaderworkersets/g"
    assert request.body is not None
    assert (request.body["propagationPolicy"], request.body["preconditions"]) == ("Foreground", {"uid": "uid-9"})


async def test_deleting_where_the_kind_is_gone_is_a_success() -> None:
    async with answering(NO_SUCH_PATH) as exchange:
        await exchange.api.delete(Ref("LeaderWorkerSet", "lab", "g", "uid-9"))
    assert len(exchange.requests) == 1
