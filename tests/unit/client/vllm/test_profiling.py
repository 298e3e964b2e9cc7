"""A profile taken of a server: what it is asked, in which order, and what is told where it can't be
taken."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client import profiling
from benchrun_client.contract import (
    PROFILE_STAGE,
    LoadEngineVersion,
    ProfilePlan,
    ProfileResult,
    StageRecord,
    open_record,
    seal,
)
from benchrun_client.datasets.row_pools import PromptRequest, prompts_digest
from benchrun_client.engines import ENGINES
from benchrun_client.engines.vllm.trace_reader import summary_of
from benchrun_client.load.vllm_benchmark import EngineCall
from benchrun_client.profiling import Profiling
from benchrun_client.server.readiness import Servers
from benchrun_client.stage_record import Instants
from benchrun_client.tokenizer import TokenCounter
from benchrun_client.traffic import find_material, write_traffic
from unit.client.plans import plan, stage, warmup
from unit.client.servers import Handler, serving_paths
from unit.client.words import HubTokenizer
from unit.golden_messages import golden

VLLM = ENGINES["VLLM"]

TRACE = Path(__file__).parents[1] / "traces" / "one-step.pt.trace.json.gz"
SUMMARY = json.dumps(summary_of(TRACE))
SAMPLES = tuple(PromptRequest(f"prompt {n}", 3, 4) for n in range(6))
Seen = list[str]


class Sender:
    """Sends to nobody: answers one request after the other, so many seconds each; after the last it
    goes on or ends."""

    name = LoadEngineVersion(name="none", version="1", trust_env=False)

    def __init__(self, *, seconds: float = 0.0, ends: bool = True) -> None:
        self.instants = Instants()
        self._seconds = seconds
        self._ends = ends
        self.urls: tuple[str, ...] = ()
        self.cancelled = False

    async def run(self, call: EngineCall, servers: Servers) -> dict[str, Any]:
        self.urls = servers.urls
        self.instants = Instants(
            sent=[1.0] * len(call.samples), answered=[0.0] * len(call.samples)
        )
        try:
            for number in range(len(call.samples) if self._ends else 1):
                await asyncio.sleep(self._seconds)
                self.instants.answered[number] = 1.0
            if not self._ends:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return {}


async def profiled(
    sender: Sender,
    answers: Mapping[str, tuple[int, str]],
    seen: Seen,
    *,
    hangs: str = "",
    **changes: Any,
) -> StageRecord:
    """The record of a profile; one server answers at the paths of vLLM and of the reader, and hangs
    at one of them."""

    def handler(path: str) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            seen.append(f"{request.method} {path}")
            if path == hangs:
                await asyncio.Event().wait()
            status, text = answers.get(path, (200, ""))
            return web.Response(status=status, text=text)

        return answer

    app = {path: handler(path) for path in ("/start_profile", "/stop_profile", "/")}
    async with serving_paths(app) as url, aiohttp.ClientSession() as session:
        port = int(url.rpartition(":")[2])
        load = warmup(requests=len(SAMPLES), concurrency=2)
        wanted = ProfilePlan(
            **{
                "load": load,
                "seconds": 1,
                "max_seconds": 20,
                "reader_port": port,
                **changes,
            }
        )
        servers = Servers(
            VLLM,
            (url, "http://second:8000"),
            (f"{url}/metrics", "http://second:8000/metrics"),
        )
        return await Profiling(wanted, sender, servers, SAMPLES, session).record(
            plan(profile=wanted), sequence=1
        )


async def profile_of(
    sender: Sender,
    answers: Mapping[str, tuple[int, str]],
    seen: Seen,
    **options: Any,
) -> ProfileResult:
    found = (await profiled(sender, answers, seen, **options)).profile
    assert found is not None
    return found


async def test_the_first_server_is_profiled_under_load_and_its_trace_read() -> None:
    sender = Sender(seconds=0.05)
    seen = Seen()
    record = await profiled(sender, {"/": (200, SUMMARY)}, seen)
    assert seen == ["POST /start_profile", "POST /stop_profile", "GET /"]
    assert len(sender.urls) == 1
    assert record.profile is not None
    assert record.profile.summary is not None
    assert (record.profile.problem, record.profile.summary.busy_us) == (
        None,
        1_842_536,
    )
    assert (record.stage_id, record.sequence, record.requests.ok) == (
        PROFILE_STAGE,
        1,
        (),
    )
    assert record.prompts_digest == prompts_digest(SAMPLES)
    assert open_record(seal(record)[1]) == record


async def test_a_load_that_goes_on_is_cut_when_the_seconds_are_over() -> None:
    sender = Sender(ends=False)
    begun = time.monotonic()
    found = await profile_of(sender, {"/": (200, SUMMARY)}, [])
    assert (found.problem, sender.cancelled) == (None, True)
    assert 1.0 <= time.monotonic() - begun < 5.0


async def test_without_an_answer_the_profile_begins_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profiling, "FIRST_ANSWER_SECONDS", 0.05)
    seen = Seen()
    await profile_of(Sender(seconds=60), {"/": (200, SUMMARY)}, seen)
    assert seen == ["POST /start_profile", "POST /stop_profile", "GET /"]


@pytest.mark.parametrize(
    ("answers", "words", "requests"),
    [
        pytest.param(
            {"/start_profile": (404, "")},
            "--profiler-config",
            1,
            id="the server was not started for it",
        ),
        pytest.param(
            {"/start_profile": (500, "no CUPTI")},
            "no CUPTI",
            1,
            id="the profiler can't start",
        ),
        pytest.param(
            {"/stop_profile": (500, "No space left")},
            "No space left",
            3,
            id="no room: stopped once more",
        ),
        pytest.param(
            {"/": (404, '{"problem": "no trace in /profile"}')},
            "disk may be full",
            3,
            id="no trace",
        ),
        pytest.param({"/": (404, "[]")}, "404", 3, id="somebody else answers"),
        pytest.param({"/": (200, "<html>")}, "/", 3, id="a web page"),
        pytest.param({"/": (200, '{"trace": 1}')}, "/", 3, id="not a summary"),
        pytest.param({"/": (200, "[" * 100_000)}, "/", 3, id="nested"),
    ],
)
async def test_a_failed_profile_reports_the_reason(
    answers: dict[str, tuple[int, str]], words: str, requests: int
) -> None:
    seen = Seen()
    found = await profile_of(Sender(), {"/": (200, SUMMARY), **answers}, seen)
    assert (found.summary, len(seen)) == (None, requests)
    assert words in (found.problem or "")


@pytest.mark.parametrize("path", ["/start_profile", "/stop_profile", "/"])
async def test_whatever_hangs_the_server_is_held_no_longer_than_the_deadline(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "STOP_SECONDS", 0.1)
    begun = time.monotonic()
    sender = Sender()
    found = await profile_of(
        sender, {"/": (200, SUMMARY)}, [], hangs=path, max_seconds=2
    )
    assert time.monotonic() - begun < 6.0
    assert "not done within 2 s" in (found.problem or "")
    assert path in (found.problem or "")


async def test_a_profiler_that_may_still_run_is_stopped() -> None:
    """Others may use an endpoint. It did start, but did not say so in time."""
    seen = Seen()
    await profile_of(
        Sender(ends=False), {}, seen, hangs="/start_profile", max_seconds=1
    )
    assert seen == ["POST /start_profile", "POST /stop_profile"]


async def test_an_endpoint_keeps_its_trace() -> None:
    seen = Seen()
    found = await profile_of(Sender(), {}, seen, reader_port=None)
    assert (found.summary, seen) == (
        None,
        ["POST /start_profile", "POST /stop_profile"],
    )
    assert "on the endpoint's side" in (found.problem or "")


async def test_a_server_that_is_gone_is_no_error() -> None:
    async with aiohttp.ClientSession() as session:
        wanted = ProfilePlan(load=warmup(), seconds=1, max_seconds=20)
        servers = Servers(
            VLLM, ("http://127.0.0.1:9",), ("http://127.0.0.1:9/metrics",)
        )
        record = await Profiling(
            wanted, Sender(), servers, SAMPLES, session
        ).record(plan(), sequence=1)
    assert record.profile is not None
    assert "start_profile" in (record.profile.problem or "")


def test_what_is_measured_sends_the_same_with_a_profile_and_without() -> None:
    counter = TokenCounter(HubTokenizer())
    stages = (stage(), stage(id="chat/concurrency=4/r1", seed=3))
    wanted = ProfilePlan(
        load=warmup(requests=5, seed=77), seconds=1, max_seconds=20
    )
    without, with_profile = (
        plan(*stages, warmups=(warmup(),), profile=each) for each in (None, wanted)
    )
    plain, profiled = (
        write_traffic(each, find_material(each, counter), counter)
        for each in (without, with_profile)
    )
    assert profiled.stages == plain.stages
    assert (profiled.warmups[:-1], len(profiled.warmups[-1])) == (plain.warmups, 5)
    assert "profile" not in json.loads(without.to_json())
    assert "profile" in json.loads(with_profile.to_json())


def test_a_profile_is_of_its_stage_alone() -> None:
    """A measured stage without requests would have no figures."""
    record = asyncio.run(profiled(Sender(), {}, []))
    with pytest.raises(ValueError, match="for the stage profile, and for no other"):
        StageRecord.model_validate(
            record.model_dump(by_alias=True) | {"stage_id": "chat/rate=1/r1"}
        )
    with pytest.raises(ValueError) as raised:
        StageRecord.model_validate(
            record.model_dump(by_alias=True) | {"profile": None}
        )
    golden(str(raised.value))
