"""The operator's own metrics: counted what happened, live figures only while a run goes on,
bounded."""

import asyncio
import math
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession
from benchrun.api import BenchmarkRunStatus, Live
from benchrun.observe import run_key
from benchrun.runtime.telemetry import MAX_LIVE_RUNS, Health, Pulse, Telemetry
from prometheus_client.parser import text_string_to_metric_families
from unit.runtime.fast_time import in_fast_time, passing

KEY = run_key("lab", "chat")
STATUS = BenchmarkRunStatus(
    live=Live(at="now", running=3, waiting=None, kv_cache_percent=12.5)
)
LABELS = {"namespace": "lab", "run": "chat"}


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    found: float | None = telemetry.registry.get_sample_value(
        "benchrun_" + name, labels
    )
    return found


def test_pass_is_timed_and_counted_by_result(telemetry: Telemetry) -> None:
    with telemetry.a_pass():
        pass
    with telemetry.a_pass() as outcome:
        outcome.result = "conflict"
    with pytest.raises(ZeroDivisionError), telemetry.a_pass():
        raise ZeroDivisionError
    results = [
        value(telemetry, "reconcile_total", result=r)
        for r in ("success", "conflict", "error")
    ]
    assert results == [1, 1, 1]
    assert value(telemetry, "reconcile_seconds_count") == 3


def test_writes_are_counted_by_verb_resource_and_code(telemetry: Telemetry) -> None:
    telemetry.count_write("PATCH", "jobs", "2xx")
    telemetry.count_write("PATCH", "jobs", "409")
    telemetry.count_write("PATCH", "jobs", "409")
    assert (
        value(
            telemetry, "api_writes_total", verb="PATCH", resource="jobs", code="409"
        )
        == 2
    )


def test_watch_events_are_counted_by_kind_and_type(telemetry: Telemetry) -> None:
    telemetry.watch_event("Pod", "LISTED")
    telemetry.watch_event("Pod", "DELETED")
    assert value(telemetry, "watch_events_total", kind="Pod", type="LISTED") == 1
    assert value(telemetry, "watch_events_total", kind="Pod", type="DELETED") == 1


def test_live_figures_are_shown_and_what_is_not_known_is_no_number(
    telemetry: Telemetry,
) -> None:
    telemetry.live(KEY, STATUS, ended=False)
    assert value(telemetry, "run_requests_running", **LABELS) == 3
    assert value(telemetry, "run_kv_cache_percent", **LABELS) == 12.5
    waiting = value(telemetry, "run_requests_waiting", **LABELS)
    assert waiting is not None
    assert math.isnan(waiting)


def test_figures_of_a_run_that_ended_are_gone(telemetry: Telemetry) -> None:
    telemetry.live(KEY, STATUS, ended=False)
    telemetry.forget(KEY)
    telemetry.forget(KEY)
    telemetry.live(KEY, STATUS, ended=True)
    assert value(telemetry, "run_requests_running", **LABELS) is None


def test_run_without_figures_shows_none(telemetry: Telemetry) -> None:
    telemetry.live(KEY, BenchmarkRunStatus(), ended=False)
    assert value(telemetry, "run_requests_running", **LABELS) is None


def test_number_of_runs_with_figures_is_bounded_and_places_are_given_back(
    telemetry: Telemetry,
) -> None:
    keys = [run_key("lab", str(n)) for n in range(MAX_LIVE_RUNS + 5)]
    for key in keys:
        telemetry.live(key, STATUS, ended=False)
    assert (
        value(telemetry, "run_requests_running", namespace="lab", run=keys[-1].name)
        is None
    )
    telemetry.forget(keys[0])
    telemetry.live(keys[-1], STATUS, ended=False)
    assert (
        value(telemetry, "run_requests_running", namespace="lab", run=keys[-1].name)
        == 3
    )


def test_page_is_what_prometheus_reads(telemetry: Telemetry) -> None:
    telemetry.measured("queue_depth", "Runs waiting.", lambda: 7.0)
    telemetry.live(KEY, STATUS, ended=False)
    families = {
        f.name: f for f in text_string_to_metric_families(telemetry.page().decode())
    }
    assert families["benchrun_queue_depth"].samples[0].value == 7
    assert "process_resident_memory_bytes" in families
    assert all(
        f.documentation
        for name, f in families.items()
        if name.startswith("benchrun_")
    )


def test_two_operators_in_one_process_do_not_share_metrics(
    telemetry: Telemetry,
) -> None:
    Telemetry().records_taken(5)
    assert value(telemetry, "records_total") == 0


def test_a_sample_that_breaks_is_no_success() -> None:
    telemetry = Telemetry()
    with pytest.raises(OverflowError), telemetry.a_scrape():
        raise OverflowError
    counted = {
        result: telemetry.registry.get_sample_value(
            "benchrun_scrapes_total", {"result": result}
        )
        for result in ("success", "failure")
    }
    assert counted == {"success": None, "failure": 1}


class State:
    """What the process says of itself."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.ready = False


@pytest.fixture
def state() -> State:
    """A process that is well and not ready."""
    return State()


@pytest.fixture
async def client(state: State) -> AsyncIterator[ClientSession]:
    """A client of the running health server."""
    health = Health(
        Telemetry(), problems=lambda: state.problems, ready=lambda: state.ready
    )
    await health.start("127.0.0.1", 0)
    async with ClientSession(f"http://127.0.0.1:{health.port}") as made:
        yield made
    await health.stop()


async def test_healthy_as_long_as_there_is_no_problem(
    client: ClientSession, state: State
) -> None:
    answer = await client.get("/healthz")
    assert (answer.status, await answer.text()) == (200, "ok\n")
    state.problems = ["a queue worker has ended", "a watch is silent"]
    answer = await client.get("/healthz")
    assert (answer.status, await answer.text()) == (
        503,
        "a queue worker has ended\na watch is silent\n",
    )


async def test_ready_once_the_cluster_was_read(
    client: ClientSession, state: State
) -> None:
    assert (await client.get("/readyz")).status == 503
    state.ready = True
    assert (await client.get("/readyz")).status == 200


async def test_metrics_are_prometheus_text(client: ClientSession) -> None:
    answer = await client.get("/metrics")
    assert (
        answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    )
    assert "benchrun_reconcile_seconds_count" in await answer.text()


async def test_nothing_else_is_served(client: ClientSession) -> None:
    assert (await client.get("/")).status == 404
    assert (await client.post("/healthz")).status == 405


@in_fast_time
async def test_pulse_that_stops_is_late() -> None:
    pulse = Pulse(Telemetry())
    beating = asyncio.create_task(pulse.beat())
    await passing(100.5)
    assert pulse.lag_seconds() == 0
    beating.cancel()
    await passing(60)
    assert pulse.lag_seconds() == pytest.approx(59.5)


async def test_server_that_was_never_started_can_be_stopped() -> None:
    await Health(Telemetry(), problems=list, ready=lambda: True).stop()
