"""The record server: long polls, tokens, acknowledgements, and readers that break off."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from benchrun_client.contract import (
    Acknowledgement,
    Delivery,
    Failure,
    unpack_delivery,
)
from benchrun_client.record_server import (
    MAX_BODY_BYTES,
    MAX_SETTLE_SECONDS,
    RecordServer,
)
from benchrun_client.run_progress import RunProgress
from unit.client.plans import TOKEN, TOKEN_DIGEST
from unit.client.records.test_run_progress import sealed


class WatchedState(RunProgress):
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

    def has_only_a_new_stage(self, *, first: int, seen: int) -> bool:
        waits = super().has_only_a_new_stage(first=first, seen=seen)
        if waits:
            self._refusals.release()
        return waits


class Client:
    """Asks one record server."""

    def __init__(
        self,
        state: WatchedState,
        server: RecordServer,
        session: aiohttp.ClientSession,
    ) -> None:
        self.state = state
        self.server = server
        self._session = session
        self.headers = {"Authorization": f"Bearer {TOKEN}"}

    async def status(self, path: str) -> int:
        async with self._session.get(path, headers=self.headers) as response:
            return response.status

    async def text(self, path: str) -> str:
        async with self._session.get(path, headers=self.headers) as response:
            return await response.text()

    async def records(self, query: str = "") -> Delivery:
        return unpack_delivery(await self.body(f"/records?{query}"))[0]

    async def body(self, path: str) -> bytes:
        async with self._session.get(path, headers=self.headers) as response:
            return await response.read()

    async def ack(self, body: bytes) -> int:
        async with self._session.post(
            "/ack", data=body, headers=self.headers
        ) as response:
            return response.status


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    state = WatchedState()
    state.begin(run_uid="run-1", token_digest=TOKEN_DIGEST)
    server = RecordServer(state)
    port = await server.start(address="127.0.0.1", port=0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield Client(state, server, session)
    await server.stop()


def ack(through: int) -> bytes:
    return Acknowledgement(through=through).model_dump_json().encode()


@pytest.mark.parametrize(
    ("query", "version"),
    [("from=0", 2), ("from=0&contract=2", 2), ("from=0&contract=3", 3)],
)
async def test_an_operator_is_answered_in_the_contract_that_it_reads(
    client: Client, query: str, version: int
) -> None:
    """One that does not say is of contract 2."""
    assert (await client.records(query)).contract == version


async def test_ready_turns_200_once_everything_has_been_found(
    client: Client,
) -> None:
    assert await client.status("/ready") == 503
    client.state.ready = True
    assert await client.status("/ready") == 200


async def test_a_poll_that_has_seen_nothing_is_answered_at_once(
    client: Client,
) -> None:
    delivery = await client.records("wait=30")
    assert (delivery.run_uid, delivery.progress.phase, delivery.records) == (
        "run-1",
        "Preparing",
        (),
    )


async def test_a_poll_is_held_back_until_a_record_exists(client: Client) -> None:
    # The version is far ahead: only a record can end this wait.
    poll = asyncio.create_task(client.records("from=0&seen=1000&wait=30"))
    assert await client.state.holds_back(poll)
    client.state.enter("Measuring", stage="a/rate=1/r1")
    assert await client.state.holds_back(poll)
    client.state.add(sealed(0))
    assert [e.sequence for e in (await poll).records] == [0]


async def test_a_poll_is_held_back_until_the_progress_moves(client: Client) -> None:
    seen = client.state.progress().version
    poll = asyncio.create_task(client.records(f"from=5&seen={seen}&wait=30"))
    assert await client.state.holds_back(poll)
    client.state.fail(Failure(reason="CanaryFailed", message="no"))
    failure = (await poll).progress.failure
    assert failure is not None
    assert failure.reason == "CanaryFailed"


def measuring(state: RunProgress) -> int:
    """Enter the first stage; return the version of the progress."""
    state.enter("Measuring", stage="a/rate=1/r1")
    return state.progress().version


async def test_a_new_stage_is_told_with_the_record_of_the_one_before(
    client: Client,
) -> None:
    seen = measuring(client.state)
    poll = asyncio.create_task(
        client.records(f"seen={seen}&wait=30&settle={MAX_SETTLE_SECONDS}")
    )
    assert await client.state.holds_back(poll)  # it waits for news
    client.state.enter("Measuring", stage="a/rate=1/r2")
    assert await client.state.holds_back(poll)  # there are news, but no record
    client.state.add(sealed(0))
    delivery = await poll
    assert delivery.progress.stage == "a/rate=1/r2"
    assert [e.sequence for e in delivery.records] == [0]


async def test_a_new_stage_without_a_record_is_told_when_its_time_is_over(
    client: Client,
) -> None:
    seen = measuring(client.state)
    client.state.enter("Measuring", stage="a/rate=1/r2")
    delivery = await client.records(f"seen={seen}&wait=30&settle=0.01")
    assert delivery.progress.stage == "a/rate=1/r2"


@pytest.mark.parametrize("asked", ["", f"&settle={MAX_SETTLE_SECONDS}"])
async def test_a_new_phase_is_told_at_once(client: Client, asked: str) -> None:
    """As is everything for an operator that does not ask to wait."""
    seen = measuring(client.state)
    client.state.enter("Measuring", stage="a/rate=1/r2")
    if asked:
        client.state.enter("Done")
    async with asyncio.timeout(MAX_SETTLE_SECONDS / 2):
        await client.records(f"seen={seen}&wait=30{asked}")


async def test_a_poll_wakes_for_a_change_made_by_another_thread(
    client: Client,
) -> None:
    seen = client.state.progress().version
    poll = asyncio.create_task(client.records(f"from=5&seen={seen}&wait=30"))
    assert await client.state.holds_back(poll)
    await asyncio.to_thread(client.state.enter, "Waiting")
    assert (await poll).progress.phase == "Waiting"


async def test_a_poll_ends_after_its_time_with_what_there_is(
    client: Client,
) -> None:
    patient = asyncio.create_task(client.records("from=0&seen=1000&wait=30"))
    assert (await client.records("from=0&seen=1000&wait=0.2")).records == ()
    assert not patient.done()
    client.state.add(sealed(0))
    assert len((await patient).records) == 1


async def test_a_poll_without_a_wait_is_answered_at_once(client: Client) -> None:
    assert (await client.records("from=0&seen=1000")).records == ()


async def test_records_come_packed_as_they_were_made(client: Client) -> None:
    made = [sealed(0, size=3), sealed(1, size=10)]
    for each in made:
        client.state.add(each)
    delivery, bodies = unpack_delivery(await client.body("/records"))
    assert list(zip(delivery.records, bodies, strict=True)) == made


STRANGERS = [
    pytest.param({}, id="without-a-token"),
    pytest.param({"Authorization": f"Bearer {TOKEN_DIGEST}"}, id="with-its-digest"),
    pytest.param({"Authorization": f"Bearer {TOKEN[:-1]}"}, id="nearly-the-token"),
    pytest.param({"Authorization": "Bearer \udcc3"}, id="no-text"),
    # What the operator of version 1 made of the run's uid, which anybody could.
    pytest.param(
        {
            "Authorization": (
                "Bearer "
                f"{hashlib.sha256(b'benchrun.nonce/1' + bytes([31]) + b'run-1').hexdigest()[:32]}"
            )
        },
        id="derived-from-the-uid",
    ),
]


@pytest.mark.parametrize("headers", STRANGERS)
async def test_strangers_neither_read_nor_acknowledge(
    client: Client, headers: dict[str, str]
) -> None:
    client.state.add(sealed(0))
    client.state.fail(Failure(reason="CanaryFailed", message="no"))
    client.headers = headers
    assert await client.status("/records") == 401
    assert await client.ack(ack(1)) == 401
    assert [
        envelope.sequence for envelope in client.state.delivery(first=0)[0].records
    ] == [0]


async def test_a_stranger_has_not_heard_of_a_failure(client: Client) -> None:
    client.state.fail(Failure(reason="CanaryFailed", message="no"))
    client.headers = {}
    await client.status("/records")
    assert not client.state.is_delivered()


async def test_ready_and_metrics_need_no_token(client: Client) -> None:
    client.headers = {}
    client.state.ready = True
    assert [await client.status(path) for path in ("/ready", "/metrics")] == [
        200,
        200,
    ]


async def test_why_the_plan_could_not_be_read_is_answered_without_a_token() -> None:
    state = RunProgress()
    state.begin(run_uid="run-1", token_digest=None)
    state.fail(Failure(reason="InvalidPlan", message="no"))
    server = RecordServer(state)
    port = await server.start(address="127.0.0.1", port=0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        async with session.get("/records") as response:
            delivery, bodies = unpack_delivery(await response.read())
        async with session.post("/ack", data=ack(0)) as response:
            assert response.status == 401
    assert delivery.progress.failure is not None
    assert (delivery.run_uid, delivery.progress.failure.reason, bodies) == (
        "run-1",
        "InvalidPlan",
        (),
    )
    await server.stop()


async def test_a_poll_of_before_the_plan_was_read_gets_nothing_after_it() -> None:
    state = WatchedState()
    server = RecordServer(state)
    port = await server.start(address="127.0.0.1", port=0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        stranger = asyncio.create_task(
            session.get("/records?from=0&seen=1000&wait=30")
        )
        assert await state.holds_back(stranger)  # type: ignore[arg-type]
        state.begin(run_uid="run-1", token_digest=TOKEN_DIGEST)
        async with asyncio.timeout(30):
            assert (await stranger).status == 401
    await server.stop()


async def test_an_acknowledgement_lets_the_records_go(client: Client) -> None:
    client.state.add(sealed(0))
    client.state.add(sealed(1))
    assert await client.ack(ack(2)) == 204
    assert (await client.records()).records == ()
    client.state.enter("Done")
    await asyncio.wait_for(client.server.wait_until_delivered(), 30)


async def test_metrics_tell_phase_and_progress(client: Client) -> None:
    client.state.enter("Measuring", stage="a/rate=1/r1")
    client.state.count_answer()
    lines = (await client.text("/metrics")).splitlines()
    assert 'benchrun_client_phase{phase="Measuring"} 1' in lines
    assert 'benchrun_client_phase{phase="Waiting"} 0' in lines
    assert "benchrun_client_stage_requests_done 1" in lines


AUTHORIZATION = f"Authorization: Bearer {TOKEN}\r\n"


class Line:
    """A bare connection to the server."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def send(self, data: bytes, *, no_more: bool = False) -> bytes:
        """Everything that is answered until the server closes; `no_more`: with the word that
        nothing else will come."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(data)
        if no_more:
            writer.write_eof()
        answered = await reader.read()
        writer.close()
        return answered

    async def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        answered = await self.send(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\n{AUTHORIZATION}Connection: close\r\n\r\n".encode()
        )
        head, _, body = answered.partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    async def leave(self, path: str) -> None:
        """Ask, and go without waiting for the answer."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: x\r\n{AUTHORIZATION}\r\n".encode()
        )
        await writer.drain()
        writer.transport.abort()


