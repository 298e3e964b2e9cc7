"""The four paths of the record server, asked by a real client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from benchrun_client.contract import Acknowledgement, Delivery, Envelope, Failure
from benchrun_client.ledger import Ledger
from benchrun_client.record_server import RecordServer
from unit.client.plans import NONCE


class WatchedLedger(Ledger):
    """Tells when the server finds nothing new for a poll: from then on it is held back."""

    def __init__(self) -> None:
        super().__init__()
        self._refusals = asyncio.Semaphore(0)

    def has_news(self, *, first: int, seen: int) -> bool:
        news = super().has_news(first=first, seen=seen)
        if not news:
            self._refusals.release()
        return news

    async def holds_back(self, poll: asyncio.Task[Delivery]) -> bool:
        """Whether the poll was looked at once more, and is not answered."""
        async with asyncio.timeout(30):
            await self._refusals.acquire()
        return not poll.done()


class Client:
    """Asks one record server."""

    def __init__(self, ledger: WatchedLedger, server: RecordServer, session: aiohttp.ClientSession) -> None:
        self.ledger, self.server, self._session = ledger, server, session

    async def status(self, path: str) -> int:
        async with self._session.get(path) as response:
            return response.status

    async def text(self, path: str) -> str:
        async with self._session.get(path) as response:
            return await response.text()

    async def records(self, query: str = "") -> Delivery:
        return Delivery.model_validate_json(await self.text(f"/records?{query}"))

    async def ack(self, body: bytes) -> int:
        async with self._session.post("/ack", data=body) as response:
            return response.status


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    ledger = WatchedLedger()
    ledger.begin(run_uid="run-1", nonce=NONCE, records=2)
    server = RecordServer(ledger)
    port = await server.start(address="127.0.0.1", port=0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield Client(ledger, server, session)
    await server.stop()


def envelope(sequence: int) -> Envelope:
    return Envelope(sequence=sequence, digest="a" * 64, payload="eA==")


def ack(through: int, nonce: str = NONCE) -> bytes:
    return Acknowledgement(nonce=nonce, through=through).model_dump_json().encode()


async def test_ready_turns_200_once_everything_has_been_found(client: Client) -> None:
    assert await client.status("/ready") == 503
    client.ledger.mark_ready()
    assert await client.status("/ready") == 200


async def test_a_poll_that_has_seen_nothing_is_answered_at_once(client: Client) -> None:
    delivery = await client.records("wait=30")
    assert (delivery.run_uid, delivery.progress.phase, delivery.records) == ("run-1", "Preparing", ())


async def test_a_poll_is_held_back_until_a_record_exists(client: Client) -> None:
    # The version is far ahead: only a record can end this wait.
    poll = asyncio.create_task(client.records("from=0&seen=1000&wait=30"))
    assert await client.ledger.holds_back(poll)
    client.ledger.enter("Measuring", stage="a/rate=1/r1")
    assert await client.ledger.holds_back(poll)
    client.ledger.add(envelope(0))
    assert [e.sequence for e in (await poll).records] == [0]


async def test_a_poll_is_held_back_until_the_progress_moves(client: Client) -> None:
    seen = client.ledger.progress().version
    poll = asyncio.create_task(client.records(f"from=5&seen={seen}&wait=30"))
    assert await client.ledger.holds_back(poll)
    client.ledger.fail(Failure(reason="CanaryFailed", message="no"))
    failure = (await poll).progress.failure
    assert failure is not None
    assert failure.reason == "CanaryFailed"


async def test_a_poll_wakes_for_a_change_made_by_another_thread(client: Client) -> None:
    seen = client.ledger.progress().version
    poll = asyncio.create_task(client.records(f"from=5&seen={seen}&wait=30"))
    assert await client.ledger.holds_back(poll)
    await asyncio.to_thread(client.ledger.enter, "Waiting")
    assert (await poll).progress.phase == "Waiting"


async def test_a_poll_ends_after_its_time_with_what_there_is(client: Client) -> None:
    patient = asyncio.create_task(client.records("from=0&seen=1000&wait=30"))
    assert (await client.records("from=0&seen=1000&wait=0.2")).records == ()
    assert not patient.done()
    client.ledger.add(envelope(0))
    assert len((await patient).records) == 1


async def test_a_poll_without_a_wait_is_answered_at_once(client: Client) -> None:
    assert (await client.records("from=0&seen=1000")).records == ()


@pytest.mark.parametrize("query", ["from=x", "seen=1.5", "wait=soon"])
async def test_a_query_that_is_no_number_is_refused(client: Client, query: str) -> None:
    assert await client.status(f"/records?{query}") == 400


async def test_an_acknowledgement_with_the_nonce_lets_the_records_go(client: Client) -> None:
    client.ledger.add(envelope(0))
    client.ledger.add(envelope(1))
    assert await client.ack(ack(2)) == 204
    assert (await client.records()).records == ()
    assert await client.server.wait_until_told(seconds=0)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(403, ack(0, nonce="x" * 16), id="wrong-nonce"),
        pytest.param(409, ack(1), id="records-that-are-not-there"),
        pytest.param(400, b"{}", id="incomplete"),
        pytest.param(400, b"\xff", id="garbage"),
        pytest.param(413, b"x" * 10_000, id="huge"),
    ],
)
async def test_an_acknowledgement_is_refused(client: Client, status: int, body: bytes) -> None:
    assert await client.ack(body) == status


async def test_waiting_for_the_last_acknowledgement_has_an_end(client: Client) -> None:
    assert not await client.server.wait_until_told(seconds=0.05)


async def test_metrics_tell_phase_and_progress(client: Client) -> None:
    client.ledger.enter("Measuring", stage="a/rate=1/r1")
    client.ledger.count_answer()
    lines = (await client.text("/metrics")).splitlines()
    assert 'benchrun_client_phase{phase="Measuring"} 1' in lines
    assert 'benchrun_client_phase{phase="Waiting"} 0' in lines
    assert "benchrun_client_stage_requests_done 1" in lines
