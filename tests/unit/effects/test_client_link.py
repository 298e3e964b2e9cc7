"""The line to the client, against the client's own record server: what fits is taken, everything else is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from benchrun.effects.client_link import ClientLink, Refused
from benchrun.effects.scraper import FetchError, HttpFetcher
from benchrun_client.contract import (
    Delivery,
    Envelope,
    LoadPoint,
    Plan,
    Progress,
    RandomData,
    Stage,
    StageRecord,
    Target,
)
from benchrun_client.ledger import Ledger
from benchrun_client.record_server import RecordServer
from unit.measure.records import record

NONCE = "0123456789abcdef"


def plan() -> Plan:
    stages = tuple(
        Stage(
            id=f"chat/rate=4/r{n}",
            workload="chat",
            repeat=n,
            load=LoadPoint(request_rate="4"),
            data=RandomData(input_tokens=8, output_tokens=8),
            requests=2,
            seed=n,
        )
        for n in (1, 2)
    )
    target = Target(base_url="http://server:8000", servers=1, served_model="m", tokenizer="m")
    return Plan(
        run_uid="uid-1", nonce=NONCE, target=target, stages=stages, percentiles=("99",), health_deadline_seconds=0
    )


def stage_record(sequence: int = 0, **changes: object) -> StageRecord:
    """A record as the client makes it for stage `sequence`, but for `changes`."""
    values: dict[str, object] = {"sequence": sequence, "plan_digest": plan().digest()}
    return record().model_copy(update={"stage_id": f"chat/rate=4/r{sequence + 1}", **values, **changes})


@pytest.fixture
def ledger() -> Ledger:
    """What the client has to tell."""
    made = Ledger()
    made.begin(run_uid="uid-1", nonce=NONCE, records=2)
    return made


@pytest.fixture
async def link(ledger: Ledger) -> AsyncIterator[ClientLink]:
    """The operator's end of a line to a real record server."""
    server, fetcher = RecordServer(ledger), HttpFetcher()
    port = await server.start(address="127.0.0.1", port=0)
    yield ClientLink(fetcher, base_url=f"http://127.0.0.1:{port}/", nonce=NONCE, plan=plan())
    await fetcher.close()
    await server.stop()


async def test_records_arrive_as_the_client_sealed_them(ledger: Ledger, link: ClientLink) -> None:
    sealed = [Envelope.seal(stage_record(n)) for n in (0, 1)]
    for envelope in sealed:
        ledger.add(envelope)
    pulled = await link.pull(from_sequence=0, seen_version=-1)
    assert [(a.sequence, a.digest, a.data) for a in pulled.arrivals] == [
        (e.sequence, e.digest, e.data()) for e in sealed
    ]
    assert [a.record for a in pulled.arrivals] == [stage_record(0), stage_record(1)]
    assert (pulled.progress.records, pulled.refused) == (2, ())


async def test_what_is_known_is_not_sent_again(ledger: Ledger, link: ClientLink) -> None:
    for n in (0, 1):
        ledger.add(Envelope.seal(stage_record(n)))
    pulled = await link.pull(from_sequence=1, seen_version=-1)
    assert [a.sequence for a in pulled.arrivals] == [1]


async def test_progress_alone_is_news(ledger: Ledger, link: ClientLink) -> None:
    ledger.enter("WarmingUp")
    pulled = await link.pull(from_sequence=0, seen_version=0)
    assert (pulled.progress.phase, pulled.arrivals) == ("WarmingUp", ())


async def test_acknowledged_records_are_dropped_by_the_client(ledger: Ledger, link: ClientLink) -> None:
    ledger.add(Envelope.seal(stage_record(0)))
    assert await link.acknowledge(1) is True
    assert ledger.delivery(first=0).records == ()