@pytest.fixture
def state() -> WatchedState:
    """Of a run with two records to come."""
    made = WatchedState()
    made.begin(run_uid="run-1", token_digest=TOKEN_DIGEST)
    return made


@pytest.fixture
async def server(state: WatchedState) -> AsyncIterator[RecordServer]:
    made = RecordServer(state)
    yield made
    await made.stop()


@pytest.fixture
async def line(server: RecordServer) -> Line:
    return Line(await server.start(address="127.0.0.1", port=0))


def records(body: bytes) -> list[int]:
    return [each.sequence for each in unpack_delivery(body)[0].records]


@pytest.mark.parametrize(
    ("status", "method", "path"),
    [
        (404, "GET", "/"),
        (404, "GET", "/records/1"),
        (404, "GET", "/../etc/passwd"),
        (405, "POST", "/records"),
        (405, "GET", "/ack"),
        (405, "DELETE", "/ready"),
    ],
)
async def test_there_are_four_paths(
    line: Line, status: int, method: str, path: str
) -> None:
    assert (await line.get(path, method))[0] == status


@pytest.mark.parametrize("wait", ["nan", "-1", "-inf", "0", "1e-9"])
async def test_no_wait_at_all_is_an_answer_at_once(line: Line, wait: str) -> None:
    assert (await line.get(f"/records?seen=99&from=99&wait={wait}"))[0] == 200


