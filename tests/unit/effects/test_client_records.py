"""Reading records of the client, against the client's own record server: what fits is taken,
everything else is refused."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from benchrun.decide import PullTarget
from benchrun.effects import ClientRecords, Fetcher, FetchError, UnusableAnswer
from benchrun_client.contract import (
    ClientProgress,
    ContractMismatch,
    Delivery,
    Sealed,
    SearchPlan,
    digest_of_token,
    pack_delivery,
    seal,
)
from benchrun_client.record_server import RecordServer
from benchrun_client.run_progress import RunProgress as Ledger
from unit.measure.records import record

TOKEN = "0123456789abcdef" * 4
PLAN_DIGEST = "e" * 64
STAGE_IDS = ("chat/rate=4/r1", "chat/rate=4/r2")


def linked(
    exchanger: Any,
    base_url: str = "http://client:8090",
    *,
    token: str = TOKEN,
    plan_digest: str | None = PLAN_DIGEST,
    stage_ids: Sequence[str] = STAGE_IDS,
    searches: Sequence[SearchPlan] = (),
) -> ClientRecords:
    """To the client of a run with two stages."""
    target = PullTarget(
        "client-pod",
        base_url,
        "uid-1",
        0,
        token,
        plan_digest,
        stage_ids,
        tuple(searches),
    )
    return ClientRecords(exchanger, target)


def sealed(sequence: int = 0, **changes: object) -> Sealed:
    """A record as the client makes it for stage `sequence`, but for `changes`."""
    values = {
        "sequence": sequence,
        "plan_digest": PLAN_DIGEST,
        "stage_id": f"chat/rate=4/r{sequence + 1}",
    }
    return seal(record().model_copy(update={**values, **changes}))


def opaque(body: bytes, **changes: object) -> Sealed:
    """Bytes that are no record in an envelope that fits."""
    digest = hashlib.sha256(body).hexdigest()
    update = {"size": len(body), "digest": digest, **changes}
    return Sealed(sealed().envelope.model_copy(update=update), body)


@pytest.fixture
def ledger() -> Ledger:
    """What the client has to tell."""
    made = Ledger()
    made.begin(run_uid="uid-1", token_digest=digest_of_token(TOKEN))
    return made


@pytest.fixture
async def url(ledger: Ledger) -> AsyncIterator[str]:
    """Of a real record server."""
    server = RecordServer(ledger)
    port = await server.start(address="127.0.0.1", port=0)
    yield f"http://127.0.0.1:{port}"
    await server.stop()


@pytest.fixture
async def link(url: str, fetcher: Fetcher) -> ClientRecords:
    """As the operator reads it."""
    return linked(fetcher, url)


async def test_records_arrive_as_the_client_sealed_them(
    ledger: Ledger, link: ClientRecords
) -> None:
    made = [sealed(n) for n in (0, 1)]
    for each in made:
        ledger.add(each)
    pulled = await link.pull(from_sequence=0, seen_version=-1)
    assert list(pulled.arrivals) == made
    assert (pulled.progress.records, pulled.refused) == (2, ())


async def test_a_record_is_never_opened(
    ledger: Ledger, link: ClientRecords
) -> None:
    """The body of C1 and any other are the judge's to look at: here they are bytes."""
    ledger.add(opaque(b"neither gzip nor JSON"))
    pulled = await link.pull(from_sequence=0, seen_version=-1)
    assert [a.body for a in pulled.arrivals] == [b"neither gzip nor JSON"]


async def test_what_is_known_is_not_resent(
    ledger: Ledger, link: ClientRecords
) -> None:
    for n in (0, 1):
        ledger.add(sealed(n))
    pulled = await link.pull(from_sequence=1, seen_version=-1)
    assert [a.envelope.sequence for a in pulled.arrivals] == [1]


async def test_progress_alone_is_news(ledger: Ledger, link: ClientRecords) -> None:
    ledger.enter("WarmingUp")
    pulled = await link.pull(from_sequence=0, seen_version=0)
    assert (pulled.progress.phase, pulled.arrivals) == ("WarmingUp", ())


async def test_acknowledged_records_are_dropped_by_the_client(
    ledger: Ledger, link: ClientRecords
) -> None:
    ledger.add(sealed(0))
    assert await link.acknowledge(1) is True
    assert ledger.delivery(first=0)[0].records == ()


async def test_acknowledgement_that_is_not_taken_says_so(
    ledger: Ledger, link: ClientRecords
) -> None:
    assert await link.acknowledge(1) is False  # the client has no record yet


