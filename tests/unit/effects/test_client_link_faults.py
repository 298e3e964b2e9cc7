"""What is asked of a client, within which bounds, and what becomes of every way in which it may not answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from benchrun.effects.client_link import (
    ACKNOWLEDGE_SECONDS,
    ANSWER_SECONDS,
    MAX_DELIVERY_BYTES,
    WAIT_SECONDS,
    ClientLink,
    Refused,
)
from benchrun.effects.scraper import FetchError, HttpFetcher
from benchrun_client.contract import MAX_RECORD_BYTES, Acknowledgement, Delivery, Envelope, Progress
from unit.effects.raw_server import BROKEN, sending
from unit.effects.test_client_link import NONCE, delivery, plan, stage_record


@dataclass
class Recorded:
    """Keeps what was asked, and answers with one text."""

    text: str = field(default_factory=delivery)
    fetched: list[tuple[str, int, float]] = field(default_factory=list)
    posted: list[tuple[str, str, float]] = field(default_factory=list)

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        self.fetched.append((url, limit_bytes, timeout_seconds))
        return self.text

    async def post(self, url: str, body: str, *, timeout_seconds: float) -> None:
        self.posted.append((url, body, timeout_seconds))


def link(exchanger: Any, base_url: str = "http://client:8090") -> ClientLink:
    return ClientLink(exchanger, base_url=base_url, nonce=NONCE, plan=plan())


@pytest.mark.parametrize("base_url", ["http://client:8090", "http://client:8090/", "http://client:8090//"])
async def test_a_question_names_what_is_known_and_how_long_it_may_be_held_back(base_url: str) -> None:
    exchanger = Recorded()
    await link(exchanger, base_url).pull(from_sequence=3, seen_version=-1)
    ((url, limit_bytes, timeout_seconds),) = exchanger.fetched
    assert urlsplit(url)._replace(query="").geturl() == "http://client:8090/records"
    assert parse_qs(urlsplit(url).query) == {"from": ["3"], "seen": ["-1"], "wait": [str(WAIT_SECONDS)]}
    assert timeout_seconds == WAIT_SECONDS + ANSWER_SECONDS
    assert limit_bytes == MAX_DELIVERY_BYTES


def test_the_largest_record_fits_into_an_answer() -> None:
    assert MAX_DELIVERY_BYTES > MAX_RECORD_BYTES * 4 / 3 + 4096, "base64, and the envelope around it"


async def test_an_acknowledgement_carries_the_nonce_and_is_not_waited_for_long() -> None:
    exchanger = Recorded()
    assert await link(exchanger).acknowledge(2) is True
    ((url, body, timeout_seconds),) = exchanger.posted
    assert (url, timeout_seconds) == ("http://client:8090/ack", ACKNOWLEDGE_SECONDS)
    assert Acknowledgement.model_validate_json(body) == Acknowledgement(nonce=NONCE, through=2)


@pytest.mark.parametrize("parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()])
async def test_a_client_that_breaks_off_was_not_heard(parts: tuple[bytes, ...]) -> None:
    fetcher = HttpFetcher()
    async with sending(*parts) as url:
        with pytest.raises(FetchError):
            await link(fetcher, url).pull(from_sequence=0, seen_version=-1)
        assert await link(fetcher, url).acknowledge(0) is False
    await fetcher.close()


async def test_the_first_misfit_of_an_answer_is_told_with_its_place() -> None:
    text = '{"run_uid": "uid-1", "progress": {"version": "new", "phase": "Measuring"}, "records": []}'
    with pytest.raises(Refused, match=r"^answer does not fit the contract: progress\.version: Input should be"):
        await link(Recorded(text)).pull(from_sequence=0, seen_version=-1)
    with pytest.raises(Refused, match=r"^answer does not fit the contract: document: "):
        await link(Recorded("")).pull(from_sequence=0, seen_version=-1)


@pytest.mark.parametrize("text", ["[" * 5000, "[" * 5000 + "]" * 5000, '{"a":' * 5000, "null", "7", '"text"'])
async def test_nonsense_is_refused_in_few_words(text: str) -> None:
    with pytest.raises(Refused) as refused:
        await link(Recorded(text)).pull(from_sequence=0, seen_version=-1)
    assert len(str(refused.value)) < 400


async def test_a_field_that_is_made_up_does_not_fill_the_log() -> None:
    text = delivery()[:-1] + f', "{"x" * 100_000}": 1}}'
    with pytest.raises(Refused) as refused:
        await link(Recorded(text)).pull(from_sequence=0, seen_version=-1)
    assert len(str(refused.value)) < 400


async def test_each_refused_record_says_which_and_why_once() -> None:
    envelopes = [
        Envelope.seal(stage_record(0)).model_copy(update={"payload": "no base64!"}),
        Envelope.seal(stage_record(1, run_uid="another")),
    ]
    text = Delivery(
        run_uid="uid-1", progress=Progress(version=1, phase="Measuring"), records=tuple(envelopes)
    ).model_dump_json()
    pulled = await link(Recorded(text)).pull(from_sequence=0, seen_version=-1)
    assert pulled.arrivals == ()
    assert [reason.split(":")[0].split(" is ")[0] for reason in pulled.refused] == ["record 0", "record 1"]
    assert pulled.refused[1] == "record 1 is of run another"
    assert all(reason.count("record ") == 1 for reason in pulled.refused), pulled.refused


async def test_the_progress_of_an_answer_whose_records_are_refused_counts() -> None:
    text = delivery(Envelope.seal(stage_record(0, run_uid="another")))
    pulled = await link(Recorded(text)).pull(from_sequence=0, seen_version=-1)
    assert (pulled.progress.phase, len(pulled.refused)) == ("Measuring", 1)
