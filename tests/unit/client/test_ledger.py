"""The ledger: versions that grow with what changed, records kept until acknowledged, and one token that opens it."""

from __future__ import annotations

import hashlib

import pytest
from benchrun_client.contract import (
    MAX_BODIES_BYTES,
    MAX_ENVELOPES,
    MAX_PACKED_BYTES,
    Delivery,
    Envelope,
    Failure,
    Sealed,
)
from benchrun_client.ledger import Ledger
from unit.client.plans import TOKEN, TOKEN_DIGEST

FAILURE = Failure(reason="CanaryFailed", message="no")


def sealed(sequence: int, *, size: int = 8) -> Sealed:
    """A record that nobody opens."""
    body = bytes([sequence % 256]) * size
    envelope = Envelope(
        sequence=sequence,
        run_uid="run-1",
        stage_id=f"chat/rate=1/r{sequence + 1}",
        plan_digest="a" * 64,
        size=size,
        digest=hashlib.sha256(body).hexdigest(),
    )
    return envelope, body


def ledger(*, records: int, made: int = 0, size: int = 8) -> Ledger:
    new = Ledger()
    new.begin(run_uid="run-1", token_digest=TOKEN_DIGEST, records=records)
    for sequence in range(made):
        new.add(sealed(sequence, size=size))
    return new


def sequences(delivered: tuple[Delivery, tuple[bytes, ...]]) -> list[int]:
    """Of the records, whose bodies are beside their envelopes."""
    delivery, bodies = delivered
    assert [hashlib.sha256(body).hexdigest() for body in bodies] == [each.digest for each in delivery.records]
    return [each.sequence for each in delivery.records]


def test_the_version_grows_with_phase_stage_record_and_failure_but_not_with_answers() -> None:
    book = ledger(records=2)
    versions = [book.progress().version]
    for change in (
        lambda: book.enter("Waiting"),
        lambda: book.enter("Measuring", stage="a/rate=1/r1"),
        lambda: book.note("first_request_unix_us", 5),
        lambda: book.add(sealed(0)),
        lambda: book.fail(FAILURE),
    ):
        change()
        versions.append(book.progress().version)
    assert versions == sorted(set(versions))
    book.count_answer()
    assert book.progress().version == versions[-1]


def test_answers_are_counted_anew_in_each_stage() -> None:
    book = ledger(records=2)
    book.enter("Measuring", stage="a/rate=1/r1")
    book.count_answer()
    book.count_answer()
    assert book.progress().requests_done == 2
    book.enter("Measuring", stage="a/rate=1/r2")
    assert book.progress().requests_done == 0


def test_the_first_word_about_an_instant_stands() -> None:
    book = ledger(records=1)
    book.note("first_request_unix_us", 5)
    version = book.progress().version
    book.note("first_request_unix_us", 6)
    assert (book.progress().first_request_unix_us, book.progress().version) == (5, version)


def test_the_first_failure_stands_and_ends_all_phases() -> None:
    book = ledger(records=1)
    assert book.fail(FAILURE)
    assert not book.fail(Failure(reason="ClientError", message="later"))
    book.enter("Done")
    assert (book.progress().phase, book.progress().failure) == ("Failed", FAILURE)


def test_a_delivery_starts_where_it_is_asked_to_and_is_bounded_in_number() -> None:
    book = ledger(records=30, made=30)
    assert sequences(book.delivery(first=3)) == list(range(3, 3 + MAX_ENVELOPES))
    assert sequences(book.delivery(first=29)) == [29]
    assert sequences(book.delivery(first=30)) == []


def test_a_delivery_is_bounded_in_size_but_never_empty_when_there_is_a_record() -> None:
    fit = MAX_BODIES_BYTES // MAX_PACKED_BYTES
    assert 1 <= fit < 8
    assert sequences(ledger(records=8, made=8, size=MAX_PACKED_BYTES).delivery(first=0)) == list(range(fit))


def test_acknowledged_records_are_forgotten() -> None:
    book = ledger(records=3, made=3)
    assert book.acknowledge(2)
    assert sequences(book.delivery(first=0)) == [2]


def test_acknowledging_twice_or_less_than_before_changes_nothing() -> None:
    book = ledger(records=2, made=2)
    assert all(book.acknowledge(n) for n in (2, 2, 1))
    assert book.is_delivered()


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), TOKEN_DIGEST, "ünïcode", "\udcff"])
def test_a_wrong_token_opens_nothing(token: str) -> None:
    book = ledger(records=1)
    assert (book.may_read(token), book.may_acknowledge(token)) == (False, False)


def test_the_token_opens_both() -> None:
    book = ledger(records=1)
    assert (book.may_read(TOKEN), book.may_acknowledge(TOKEN)) == (True, True)


def test_before_the_plan_is_read_anybody_may_read_and_nobody_acknowledge() -> None:
    assert (Ledger().may_read(""), Ledger().may_acknowledge(TOKEN)) == (True, False)


def test_records_that_do_not_exist_cannot_be_acknowledged() -> None:
    book = ledger(records=3, made=1)
    assert not book.acknowledge(2)


def test_all_is_told_when_every_expected_record_is_stored() -> None:
    book = ledger(records=2, made=1)
    book.acknowledge(1)
    assert not book.is_delivered()
    book.add(sealed(1))
    assert not book.is_delivered()
    book.acknowledge(2)
    assert book.is_delivered()


def test_after_a_failure_all_is_told_when_it_was_read_and_the_records_made_are_stored() -> None:
    book = ledger(records=3, made=1)
    book.fail(FAILURE)
    assert not book.is_delivered()
    book.delivery(first=0)
    assert not book.is_delivered()
    book.acknowledge(1)
    assert book.is_delivered()