@pytest.mark.parametrize(
    "query",
    [
        "from=",
        "from=x",
        "from=1.0",
        "from=0x1",
        "seen=",
        "seen=new",
        "wait=",
        "wait=1s",
        "from=" + "9" * 5000,
    ],
)
async def test_a_query_that_is_not_a_number_is_rejected(
    line: Line, query: str
) -> None:
    assert (await line.get(f"/records?{query}"))[0] == 400


async def test_asking_from_before_the_first_gives_all(
    line: Line, state: WatchedState
) -> None:
    for n in (0, 1):
        state.add(sealed(n))
    assert [
        records((await line.get(f"/records?from={n}"))[1]) for n in (-5, 0, 1, 2)
    ] == [
        [0, 1],
        [0, 1],
        [1],
        [],
    ]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\r\n\r\n", id="empty-lines"),
        pytest.param(b"GET /records?wait=30", id="half-a-line"),
        pytest.param(b"GET /records HTTP/1.1\r\nHost", id="half-a-head"),
        pytest.param(
            b"POST /ack HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
            id="half-a-body",
        ),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", id="tls"),
        pytest.param(
            b"GET /ready HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
            id="endless-head",
        ),
    ],
)
async def test_an_incomplete_request_is_ignored(
    line: Line, state: WatchedState, data: bytes
) -> None:
    answered = await line.send(data, no_more=True)
    assert answered == b"" or answered.split()[1].startswith(b"4")
    state.ready = True
    assert await line.get("/ready") == (200, b"ready\n")