async def test_acknowledgement_that_is_not_taken_says_so(ledger: Ledger, link: ClientLink) -> None:
    assert await link.acknowledge(1) is False  # the client has no record yet


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        pytest.param("run other-uid", {"run_uid": "other-uid"}, id="other-run"),
        pytest.param("another plan", {"plan_digest": "c" * 64}, id="other-plan"),
        pytest.param("of stage chat/rate=8/r1", {"stage_id": "chat/rate=8/r1"}, id="other-stage"),
        pytest.param("the plan has 2 stages", {"sequence": 2}, id="beyond-the-plan"),
    ],
)
async def test_record_that_is_not_of_the_plan_is_refused(
    ledger: Ledger, link: ClientLink, why: str, changes: dict[str, object]
) -> None:
    ledger.add(Envelope.seal(stage_record().model_copy(update=changes)))
    pulled = await link.pull(from_sequence=0, seen_version=-1)
    assert pulled.arrivals == ()
    assert [why in reason for reason in pulled.refused] == [True]


async def test_one_bad_record_does_not_hold_back_a_good_one(ledger: Ledger, link: ClientLink) -> None:
    ledger.add(Envelope.seal(stage_record(0, run_uid="other")))
    ledger.add(Envelope.seal(stage_record(1)))
    pulled = await link.pull(from_sequence=0, seen_version=-1)
    assert [a.sequence for a in pulled.arrivals] == [1]
    assert len(pulled.refused) == 1


class Says:
    """A client that answers with a fixed text."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        return self._text

    async def post(self, url: str, body: str, *, timeout_seconds: float) -> None:
        raise FetchError("HTTP 403")


def says(text: str) -> ClientLink:
    return ClientLink(Says(text), base_url="http://client:8090", nonce=NONCE, plan=plan())


def delivery(*records: Envelope, run_uid: str = "uid-1") -> str:
    return Delivery(run_uid=run_uid, progress=Progress(version=1, phase="Measuring"), records=records).model_dump_json()


@pytest.mark.parametrize(
    ("why", "text"),
    [
        pytest.param("does not fit the contract", "<html>", id="no-json"),
        pytest.param("does not fit the contract", '{"run_uid": "uid-1"}', id="no-progress"),
        pytest.param("does not fit the contract", delivery()[:-1] + ', "more": 1}', id="unknown-field"),
        pytest.param("of run 'uid-2'", delivery(run_uid="uid-2"), id="other-run"),
        pytest.param("of run ''", delivery(Envelope.seal(stage_record()), run_uid=""), id="records-of-no-run"),
    ],
)
async def test_answer_of_somebody_else_is_refused(why: str, text: str) -> None:
    with pytest.raises(Refused, match=why):
        await says(text).pull(from_sequence=0, seen_version=-1)


async def test_client_that_has_not_read_its_plan_may_tell_how_far_it_is() -> None:
    pulled = await says(delivery(run_uid="")).pull(from_sequence=0, seen_version=-1)
    assert pulled.progress.phase == "Measuring"


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        pytest.param("digest does not match", {"digest": "d" * 64}, id="digest"),
        pytest.param("says it is record 0", {"sequence": 1}, id="sequence"),
        pytest.param("not a gzip stream", None, id="no-gzip"),
    ],
)
async def test_envelope_that_lies_is_refused(why: str, changes: dict[str, object] | None) -> None:
    sealed = Envelope.seal(stage_record())
    if changes is None:
        digest = "3b8f5bf20f566bdf49deca1673231f1fee18efd371451863d186d8d2be69f5e7"  # of "not gzip"
        envelope = sealed.model_copy(update={"payload": "bm90IGd6aXA=", "digest": digest})
    else:
        envelope = sealed.model_copy(update=changes)
    pulled = await says(delivery(envelope)).pull(from_sequence=0, seen_version=-1)
    assert pulled.arrivals == ()
    assert [why in reason for reason in pulled.refused] == [True], pulled.refused


async def test_silent_client_does_not_hear_the_acknowledgement() -> None:
    assert await says("").acknowledge(1) is False
