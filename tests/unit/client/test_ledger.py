"""The ledger: versions that grow with what changed, records kept until acknowledged, and nobody fooled by a wrong nonce."""

from __future__ import annotations

import base64

import pytest
from benchrun_client.contract import Acknowledgement, Delivery, Envelope, Failure
from benchrun_client.ledger import MAX_DELIVERY_BYTES, MAX_ENVELOPES_A_DELIVERY, Ledger
from unit.client.plans import NONCE

FAILURE = Failure(reason="CanaryFailed", message="no")


def envelope(sequence: int, *, size: int = 8) -> Envelope:
    return Envelope(sequence=sequence, digest="a" * 64, payload=base64.b64encode(b"x" * size).decode())


def ledger(*, records: int, made: int = 0, size: int = 8) -> Ledger:
    new = Ledger()
    new.begin(run_uid="run-1", nonce=NONCE, records=records)
    for sequence in range(made):
        new.add(envelope(sequence, size=size))
    return new


def ack(through: int, nonce: str = NONCE) -> Acknowledgement:
    return Acknowledgement(nonce=nonce, through=through)


def sequences(delivery: Delivery) -> list[int]:
    return [e.sequence for e in delivery.records]


def test_the_version_grows_with_phase_stage_record_and_failure_but_not_with_answers() -> None:
    book = ledger(records=2)
    versions = [book.progress().version]
    for change in (
        lambda: book.enter("Waiting"),
        lambda: book.enter("Measuring", stage="a/rate=1/r1"),
        lambda: book.note(first_request_unix_us=5),
        lambda: book.add(envelope(0)),
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
    book.note(first_request_unix_us=5)
    version = book.progress().version
    book.note(first_request_unix_us=6)
    assert (book.progress().first_request_unix_us, book.progress().version) == (5, version)


def test_the_first_failure_stands_and_ends_all_phases() -> None:
    book = ledger(records=1)
    assert book.fail(FAILURE)
    assert not book.fail(Failure(reason="ClientError", message="later"))
    book.enter("Done")
    assert (book.progress().phase, book.progress().failure) == ("Failed", FAILURE)


def test_a_delivery_starts_where_it_is_asked_to_and_is_bounded_in_number() -> None:
    book = ledger(records=30, made=30)
    assert sequences(book.delivery(first=3)) == list(range(3, 3 + MAX_ENVELOPES_A_DELIVERY))
    assert sequences(book.delivery(first=29)) == [29]
    assert sequences(book.delivery(first=30)) == []


def test_a_delivery_is_bounded_in_size_but_never_empty_when_there_is_a_record() -> None:
    third = MAX_DELIVERY_BYTES // 4  # base64 makes a third more of it: two fit, three do not
    assert sequences(ledger(records=5, made=5, size=third).delivery(first=0)) == [0, 1]
    assert sequences(ledger(records=5, made=5, size=2 * MAX_DELIVERY_BYTES).delivery(first=0)) == [0]


def test_acknowledged_records_are_forgotten() -> None:
    book = ledger(records=3, made=3)
    assert book.acknowledge(ack(2)) == "stored"
    assert sequences(book.delivery(first=0)) == [2]


def test_acknowledging_twice_or_less_than_before_changes_nothing() -> None:
    book = ledger(records=2, made=2)
    assert [book.acknowledge(ack(n)) for n in (2, 2, 1)] == ["stored"] * 3
    assert book.is_told()


@pytest.mark.parametrize("nonce", ["", "0123456789abcdeF", "wrong", "ünïcode"])
def test_a_wrong_nonce_acknowledges_nothing(nonce: str) -> None:
    book = ledger(records=1, made=1)
    assert book.acknowledge(ack(1, nonce)) == "forbidden"
    assert sequences(book.delivery(first=0)) == [0]


def test_nothing_can_be_acknowledged_before_there_is_a_nonce() -> None:
    assert Ledger().acknowledge(ack(0)) == "forbidden"


def test_records_that_do_not_exist_cannot_be_acknowledged() -> None:
    book = ledger(records=3, made=1)
    assert book.acknowledge(ack(2)) == "beyond"


def test_all_is_told_when_every_expected_record_is_stored() -> None:
    book = ledger(records=2, made=1)
    book.acknowledge(ack(1))
    assert not book.is_told()
    book.add(envelope(1))
    assert not book.is_told()
    book.acknowledge(ack(2))
    assert book.is_told()


def test_after_a_failure_all_is_told_when_it_was_read_and_the_records_made_are_stored() -> None:
    book = ledger(records=3, made=1)
    book.fail(FAILURE)
    assert not book.is_told()
    book.delivery(first=0)
    assert not book.is_told()
    book.acknowledge(ack(1))
    assert book.is_told()