async def test_askers_that_leave_take_no_answer_from_those_that_stay(
    line: Line, state: WatchedState
) -> None:
    seen = state.progress().version
    stays = asyncio.create_task(line.get(f"/records?from=0&seen={seen}&wait=30"))
    assert await state.holds_back(stays)  # type: ignore[arg-type]
    for _ in range(5):
        await line.leave(f"/records?from=0&seen={seen}&wait=30")
    state.add(sealed(0))
    status, body = await stays
    assert (status, records(body)) == (200, [0])


async def test_every_asker_that_waits_hears_of_the_same_change(
    line: Line, state: WatchedState
) -> None:
    seen = state.progress().version
    waiting = [
        asyncio.create_task(line.get(f"/records?from=0&seen={seen}&wait=30"))
        for _ in range(8)
    ]
    for _ in waiting:
        assert await state.holds_back(waiting[0])  # type: ignore[arg-type]
    state.add(sealed(0))
    assert [records(body) for _, body in await asyncio.gather(*waiting)] == [
        [0]
    ] * 8


def posted(body: bytes, authorization: str = AUTHORIZATION) -> bytes:
    head = (
        f"POST /ack HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\nContent-Length: "
        f"{len(body)}\r\n\r\n"
    )
    return head.encode() + body


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(400, b"", id="empty"),
        pytest.param(400, b"{}", id="incomplete"),
        pytest.param(400, b"\xff", id="garbage"),
        pytest.param(400, b"[" * 4000, id="nested"),
        pytest.param(400, b'{"through": -1}', id="negative"),
        pytest.param(400, b'{"through": "two"}', id="a-word"),
        pytest.param(400, b'{"through": 0, "more": 1}', id="one-field-more"),
        pytest.param(400, b" " * MAX_BODY_BYTES, id="as-large-as-may-be"),
        pytest.param(413, b" " * (MAX_BODY_BYTES + 1), id="larger"),
        pytest.param(413, b"x" * 10_000, id="huge"),
        pytest.param(400, b'{"through": 1e999}', id="no-number"),
        pytest.param(409, ack(1), id="of-records-to-come"),
        pytest.param(204, ack(0), id="of-none"),
    ],
)
async def test_what_is_answered_to_an_acknowledgement(
    line: Line, status: int, body: bytes
) -> None:
    assert int((await line.send(posted(body))).split()[1]) == status


async def test_the_end_is_awaited_until_the_last_record_is_stored(
    server: RecordServer, line: Line, state: WatchedState
) -> None:
    waiting = asyncio.create_task(server.wait_until_delivered())
    for n in (0, 1):
        state.add(sealed(n))
    state.enter("Done")
    await line.send(posted(ack(1)))
    assert not waiting.done()
    await line.send(posted(ack(2)))
    await asyncio.wait_for(waiting, 30)


async def test_after_a_failure_the_end_is_awaited_until_somebody_read_it(
    server: RecordServer, line: Line, state: WatchedState
) -> None:
    state.fail(Failure(reason="CanaryFailed", message="no"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.wait_until_delivered(), 0.01)
    await line.get("/records")
    await asyncio.wait_for(server.wait_until_delivered(), 30)


async def test_metrics_are_of_prometheus_form(
    line: Line, state: WatchedState
) -> None:
    state.add(sealed(0))
    answered = await line.send(
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    head, _, body = answered.partition(b"\r\n\r\n")
    assert b"Content-Type: text/plain; version=0.0.4" in head
    lines = body.decode().splitlines()
    assert "benchrun_client_records 1" in lines
    families = [text.split()[2] for text in lines if text.startswith("# TYPE")]
    assert [
        text.split()[2] for text in lines if text.startswith("# HELP")
    ] == families
    assert sum(text.endswith(" 1") and "phase=" in text for text in lines) == 1, (
        "one phase at a time"
    )
