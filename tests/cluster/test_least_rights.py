"""Every right that the chart gives the operator is used: without it, one thing that the operator
does is refused.

Each right is taken away from a role of its own, which somebody has who exists for this test only.
The operator's own code then asks the API server in their name."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.child_kinds import KINDS, WORKLOAD
from benchrun.decide import Event, LogTail, Ref, ServerStart
from benchrun.effects import (
    RESOURCES,
    ClusterError,
    Connection,
    Forbidden,
    KubernetesApi,
    Resource,
    configuration,
)
from benchrun.names import KIND
from benchrun.observe import Run, Sweep
from benchrun_client.engines import ENGINES
from chart.rendering import PROXY, Object, render
from chart.test_permissions import OWN_ROLE, named
from kit.kubectl import Namespace
from kit.polling import polling

VLLM = ENGINES["VLLM"]

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
# Rights over Workloads are off by default; with them come flavours, which no Role of a namespace can
# allow (tests/chart/test_permissions.py, tests/cluster/test_kueue.py).
CHILDREN = tuple(kind for kind in KINDS if kind != WORKLOAD)
LEASE = Resource("coordination.k8s.io", "v1", "leases")
SECRET = Resource("", "v1", "secrets")
LEASE_NAME = "benchrun-operator"
SECRET_NAME = "benchrun-channel-key"


class Somebody:
    """The operator's code in somebody's name."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.connection = connection
        self.namespace = namespace
        self.api = KubernetesApi(connection, count=lambda *_: None)

    def run(self) -> Run:
        return Run(
            namespace=self.namespace, name="none", uid="of-none", generation=1
        )

    def sweep(self) -> Sweep:
        return Sweep(
            namespace=self.namespace, name="none", uid="of-none", generation=1
        )

    def manifest(self, kind: str) -> Object:
        """Too little to be stored, so that whoever may create it is told that it is invalid."""
        resource = RESOURCES[kind]
        meta = {"name": "none", "namespace": self.namespace}
        wrong = {"data": {"not a key": ""}} if kind == "ConfigMap" else {"spec": {}}
        return {
            "apiVersion": f"{resource.group}/{resource.version}".lstrip("/"),
            "kind": kind,
            "metadata": meta,
            **wrong,
        }

    async def list(self, kind: str) -> None:
        async for _ in self.api.list(
            kind, namespace=self.namespace, metadata_only=True
        ):
            pass

    async def watch(self, kind: str) -> None:
        query = (("watch", "true"), ("timeoutSeconds", "1"))
        await self.connection.request(
            "GET", RESOURCES[kind].path(self.namespace), query=query, limit_bytes=1
        )

    async def through(self, method: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/none:8090/proxy/records"
        await self.connection.request(
            method, path, limit_bytes=1, timeout_seconds=10
        )

    async def raw(
        self, method: str, resource: Resource, name: str | None = None
    ) -> None:
        body = (
            None
            if method == "GET"
            else {"metadata": {"name": "-" if name is None else name}}
        )
        await self.connection.json(
            method, resource.path(self.namespace, name), body=body
        )


Operation = Callable[[Somebody], Awaitable[Any]]


def of_kind(kind: str) -> dict[str, tuple[str, Operation]]:
    """What the operator does with children of a kind. Groups over nodes are not watched;
    policies are left to the garbage collector."""
    resource = RESOURCES[kind]
    name = f"{resource.group}/{resource.plural}"
    found: dict[str, tuple[str, Operation]] = {
        f"{name} get": (
            "a name that is taken can't be told from one of ours",
            lambda who: who.api.get(kind, namespace=who.namespace, name="none"),
        ),
        f"{name} list": (
            "a restarted operator finds nothing",
            lambda who: who.list(kind),
        ),
        f"{name} create": (
            "nothing is started or stored",
            lambda who: who.api.apply(who.manifest(kind)),
        ),
    }
    if KINDS[kind].is_watched:
        found[f"{name} watch"] = (
            "what happens is heard of only when all is listed",
            lambda who: who.watch(kind),
        )
    if KINDS[kind].is_deleted:
        found[f"{name} delete"] = (
            "it is never let go",
            lambda who: who.api.delete(Ref(kind, who.namespace, "none", "u")),
        )
    return found


RUNS = "benchrun.dev/benchmarkruns"
SWEEPS = "benchrun.dev/benchmarksweeps"
RIGHTS: dict[str, tuple[str, Operation]] = {
    f"{RUNS} get": (
        "a run that changed is not read again",
        lambda who: who.api.get(KIND, namespace=who.namespace, name="none"),
    ),
    f"{RUNS} list": ("no run is found", lambda who: who.list(KIND)),
    f"{RUNS} watch": ("no run is heard of", lambda who: who.watch(KIND)),
    f"{RUNS} create": (
        "a sweep starts no run",
        lambda who: who.api.apply(who.manifest(KIND)),
    ),
    f"{RUNS} patch": (
        "a sweep can't cancel its runs",
        lambda who: who.api.cancel_run(Ref(KIND, who.namespace, "none", "u")),
    ),
    f"{RUNS} delete": (
        "ttlSecondsAfterFinished does nothing",
        lambda who: who.api.delete(Ref(KIND, who.namespace, "none", "u")),
    ),
    f"{RUNS}/status patch": (
        "a run tells nothing",
        lambda who: who.api.patch_status(
            who.run(), resource_version="1", changes={}
        ),
    ),
    f"{SWEEPS} get": (
        "a sweep that changed is not read again",
        lambda who: who.api.get(SWEEP_KIND, namespace=who.namespace, name="none"),
    ),
    f"{SWEEPS} list": ("no sweep is found", lambda who: who.list(SWEEP_KIND)),
    f"{SWEEPS} watch": ("no sweep is heard of", lambda who: who.watch(SWEEP_KIND)),
    f"{SWEEPS}/status patch": (
        "a sweep tells nothing",
        lambda who: who.api.patch_status(
            who.sweep(), resource_version="1", changes={}
        ),
    ),
    **{right: told for kind in CHILDREN for right, told in of_kind(kind).items()},
    "/pods list": ("no pod is found", lambda who: who.list("Pod")),
    "/pods watch": ("no pod is heard of", lambda who: who.watch("Pod")),
    "/pods/log get": (
        "a failed server has no last words",
        lambda who: who.api.log_tail(
            who.namespace, LogTail("none", "server", previous=False)
        ),
    ),
    "/pods/proxy get": (
        "no metrics with podRoad Proxy",
        lambda who: who.through("GET"),
    ),
    "/pods/proxy create": (
        "no acknowledgement with podRoad Proxy",
        lambda who: who.through("POST"),
    ),
    "discovery.k8s.io/endpointslices list": (
        "spec.endpoint.serviceRef leads nowhere",
        lambda who: who.api.endpoint_addresses(who.namespace, "front", 80),
    ),
    "/events list": (
        "nothing is known of pulled images",
        lambda who: who.api.image_events(
            who.namespace, ServerStart("none", "u", "server", engine=VLLM)
        ),
    ),
    "/events create": (
        "kubectl describe shows nothing",
        lambda who: who.api.create_event(
            who.run(), Event("Running", "text"), now=NOW
        ),
    ),
    "/secrets create": (
        "there is no key for the runs' tokens",
        lambda who: who.raw("POST", SECRET),
    ),
    "/secrets get": (
        "a restart finds another key",
        lambda who: who.raw("GET", SECRET, SECRET_NAME),
    ),
    "coordination.k8s.io/leases create": (
        "nobody leads",
        lambda who: who.raw("POST", LEASE),
    ),
    "coordination.k8s.io/leases get": (
        "nobody knows who leads",
        lambda who: who.raw("GET", LEASE, LEASE_NAME),
    ),
    "coordination.k8s.io/leases update": (
        "the Lease expires",
        lambda who: who.raw("PUT", LEASE, LEASE_NAME),
    ),
}
"""By right: what breaks without it, and the code or request that needs it."""

ALL = "least-rights:all"


def rules() -> list[Object]:
    """Every rule of the operator, one right each, with that right's name."""
    objects = render(PROXY)
    given = (
        named(objects, "ClusterRole", "bench-benchrun")["rules"]
        + named(objects, "Role", OWN_ROLE)["rules"]
    )
    return [
        {**rule, "apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for rule in given
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def right_of(rule: Object) -> str:
    return f"{rule['apiGroups'][0]}/{rule['resources'][0]} {rule['verbs'][0]}"


def user_without(right: str) -> str:
    return f"least-rights:without:{right.replace('/', '.').replace(' ', ':')}"


def role_and_binding(
    namespace: str, user: str, place: int, granted: list[Object]
) -> Iterator[Object]:
    meta = {"name": f"least-rights-{place}", "namespace": namespace}
    api = "rbac.authorization.k8s.io"
    yield {
        "apiVersion": f"{api}/v1",
        "kind": "Role",
        "metadata": meta,
        "rules": granted,
    }
    yield {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": api, "kind": "Role", "name": meta["name"]},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    }


class InTheNameOf(Connection):
    """What is asked is asked in somebody's name."""

    def __init__(self, found: Any, user: str) -> None:
        super().__init__(found)
        self._client.set_default_header("Impersonate-User", user)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def lab(namespace: Namespace) -> Namespace:
    """A namespace where everybody has their role, and a Service is there to be looked up."""
    granted = rules()
    users = {ALL: granted}
    users |= {
        user_without(right): [rule for rule in granted if right_of(rule) != right]
        for right in RIGHTS
    }
    roles = [
        entry
        for place, (user, theirs) in enumerate(users.items())
        for entry in role_and_binding(namespace.name, user, place, theirs)
    ]
    front = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front"},
        "spec": {"ports": [{"port": 80}]},
    }
    namespace.kubectl(
        "create",
        "--filename=-",
        stdin=json.dumps(
            {"apiVersion": "v1", "kind": "List", "items": [*roles, front]}
        ),
    )
    for _ in polling("the last of them has rights", seconds=20):
        if (
            namespace.kubectl(
                "auth", "can-i", "list", "pods", f"--as={list(users)[-1]}"
            ).strip()
            == "yes"
        ):
            break
    return namespace


@pytest.fixture
async def somebody(
    lab: Namespace,
) -> AsyncIterator[Callable[[str], Awaitable[Somebody]]]:
    """Makes the operator of a user; closed afterwards."""
    connections: list[Connection] = []

    async def made(user: str) -> Somebody:
        connections.append(InTheNameOf(await configuration(), user))
        return Somebody(connections[-1], lab.name)

    yield made
    for connection in connections:
        await connection.close()


async def is_forbidden(who: Somebody, operation: Operation) -> bool:
    try:
        await operation(who)
    except Forbidden:
        return True
    except ClusterError:
        # asked, and answered: there is no such thing, or it is not valid
        return False
    return False


def test_every_right_that_is_given_is_accounted_for() -> None:
    assert {right_of(rule) for rule in rules()} == RIGHTS.keys()


@pytest.mark.parametrize("right", RIGHTS)
async def test_without_it_something_breaks(
    somebody: Callable[[str], Awaitable[Somebody]], right: str
) -> None:
    breaks, operation = RIGHTS[right]
    assert not await is_forbidden(await somebody(ALL), operation), (
        "refused even with all rights"
    )
    who = await somebody(user_without(right))
    assert await is_forbidden(who, operation), f"nothing breaks; expected: {breaks}"
    other = RIGHTS["/pods list" if right != "/pods list" else "/events list"][1]
    assert not await is_forbidden(who, other), "all rights are missing, not one"
