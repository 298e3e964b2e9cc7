"""The real client through a real gateway, nginx, before two servers: what it asks for, what it adds.

nginx delays requests by a rate limit, and logs for itself how long it held each.
"""

import asyncio
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import pytest
from benchrun.api import Result, ServerStatus
from benchrun.judge.results import results
from benchrun_client.access import access_to
from benchrun_client.contract import (
    QueryParameter,
    RequestHeader,
    StageRecord,
    Target,
    UsersLoad,
)
from benchrun_client.contract.datasets import RandomData
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import open_session
from benchrun_client.server.first_request import send_canary
from benchrun_client.server.readiness import ReadinessDeadline, find_healthy
from client.nginx import KEY, PREFIX, TENANT, Gateway, gateway
from client.processes import TINY_MODEL, client
from unit.client.plans import kind_of_api, plan, stage
from unit.judge.specs import spec, workload
from unit.measure.records import load_point

pytestmark = pytest.mark.timeout(900)
USERS, REQUESTS, RATE = 4, 80, 5
PROMPT, ANSWER = 64, 5
TTFT_MS, TPOT_MS = 50, 10
MOST_BESIDE = 1.3
"""Most of the gap as a multiple of what nginx logged: the client's event loop, and two hops."""
HEADERS = (
    RequestHeader(name="X-Tenant", value=TENANT),
    RequestHeader(name="X-Api-Key", variable="BENCHRUN_HEADER_X_API_KEY"),
)
HELD = {"BENCHRUN_HEADER_X_API_KEY": KEY}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    flags = (f"--sim-ttft-ms={TTFT_MS}", f"--sim-tpot-ms={TPOT_MS}")
    with gateway(folder, *flags, rate=RATE) as found:
        yield found


def target(
    running: Gateway, prefix: str = PREFIX, **changes: Any
) -> dict[str, Any]:
    return {
        "base_url": running.url + prefix,
        "servers": 0,
        "metrics_urls": tuple(f"{each}/metrics" for each in running.replicas),
        "metrics_apart": True,
        "tokenizer": str(TINY_MODEL),
        "ca_file": str(running.folder / "tls.crt"),
        "certificate": str(running.folder),
        "headers": HEADERS,
        "query": (QueryParameter(name="version", value="1"),),
        **changes,
    }


@pytest.fixture(scope="module")
def record(
    running: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> StageRecord:
    whole = plan(
        stage(
            id=f"chat/concurrency={USERS}/r1",
            data=RandomData(input_tokens=PROMPT, output_tokens=ANSWER),
            requests=REQUESTS,
            load=UsersLoad(concurrency=USERS),
        ),
        target=target(running),
    )
    folder = tmp_path_factory.mktemp("measured")
    with client(folder, whole, environment=HELD) as process:
        (found,), _ = process.pull_all()
        assert process.process.wait() == 0
        assert KEY not in (folder / "plan.json").read_text()
    return found


@pytest.fixture(scope="module")
def row(record: StageRecord, running: Gateway) -> Result:
    judged = results(
        [load_point(axis="Concurrency", value=str(USERS))],
        [record],
        [],
        spec=spec(
            endpoint={
                "url": running.url + PREFIX,
                "metrics": {
                    "urls": [f"{each}/metrics" for each in running.replicas]
                },
            },
            workloads=[
                workload(
                    requests=REQUESTS,
                    load={"concurrencies": [USERS]},
                    dataset={
                        "random": {"inputTokens": PROMPT, "outputTokens": ANSWER}
                    },
                )
            ],
        ),
        servers=[ServerStatus(role="server", engine="VLLM")],
    )
    (found,) = judged.results
    return found


def test_every_request_passes_the_gateway(record: StageRecord) -> None:
    assert sum(record.requests.ok) == REQUESTS
    assert set(record.requests.output_tokens) == {ANSWER}


def test_both_replicas_are_counted(record: StageRecord) -> None:
    finished = [
        (edge.after or {})["request_success_total"]
        - (edge.before or {})["request_success_total"]
        for edge in record.servers
    ]
    assert len(finished) == 2
    assert sum(finished) == REQUESTS
    assert min(finished) > REQUESTS / 4


def test_what_the_gateway_adds_is_what_it_logged(
    row: Result, running: Gateway
) -> None:
    server, gateway = row.roles
    assert (server.role, gateway.role) == ("server", "gateway")
    logged = fmean(running.added_ms(REQUESTS))
    assert logged > 300
    assert gateway.added_mean_ms is not None
    print(f"added {gateway.added_mean_ms} ms, logged {logged} ms")
    assert logged - 1 < gateway.added_mean_ms < MOST_BESIDE * logged


async def _first_request(asked: Target) -> None:
    access = access_to(asked, HELD)
    async with open_session(access=access, seconds=10) as session:
        await find_healthy(session, asked, ReadinessDeadline(5))
        await send_canary(
            session,
            asked.base_url,
            kind=kind_of_api("Completions"),
            model="tiny",
            run_uid="u",
            served=(),
        )


@pytest.mark.parametrize(
    ("reason", "words", "prefix", "changes"),
    [
        ("CertificateInvalid", "clientCertificate", PREFIX, {"certificate": None}),
        ("CertificateInvalid", "caConfigMapRef", PREFIX, {"ca_file": None}),
        ("Unauthorized", "unknown tenant", PREFIX, {"headers": HEADERS[1:]}),
        ("Unauthorized", "unknown key", PREFIX, {"headers": HEADERS[:1]}),
        ("Unauthorized", "on the way", "/drops", {}),
        ("EndpointRedirects", "as endpoint.url", "/moved", {}),
        ("EndpointNotFound", "an HTML page", "/nowhere", {}),
    ],
)
def test_what_a_gateway_refuses_is_told_before_load(
    running: Gateway,
    reason: str,
    words: str,
    prefix: str,
    changes: dict[str, Any],
) -> None:
    asked = plan(target=target(running, prefix, **changes)).target
    with pytest.raises(RunFailure, match=words) as failure:
        asyncio.run(_first_request(asked))
    assert failure.value.reason == reason
    assert KEY not in failure.value.message
