"""What is asked of a client, within which bounds, and what becomes of every way in which it may not
answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest
from benchrun.effects import (
    ACKNOWLEDGE_SECONDS,
    ANSWER_SECONDS,
    SETTLE_SECONDS,
    WAIT_SECONDS,
    Fetcher,
    FetchError,
    UnusableAnswer,
)
from benchrun_client.contract import (
    CONTRACT_VERSION,
    MAX_BODIES_BYTES,
    MAX_DELIVERY_BYTES,
    MAX_PACKED_BYTES,
    TOKEN_HEADER,
    Acknowledgement,
)
from unit.effects.raw_server import BROKEN, sending
from unit.effects.test_client_records import TOKEN, delivery, linked, opaque, sealed


@dataclass
class Recorded:
    """Keeps what was asked, and answers with the same bytes."""

    answer: bytes = field(default_factory=delivery)
    fetched: list[tuple[str, int, float, Mapping[str, str]]] = field(
        default_factory=list
    )
    posted: list[tuple[str, str, float, Mapping[str, str]]] = field(
        default_factory=list
    )

    async def fetch_bytes(
        self,
        url: str,
        *,
        limit_bytes: int,
        timeout_seconds: float,
        headers: Mapping[str, str],
    ) -> bytes:
        self.fetched.append((url, limit_bytes, timeout_seconds, headers))
        return self.answer

    async def post(
        self,
        url: str,
        body: str,
        *,
        timeout_seconds: float,
        headers: Mapping[str, str],
    ) -> None:
        self.posted.append((url, body, timeout_seconds, headers))


async def test_a_question_names_what_is_known_and_how_long_it_may_be_held_back() -> (
    None
):
    exchanger = Recorded()
    await linked(exchanger).pull(from_sequence=3, seen_version=-1)
    ((url, limit_bytes, timeout_seconds, headers),) = exchanger.fetched
    assert urlsplit(url)._replace(query="").geturl() == "http://client:8090/records"
    assert parse_qs(urlsplit(url).query) == {
        "from": ["3"],
        "seen": ["-1"],
        "wait": [str(WAIT_SECONDS)],
        "settle": [str(SETTLE_SECONDS)],
        "contract": [str(CONTRACT_VERSION)],
    }
    assert timeout_seconds == WAIT_SECONDS + ANSWER_SECONDS
    assert limit_bytes == MAX_DELIVERY_BYTES
    assert headers == {TOKEN_HEADER: TOKEN}
    assert TOKEN not in url


def test_the_largest_record_fits_into_an_answer() -> None:
    assert MAX_PACKED_BYTES <= MAX_BODIES_BYTES < MAX_DELIVERY_BYTES


async def test_an_acknowledgement_carries_the_token_and_is_not_waited_for_long() -> (
    None
):
    exchanger = Recorded()
    assert await linked(exchanger).acknowledge(2) is True
    ((url, body, timeout_seconds, headers),) = exchanger.posted
    assert (url, timeout_seconds) == ("http://client:8090/ack", ACKNOWLEDGE_SECONDS)
    assert Acknowledgement.model_validate_json(body) == Acknowledgement(through=2)
    assert headers == {TOKEN_HEADER: TOKEN}


@pytest.mark.parametrize(
    "parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()]
)
async def test_a_client_that_breaks_off_was_not_heard(
    parts: tuple[bytes, ...],
) -> None:
    fetcher = Fetcher()
    async with sending(*parts) as url:
        with pytest.raises(FetchError):
            await linked(fetcher, url).pull(from_sequence=0, seen_version=-1)
        assert await linked(fetcher, url).acknowledge(0) is False
    await fetcher.close()


async def test_the_first_misfit_of_an_answer_is_reported_with_its_place() -> None:
    answer = b'{"contract": 2, "run_uid": "uid-1", "progress": {"version": "new", "phase": "Measuring"}, "records": []}\n'
    with pytest.raises(
        UnusableAnswer,
        match=r"^the client's answer is not valid: progress\.version: Input should be",
    ):
        await linked(Recorded(answer)).pull(from_sequence=0, seen_version=-1)
    with pytest.raises(
        UnusableAnswer, match=r"^the client's answer is not valid: document: "
    ):
        await linked(Recorded(b"")).pull(from_sequence=0, seen_version=-1)


@pytest.mark.parametrize(
    "answer",
    [
        b"[" * 5000,
        b"[" * 5000 + b"]" * 5000,
        b'{"a":' * 5000,
        b"null",
        b"7",
        b'"text"',
        b"\n" * 99,
        b"\xff",
    ],
)
async def test_nonsense_is_rejected_in_few_words(answer: bytes) -> None:
    with pytest.raises(UnusableAnswer) as refused:
        await linked(Recorded(answer)).pull(from_sequence=0, seen_version=-1)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


async def test_a_field_that_is_made_up_does_not_fill_the_log() -> None:
    answer = delivery().replace(
        b'"records"', b'"\\u001b' + b"x" * 50_000 + b'":1,"records"'
    )
    with pytest.raises(UnusableAnswer) as refused:
        await linked(Recorded(answer)).pull(from_sequence=0, seen_version=-1)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


async def test_each_refused_record_says_which_and_why_once() -> None:
    answer = delivery(
        opaque(b"x", digest="d" * 64),
        sealed(1, run_uid="another\x1b"),
        sealed(1, stage_id="\x1b[31m"),
    )
    pulled = await linked(Recorded(answer)).pull(from_sequence=0, seen_version=-1)
    assert pulled.arrivals == ()
    assert [reason.partition(":")[0] for reason in pulled.refused] == [
        "record 0",
        "record 1",
        "record 1",
    ]
    assert all(
        reason.isprintable() and len(re.findall(r"record \d", reason)) == 1
        for reason in pulled.refused
    ), pulled.refused


async def test_the_progress_of_an_answer_whose_records_are_rejected_counts() -> (
    None
):
    answer = delivery(sealed(0, run_uid="another"))
    pulled = await linked(Recorded(answer)).pull(from_sequence=0, seen_version=-1)
    assert (pulled.progress.phase, len(pulled.refused)) == ("Measuring", 1)
