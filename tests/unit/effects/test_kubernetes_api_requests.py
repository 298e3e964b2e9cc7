"""What goes over the wire for each thing that the operator asks of the API server: method, path,
query, forms and body."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from benchrun.decide import (
    Compilations,
    Event,
    ExporterPod,
    Exporters,
    LogTail,
    PodsRefused,
    Ref,
    ServerStart,
)
from benchrun.effects import (
    LIST_PAGE,
    LOG_BYTES,
    LOG_HEAD_BYTES,
    LOG_LINES,
    LOG_RANGE_BYTES,
    LOG_READ_BYTES,
    MAX_LABELLED_PODS,
    MAX_OBJECT_BYTES,
    METADATA_LIST_ONLY,
    METADATA_ONLY,
    PAGE_BYTES,
    TABLE,
    ClusterError,
    Forbidden,
    NotFound,
    NotServed,
    Throttled,
    TooLarge,
)
from benchrun.observe import Run, Sweep
from benchrun_client.engines import ENGINES
from unit.effects.scripted_api import (
    Answer,
    Exchange,
    Json,
    Request,
    answering,
    gives,
    refuses,
)

VLLM = ENGINES["VLLM"]

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RUN = Run(namespace="lab", name="chat", uid="uid-1", generation=1)
JSON = "application/json"
MERGE = "application/merge-patch+json"
OURS = {"fieldManager": "benchrun.dev/operator"}
RUNS = "/apis/benchrun.dev/v1alpha1/namespaces/lab/benchmarkruns"
OWNER = [{"uid": "uid-1", "controller": True}]


def service(**metadata: object) -> Json:
    """A child of the run."""
    meta = {
        "name": "chat-server",
        "namespace": "lab",
        "ownerReferences": OWNER,
        **metadata,
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"clusterIP": "None"},
    }


async def test_an_object_that_was_never_seen_is_created_and_returned_by_its_metadata() -> (
    None
):
    async with answering(gives({"metadata": {"uid": "new"}})) as exchange:
        assert await exchange.api.apply(service()) == {"metadata": {"uid": "new"}}
    path = "/api/v1/namespaces/lab/services"
    assert exchange.requests == [
        Request("POST", path, OURS, JSON, METADATA_ONLY, service())
    ]
    assert exchange.writes == [("POST", "services", "2xx")]


async def test_what_is_applied_is_not_changed_on_the_way() -> None:
    manifest = service()
    async with answering(gives({"metadata": {}})) as exchange:
        await exchange.api.apply(manifest)
    assert manifest == service()


async def test_a_run_of_a_sweep_is_created_and_given_back_whole() -> None:
    manifest = {
        "kind": "BenchmarkRun",
        "metadata": {"name": "s-v1-r1", "namespace": "lab"},
        "spec": {},
    }
    async with answering(
        gives({"metadata": {}, "spec": {"repeats": 3}})
    ) as exchange:
        assert await exchange.api.apply(manifest) == {
            "metadata": {},
            "spec": {"repeats": 3},
        }
    assert exchange.requests == [Request("POST", RUNS, OURS, JSON, JSON, manifest)]


async def test_a_workload_is_given_back_whole_since_its_status_is_read() -> None:
    manifest = {
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "lab"},
        "spec": {},
    }
    async with answering(gives({"metadata": {}, "status": {}})) as exchange:
        assert "status" in await exchange.api.apply(manifest)
    path = "/apis/kueue.x-k8s.io/v1beta1/namespaces/lab/workloads"
    assert exchange.requests == [Request("POST", path, OURS, JSON, JSON, manifest)]


async def test_a_flavour_has_no_namespace() -> None:
    async with answering(gives({"metadata": {"name": "h200"}})) as exchange:
        await exchange.api.resource_flavor("h200")
    (asked,) = exchange.requests
    assert asked.path == "/apis/kueue.x-k8s.io/v1beta1/resourceflavors/h200"


@pytest.mark.parametrize(
    ("items", "ahead"),
    [
        ([{"metadata": {"name": "w"}, "positionInClusterQueue": 4}], {"w": 4}),
        ([{"metadata": {"name": "w"}, "positionInClusterQueue": -4}], {"w": 0}),
        ([{"metadata": {"name": "w"}, "positionInClusterQueue": "x"}], {"w": 0}),
        ([None, 3], {}),
        (None, {}),
    ],
)
async def test_a_place_in_a_queue_is_that_among_all_of_its_cluster_queue(
    items: object, ahead: dict[str, int]
) -> None:
    async with answering(gives({"items": items})) as exchange:
        assert await exchange.api.ahead_in_queue("lab", "gpus") == ahead
    (asked,) = exchange.requests
    assert asked.path == (
        "/apis/visibility.kueue.x-k8s.io/v1beta1/namespaces/lab/localqueues/gpus/"
        "pendingworkloads"
    )
    assert asked.query == {"limit": "1000"}


async def watched(exchange: Exchange) -> list[tuple[str, object]]:
    """Watch Workloads from version 7 on until the watch ends."""
    found = exchange.api.watch(
        "Workload", namespace="lab", selector="benchrun.dev/run", since="7"
    )
    return [(change, body["metadata"]["name"]) async for change, body in found]


async def test_a_watch_is_of_changes_since_a_version() -> None:
    events = [
        {"type": change, "object": {"metadata": {"name": name}}}
        for change, name in (("ADDED", "w"), ("MODIFIED", "v"), ("DELETED", "w"))
    ]
    body = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    async with answering(Answer(body=body)) as exchange:
        assert await watched(exchange) == [
            ("ADDED", "w"),
            ("MODIFIED", "v"),
            ("DELETED", "w"),
        ]
    (asked,) = exchange.requests
    assert asked.path == "/apis/kueue.x-k8s.io/v1beta1/namespaces/lab/workloads"
    assert (asked.query["watch"], asked.query["resourceVersion"]) == ("true", "7")
    assert asked.query["labelSelector"] == "benchrun.dev/run"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refuses(403), 403),
        (gives({"type": "ERROR", "object": {"code": 410, "message": "old"}}), 410),
        (gives({"type": "ADDED", "object": 3}), None),
        (Answer(body=b"[]"), None),
    ],
    ids=["refused", "too old", "no object", "no event"],
)
async def test_a_watch_that_can_not_go_on_is_an_error(
    answer: Answer, code: int | None
) -> None:
    line = replace(answer, body=answer.body + b"\n")
    async with answering(line) as exchange:
        with pytest.raises(ClusterError) as ended:
            await watched(exchange)
    assert ended.value.code == code


async def test_the_version_of_a_collection_is_that_of_an_empty_list() -> None:
    async with answering(
        gives({"metadata": {"resourceVersion": "42"}})
    ) as exchange:
        assert await exchange.api.version("Workload", namespace=None) == "42"
    (asked,) = exchange.requests
    assert asked.query == {"limit": "1"}


async def test_a_run_is_cancelled_by_a_patch_of_that_very_run() -> None:
    async with answering(gives({"metadata": {"name": "chat"}})) as exchange:
        assert await exchange.api.cancel_run(
            Ref("BenchmarkRun", "lab", "chat", "uid-1")
        ) == {"metadata": {"name": "chat"}}
    body = {"metadata": {"uid": "uid-1"}, "spec": {"cancel": True}}
    assert exchange.requests == [
        Request("PATCH", f"{RUNS}/chat", OURS, MERGE, JSON, body)
    ]


async def test_deletion_is_left_to_the_cluster_and_spares_a_namesake() -> None:
    async with answering(gives({})) as exchange:
        await exchange.api.delete(Ref("Pod", "lab", "p", "uid-9"))
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "uid-9"},
    }
    assert exchange.requests == [
        Request("DELETE", "/api/v1/namespaces/lab/pods/p", {}, JSON, JSON, body)
    ]


@pytest.mark.parametrize(
    ("declared", "plural"),
    [
        (RUN, "benchmarkruns"),
        (
            Sweep(namespace="lab", name="chat", uid="uid-1", generation=1),
            "benchmarksweeps",
        ),
    ],
)
async def test_a_status_is_merged_into_one_version_of_one_object(
    declared: Run | Sweep, plural: str
) -> None:
    async with answering(
        gives({"metadata": {"resourceVersion": "42"}})
    ) as exchange:
        written = await exchange.api.patch_status(
            declared, resource_version="41", changes={"phase": "Running"}
        )
    assert written == {"metadata": {"resourceVersion": "42"}}
    path = f"/apis/benchrun.dev/v1alpha1/namespaces/lab/{plural}/chat/status"
    body = {"metadata": {"resourceVersion": "41"}, "status": {"phase": "Running"}}
    assert exchange.requests == [Request("PATCH", path, OURS, MERGE, JSON, body)]


async def test_reading_one_object_counts_as_no_write() -> None:
    async with answering(gives({"metadata": {"name": "j"}})) as exchange:
        assert await exchange.api.get("Job", namespace="lab", name="j") == {
            "metadata": {"name": "j"}
        }
    (request,) = exchange.requests
    assert (request.method, request.path, request.accept) == (
        "GET",
        "/apis/batch/v1/namespaces/lab/jobs/j",
        JSON,
    )
    assert exchange.writes == []


def page(*items: str, then: str = "") -> Answer:
    return gives(
        {
            "metadata": {"continue": then} if then else {},
            "items": [{"metadata": {"name": n}} for n in items],
        }
    )


async def test_a_list_is_read_page_after_page_with_what_was_requested_on_each() -> (
    None
):
    async with answering(
        page("a", "b", then="more"), page(then="still"), page("c")
    ) as exchange:
        found = [
            each
            async for each in exchange.api.list(
                "ConfigMap", namespace=None, selector="x in (y)", metadata_only=True
            )
        ]
    assert [each["metadata"]["name"] for each in found] == ["a", "b", "c"]
    first = {"limit": str(LIST_PAGE), "labelSelector": "x in (y)"}
    assert [request.query for request in exchange.requests] == [
        first,
        {**first, "continue": "more"},
        {**first, "continue": "still"},
    ]
    assert {(request.path, request.accept) for request in exchange.requests} == {
        ("/api/v1/configmaps", METADATA_LIST_ONLY)
    }


async def test_a_page_of_large_objects_is_left_and_read_again_in_smaller_ones() -> (
    None
):
    large = page("x" * PAGE_BYTES)
    small = page("a", "b", then="more")
    async with answering(
        small, *[large] * 3, page("x" * PAGE_BYTES, then="last"), small, page("c")
    ) as exchange:
        found = [
            each["metadata"]["name"][:1]
            async for each in exchange.api.list("Pod", namespace="lab")
        ]
    assert found == ["a", "b", "x", "a", "b", "c"]
    asked = [
        (request.query["limit"], request.query.get("continue"))
        for request in exchange.requests
    ]
    assert asked == [
        ("50", None),
        ("50", "more"),
        ("12", "more"),
        ("3", "more"),
        ("1", "more"),
        ("2", "last"),
        ("4", "more"),
    ]


def in_short(table: Json) -> list[Json] | None:
    """Return the rows of a table that says that they suffice."""
    rows: list[Json] = table["rows"]
    return rows if table.get("suffices") else None


def table(*rows: str, then: str = "", suffices: bool = True) -> Answer:
    named = [{"metadata": {"name": name}} for name in rows]
    meta = {"continue": then, "resourceVersion": "7"}
    return gives({"metadata": meta, "rows": named, "suffices": suffices})


async def test_a_list_in_short_reads_a_page_whole_where_its_table_does_not_suffice() -> (
    None
):
    reached: list[str] = []
    async with answering(
        table("a", "b", then="more"),
        table("c", then="of another version", suffices=False),
        page("c", "d", then="still"),
        table("x" * PAGE_BYTES, then="more"),
        page("e", then="last"),
        table("f"),
    ) as exchange:
        found = [
            (each["metadata"]["name"], is_short)
            async for each, is_short in exchange.api.list_in_short(
                "BenchmarkRun",
                namespace="lab",
                in_short=in_short,
                reached=reached.append,
            )
        ]
    assert found == [
        ("a", True),
        ("b", True),
        ("c", False),
        ("d", False),
        ("e", False),
        ("f", True),
    ]
    assert reached == ["7"]
    asked = [
        (request.accept == TABLE, request.query.get("continue"))
        for request in exchange.requests
    ]
    assert asked == [
        (True, None),
        (True, "more"),
        (False, "more"),
        (True, "still"),
        (False, "still"),
        (True, "last"),
    ]
    assert {request.query["limit"] for request in exchange.requests} == {"50"}


@pytest.mark.parametrize(
    "refusal", [refuses(406, "NotAcceptable"), refuses(500, "InternalError")]
)
async def test_a_list_whose_tables_are_refused_is_read_whole(
    refusal: Answer,
) -> None:
    async with answering(refusal, page("a", then="more"), page("b")) as exchange:
        found = [
            (each["metadata"]["name"], is_short)
            async for each, is_short in exchange.api.list_in_short(
                "BenchmarkRun", namespace="lab", in_short=in_short
            )
        ]
    assert found == [("a", False), ("b", False)]
    assert [request.accept == TABLE for request in exchange.requests] == [
        True,
        False,
        False,
    ]


async def test_a_list_in_short_asks_once_where_it_is_too_busy() -> None:
    async with answering(refuses(429)) as exchange:
        with pytest.raises(Throttled):
            [
                each
                async for each in exchange.api.list_in_short(
                    "BenchmarkRun", namespace="lab", in_short=in_short
                )
            ]
    assert len(exchange.requests) == 1


async def test_no_single_object_is_larger_than_the_cluster_could_store() -> None:
    async with answering(*[page("x" * MAX_OBJECT_BYTES)] * 9) as exchange:
        with pytest.raises(TooLarge):
            await exchange.api.get("Pod", namespace="lab", name="p")
        with pytest.raises(TooLarge):
            [each async for each in exchange.api.list("Pod", namespace="lab")]
    assert len(exchange.requests) == 5


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"items": None, "metadata": None},
        {"items": [], "metadata": {"continue": ""}},
    ],
)
async def test_an_empty_list_is_requested_once(body: Json) -> None:
    async with answering(gives(body)) as exchange:
        assert [
            each async for each in exchange.api.list("Pod", namespace="lab")
        ] == []
    (request,) = exchange.requests
    assert (request.path, request.query, request.accept) == (
        "/api/v1/namespaces/lab/pods",
        {"limit": str(LIST_PAGE)},
        JSON,
    )


@pytest.mark.parametrize(("previous", "word"), [(True, "true"), (False, "false")])
async def test_of_a_failed_container_the_end_of_the_log_is_kept(
    previous: bool, word: str
) -> None:
    text = b"first\n" + b"x" * LOG_BYTES + b"\nlast\n"
    async with answering(Answer(body=text)) as exchange:
        tail = await exchange.api.log_tail("lab", LogTail("p", "server", previous))
    assert (len(tail), tail.endswith("x\nlast\n"), "first" in tail) == (
        LOG_BYTES,
        True,
        False,
    )
    (request,) = exchange.requests
    assert request.path == "/api/v1/namespaces/lab/pods/p/log"
    assert request.query == {
        "container": "server",
        "previous": word,
        "tailLines": str(LOG_LINES),
        "limitBytes": str(LOG_READ_BYTES),
    }


async def test_a_log_that_is_no_utf_8_is_read_all_the_same() -> None:
    async with answering(Answer(body=b"caf\xe9 \xff\n")) as exchange:
        assert (
            await exchange.api.log_tail(
                "lab", LogTail("p", "server", previous=False)
            )
            == "caf\ufffd \ufffd\n"
        )


@pytest.mark.parametrize(
    ("length", "complete"),
    [
        (0, True),
        (LOG_RANGE_BYTES - 1, True),
        (LOG_RANGE_BYTES, False),
        (LOG_RANGE_BYTES + 1, False),
    ],
)
async def test_a_log_that_fills_its_bound_may_have_more(
    length: int, complete: bool
) -> None:
    async with answering(Answer(body=b"x" * length)) as exchange:
        text, is_all = await exchange.api.log_since(
            "lab",
            Compilations("p", "server", since="2026-11-21T12:00:00Z", engine=VLLM),
        )
    assert (is_all, len(text)) == (complete, min(length, LOG_RANGE_BYTES))
    assert exchange.requests[0].query == {
        "container": "server",
        "sinceTime": "2026-11-21T12:00:00Z",
        "timestamps": "true",
        "limitBytes": str(LOG_RANGE_BYTES),
    }


async def test_addresses_are_looked_up_by_the_name_of_the_services_port() -> None:
    ports = [
        {"name": "metrics", "port": 9090},
        {"name": "http", "port": 80, "targetPort": 8000},
    ]
    slices = {
        "items": [
            {
                "addressType": "IPv4",
                "ports": [{"name": "http", "port": 8000}],
                "endpoints": [
                    {
                        "addresses": ["10.0.0.1"],
                        "targetRef": {"kind": "Pod", "namespace": "lab"},
                    }
                ],
            }
        ]
    }
    async with answering(
        gives({"spec": {"ports": ports}}), gives(slices)
    ) as exchange:
        assert await exchange.api.endpoint_addresses("lab", "vllm", 80) == (
            "10.0.0.1:8000",
        )
    assert [request.path for request in exchange.requests] == [
        "/api/v1/namespaces/lab/services/vllm",
        "/apis/discovery.k8s.io/v1/namespaces/lab/endpointslices",
    ]
    assert exchange.requests[1].query["labelSelector"] == (
        "kubernetes.io/service-name=vllm,endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"
    )


async def test_only_pods_that_run_are_asked_for_and_no_more_than_a_bound() -> None:
    """A label may be that of all completed pods of a namespace."""
    idle = page(*map(str, range(LIST_PAGE)), then="more")
    pages = [idle] * (MAX_LABELLED_PODS // LIST_PAGE + 9)
    async with answering(*pages) as exchange:
        assert await exchange.api.pod_addresses("lab", "app=vllm", 8000) == ()
    assert len(exchange.requests) == MAX_LABELLED_PODS // LIST_PAGE
    assert exchange.requests[0].query == {
        "limit": str(LIST_PAGE),
        "labelSelector": "app=vllm",
        "fieldSelector": "status.phase=Running",
    }


async def test_an_event_is_posted_beside_what_it_is_about() -> None:
    async with answering(gives({})) as exchange:
        await exchange.api.create_event(
            RUN, Event("Failed", "no GPU", warning=True), now=NOW
        )
    (request,) = exchange.requests
    assert (request.method, request.path, exchange.writes) == (
        "POST",
        "/api/v1/namespaces/lab/events",
        [("POST", "events", "2xx")],
    )
    assert request.body is not None
    assert [
        request.body[key]
        for key in ("type", "reason", "message", "count", "reportingComponent")
    ] == ["Warning", "Failed", "no GPU", 1, "benchrun-operator"]
    assert request.body["metadata"]["name"].startswith("chat.")


async def test_a_name_cannot_lead_out_of_its_place() -> None:
    async with answering(gives({})) as exchange:
        await exchange.api.get("Pod", namespace="lab", name="p/../q")
    assert exchange.requests[0].path == "/api/v1/namespaces/lab/pods/p%2F..%2Fq"


# What is asked of the API server about a server beside vLLM: how it started, and who tells of its
# GPUs.

WANTED = ServerStart(
    pod="chat-server-x", uid="uid-7", container="server", engine=VLLM
)


async def test_the_beginning_of_the_log_and_no_more_than_that() -> None:
    async with answering(Answer(body=b"x" * (LOG_HEAD_BYTES + 9))) as exchange:
        assert await exchange.api.log_head("lab", WANTED) == "x" * LOG_HEAD_BYTES
    assert (
        exchange.requests[0].path == "/api/v1/namespaces/lab/pods/chat-server-x/log"
    )
    assert exchange.requests[0].query == {
        "container": "server",
        "limitBytes": str(LOG_HEAD_BYTES),
    }


async def test_the_events_of_that_very_pod() -> None:
    async with answering(
        gives({"items": [{"reason": "Pulled"}]}), gives({})
    ) as exchange:
        assert await exchange.api.image_events("lab", WANTED) == (
            {"reason": "Pulled"},
        )
        assert await exchange.api.image_events("lab", WANTED) == ()
    assert exchange.requests[0].path == "/api/v1/namespaces/lab/events"
    selector = "involvedObject.uid=uid-7,reason=Pulled"
    assert exchange.requests[0].query == {
        "fieldSelector": selector,
        "limit": str(LIST_PAGE),
    }


def failed_create(of: str) -> Json:
    return {"reason": "FailedCreate", "involvedObject": {"name": of}}


@pytest.mark.parametrize(
    ("names", "about", "wanted"),
    [
        (["j"], "uid=uid-8", PodsRefused("Job", "j", "uid-8")),
        (
            ["br-r-1", "br-r-1-0"],
            "kind=StatefulSet",
            PodsRefused("StatefulSet", "br-r-1"),
        ),
    ],
)
async def test_events_of_pods_that_could_not_be_made(
    names: list[str], about: str, wanted: PodsRefused
) -> None:
    items = [failed_create(name) for name in ("br-r-12", *names)]
    found = items if wanted.uid else items[1:]
    async with answering(gives({"items": items}), gives({})) as exchange:
        assert await exchange.api.refusal_events("lab", wanted) == tuple(found)
        assert await exchange.api.refusal_events("lab", wanted) == ()
    assert exchange.requests[0].path == "/api/v1/namespaces/lab/events"
    selector = f"involvedObject.{about},reason=FailedCreate"
    assert exchange.requests[0].query == {"fieldSelector": selector, "limit": "200"}


EXPORTERS = Exporters("gpu-operator", "app=nvidia-dcgm-exporter,tier=gpu", 9400)
NAMED = {"metadata": {"name": "dcgm-x"}, "status": {"podIP": "10.1.0.7"}}
STARTING = {"metadata": {"name": "dcgm-y"}, "status": {}}


@pytest.mark.parametrize(
    ("found", "items"),
    [
        (ExporterPod("dcgm-x", "10.1.0.7"), [STARTING, NAMED]),
        (None, [STARTING]),
        (None, []),
    ],
)
async def test_the_exporter_that_runs_on_that_node(
    found: ExporterPod | None, items: list[dict[str, object]]
) -> None:
    async with answering(gives({"items": items})) as exchange:
        assert await exchange.api.exporter_on(EXPORTERS, "n1") == found
    assert exchange.requests[0].path == "/api/v1/namespaces/gpu-operator/pods"
    assert exchange.requests[0].query == {
        "labelSelector": "app=nvidia-dcgm-exporter,tier=gpu",
        "fieldSelector": "spec.nodeName=n1,status.phase=Running",
        "limit": str(LIST_PAGE),
    }


# Kinds that a cluster may lack: what is said where they are missing, and how they are deleted.

NO_SUCH_PATH = Answer(404, b"404 page not found\n")


def manifest(kind: str, version: str) -> Json:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "g", "namespace": "lab"},
    }


async def test_a_kind_that_is_not_served_differs_from_one_that_is() -> None:
    async with answering(NO_SUCH_PATH) as exchange:
        with pytest.raises(
            NotServed,
            match=r"does not have the resource leaderworkersets\.leaderworkerset\.x-k8s\.io$",
        ):
            await exchange.api.apply(
                manifest("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1")
            )
    assert exchange.writes == [("POST", "leaderworkersets", "404")]


async def test_a_missing_namespace_is_named_for_builtin_kinds() -> None:
    async with answering(
        refuses(404, "NotFound", "namespaces lab not found")
    ) as exchange:
        with pytest.raises(NotFound, match="namespaces lab not found") as raised:
            await exchange.api.apply(manifest("Service", "v1"))
    assert not isinstance(raised.value, NotServed)


async def test_a_webhook_that_does_not_answer_is_a_refusal_with_its_name() -> None:
    words = 'Internal error occurred: failed calling webhook "mleaderworkerset.kb.io": connection refused'
    async with answering(refuses(500, "InternalError", words)) as exchange:
        with pytest.raises(Forbidden, match=r"mleaderworkerset\.kb\.io"):
            await exchange.api.apply(
                manifest("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1")
            )


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (
            "LeaderWorkerSet",
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/lab/leaderworkersets/g",
        ),
        ("Deployment", "/apis/apps/v1/namespaces/lab/deployments/g"),
    ],
)
async def test_servers_are_deleted_in_the_foreground(kind: str, path: str) -> None:
    async with answering(gives({})) as exchange:
        await exchange.api.delete(Ref(kind, "lab", "g", "uid-9"))
    (request,) = exchange.requests
    assert request.path == path
    assert request.body is not None
    assert (request.body["propagationPolicy"], request.body["preconditions"]) == (
        "Foreground",
        {"uid": "uid-9"},
    )


async def test_deleting_where_the_kind_is_gone_is_a_success() -> None:
    async with answering(NO_SUCH_PATH) as exchange:
        await exchange.api.delete(Ref("LeaderWorkerSet", "lab", "g", "uid-9"))
    assert len(exchange.requests) == 1
