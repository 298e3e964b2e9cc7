"""What is asked of the API server about a server beside vLLM: how it started, and who tells of its GPUs."""

import pytest
from benchrun.decide import ExporterPod, Exporters, ServerStart
from benchrun.effects import LIST_PAGE, LOG_HEAD_BYTES
from unit.effects.scripted_api import Answer, answering, gives

WANTED = ServerStart(pod="chat-server-x", uid="uid-7", container="vllm")


async def test_the_beginning_of_the_log_and_no_more_than_that() -> None:
    async with answering(Answer(body=b"x" * (LOG_HEAD_BYTES + 9))) as exchange:
        assert await exchange.api.log_head("lab", WANTED) == "x" * LOG_HEAD_BYTES
    assert exchange.requests[0].path == "/api/v1/namespaces/lab/pods/chat-server-x/log"
    assert exchange.requests[0].query == {"container": "vllm", "limitBytes": str(LOG_HEAD_BYTES)}


async def test_the_events_of_that_very_pod() -> None:
    async with answering(gives({"items": [{"reason": "Pulled"}]}), gives({})) as exchange:
        assert await exchange.api.image_events("lab", WANTED) == ({"reason": "Pulled"},)
        assert await exchange.api.image_events("lab", WANTED) == ()
    assert exchange.requests[0].path == "/api/v1/namespaces/lab/events"
    selector = "involvedObject.uid=uid-7,reason=Pulled"
    assert exchange.requests[0].query == {"fieldSelector": selector, "limit": str(LIST_PAGE)}


EXPORTERS = Exporters("gpu-operator", "app=nvidia-dcgm-exporter,tier=gpu", 9400)
NAMED = {"metadata": {"name": "dcgm-x"}, "status": {"podIP": "10.1.0.7"}}
STARTING = {"metadata": {"name": "dcgm-y"}, "status": {}}


@pytest.mark.parametrize(
    ("found", "items"), [(ExporterPod("dcgm-x", "10.1.0.7"), [STARTING, NAMED]), (None, [STARTING]), (None, [])]
)
async def test_the_exporter_that_runs_on_that_node(found: ExporterPod | None, items: list[dict[str, object]]) -> None:
    async with answering(gives({"items": items})) as exchange:
        assert await exchange.api.exporter_on(EXPORTERS, "n1") == found
    assert exchange.requests[0].path == "/api/v1/namespaces/gpu-operator/pods"
    assert exchange.requests[0].query == {
        "labelSelector": "app=nvidia-dcgm-exporter,tier=gpu",
        "fieldSelector": "spec.nodeName=n1,status.phase=Running",
        "limit": str(LIST_PAGE),
    }
