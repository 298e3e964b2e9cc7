"""The Lease as it goes over the wire."""

from __future__ import annotations

import pytest
from benchrun.effects.connection import Connection
from benchrun.effects.errors import ClusterError, Conflict, Exists, Forbidden, NotFound
from benchrun.effects.lease import LeaseApi
from unit.effects.scripted_api import Answer, Json, answering, gives, refuses

LEASES = "/apis/coordination.k8s.io/v1/namespaces/benchrun/leases"
LEASE: Json = {"metadata": {"name": "op", "resourceVersion": "7"}, "spec": {"holderIdentity": "a"}}


def api(connection: Connection) -> LeaseApi:
    """Of one Lease."""
    return LeaseApi(connection, namespace="benchrun", name="op")


async def test_it_is_read_and_made_and_replaced_by_name_with_the_version_that_was_read() -> None:
    async with answering(gives(LEASE), gives(LEASE), gives(LEASE)) as said:
        leases = api(said.connection)
        assert await leases.read() == await leases.create(LEASE["spec"]) == await leases.replace(LEASE) == LEASE
    made = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "op", "namespace": "benchrun"},
        "spec": LEASE["spec"],
    }
    assert [(each.method, each.path, each.body) for each in said.asked] == [
        ("GET", f"{LEASES}/op", None),
        ("POST", LEASES, made),
        ("PUT", f"{LEASES}/op", LEASE),
    ]


async def test_one_that_is_not_there_is_none() -> None:
    async with answering(refuses(404, "NotFound")) as said:
        assert await api(said.connection).read() is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refuses(409, "Conflict"), Conflict),
        (refuses(409, "AlreadyExists"), Exists),
        (refuses(404, "NotFound"), NotFound),
        (refuses(403, "Forbidden"), Forbidden),
    ],
)
async def test_who_was_too_late_or_may_not_is_told(answer: Answer, error: type[ClusterError]) -> None:
    async with answering(answer, answer) as said:
        with pytest.raises(error):
            await api(said.connection).replace(LEASE)
        with pytest.raises(error):
            await api(said.connection).create({})