async def test_a_client_of_another_token_differs_from_a_silent_one(
    ledger: Ledger, url: str, fetcher: Fetcher
) -> None:
    ledger.add(sealed(0))
    stranger = linked(fetcher, url, token="0" * 64)
    with pytest.raises(UnusableAnswer, match="token"):
        await stranger.pull(from_sequence=0, seen_version=-1)
    assert await stranger.acknowledge(1) is False
    assert len(ledger.delivery(first=0)[0].records) == 1


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        pytest.param(
            "belongs to run 'other-uid'", {"run_uid": "other-uid"}, id="other-run"
        ),
        pytest.param("another plan", {"plan_digest": "c" * 64}, id="other-plan"),
        pytest.param(
            "of stage 'chat/rate=8/r1'",
            {"stage_id": "chat/rate=8/r1"},
            id="other-stage",
        ),
        pytest.param(
            "the plan has 2 stages", {"sequence": 2}, id="beyond-the-plan"
        ),
        pytest.param(
            "does not belong to a search",
            {"ends_search": "chat"},
            id="ends-a-search",
        ),
        pytest.param("digest", {"digest": "d" * 64}, id="other-bytes"),
    ],
)
async def test_record_that_is_not_of_the_plan_is_rejected(
    ledger: Ledger, link: ClientRecords, why: str, changes: dict[str, object]
) -> None:
    envelope, body = sealed()
    ledger.add(Sealed(envelope.model_copy(update=changes), body))
    pulled = await link.pull(from_sequence=0, seen_version=-1)
    assert pulled.arrivals == ()
    assert [why in reason for reason in pulled.refused] == [True], pulled.refused


async def test_where_nothing_tells_the_plans_digest_the_other_checks_stand(
    url: str, ledger: Ledger
) -> None:
    fetcher = Fetcher()
    ledger.add(sealed(0))
    ledger.add(sealed(1, run_uid="other"))
    pulled = await linked(fetcher, url, plan_digest=None).pull(
        from_sequence=0, seen_version=-1
    )
    assert (
        [a.envelope.sequence for a in pulled.arrivals],
        len(pulled.refused),
    ) == ([0], 1)
    await fetcher.close()


async def test_one_bad_record_does_not_hold_back_a_good_one(
    ledger: Ledger, link: ClientRecords
) -> None:
    ledger.add(sealed(0, run_uid="other"))
    ledger.add(sealed(1))
    pulled = await link.pull(from_sequence=0, seen_version=-1)
    assert [a.envelope.sequence for a in pulled.arrivals] == [1]
    assert len(pulled.refused) == 1


class Says:
    """A client that answers with fixed bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    async def fetch_bytes(
        self,
        url: str,
        *,
        limit_bytes: int,
        timeout_seconds: float,
        headers: Mapping[str, str],
    ) -> bytes:
        return self._answer

    async def post(
        self,
        url: str,
        body: str,
        *,
        timeout_seconds: float,
        headers: Mapping[str, str],
    ) -> None:
        raise FetchError("HTTP 409", status=409)


def delivery(*records: Sealed, run_uid: str = "uid-1") -> bytes:
    progress = ClientProgress(version=1, phase="Measuring")
    head = Delivery(
        run_uid=run_uid,
        progress=progress,
        records=tuple(envelope for envelope, _ in records),
    )
    return pack_delivery(head, [body for _, body in records])


@pytest.mark.parametrize(
    ("why", "answer"),
    [
        pytest.param("answer is not valid", b"<html>", id="no-json"),
        pytest.param(
            "answer is not valid",
            b'{"contract": 2, "run_uid": "uid-1"}\n',
            id="no-progress",
        ),
        pytest.param(
            "answer is not valid", delivery() + b"more", id="more-than-said"
        ),
        pytest.param("of run 'uid-2'", delivery(run_uid="uid-2"), id="other-run"),
        pytest.param(
            "of run ''", delivery(sealed(), run_uid=""), id="records-of-no-run"
        ),
    ],
)
async def test_answer_of_somebody_else_is_rejected(why: str, answer: bytes) -> None:
    with pytest.raises(UnusableAnswer, match=why):
        await linked(Says(answer)).pull(from_sequence=0, seen_version=-1)


@pytest.mark.parametrize(
    ("theirs", "answer"),
    [
        pytest.param(
            None,
            b'{"run_uid":"uid-1","progress":{"version":1,"phase":"Waiting"},"records":[]}',
            id="earlier",
        ),
        pytest.param(4, b'{"contract":4,"more":1}\n', id="later"),
    ],
)
async def test_a_client_of_another_version_is_known_as_such(
    theirs: int | None, answer: bytes
) -> None:
    with pytest.raises(UnusableAnswer, match=r"spec\.client\.image") as mismatch:
        await linked(Says(answer)).pull(from_sequence=0, seen_version=-1)
    cause = mismatch.value.__cause__
    assert isinstance(cause, ContractMismatch)
    assert cause.theirs == theirs


async def test_client_that_has_not_read_its_plan_may_tell_how_far_it_is() -> None:
    pulled = await linked(Says(delivery(run_uid=""))).pull(
        from_sequence=0, seen_version=-1
    )
    assert pulled.progress.phase == "Measuring"


async def test_silent_client_does_not_hear_the_acknowledgement() -> None:
    assert await linked(Says(b"")).acknowledge(1) is False
