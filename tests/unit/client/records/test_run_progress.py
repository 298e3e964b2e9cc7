"""The state: progress, and the records not yet acknowledged, for any number of threads."""

import hashlib
import threading

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
from benchrun_client.run_progress import RunProgress
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
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
    return Sealed(envelope, body)


def state(*, made: int = 0, size: int = 8) -> RunProgress:
    new = RunProgress()
    new.begin(run_uid="run-1", token_digest=TOKEN_DIGEST)
    for sequence in range(made):
        new.add(sealed(sequence, size=size))
    return new


def sequences(delivered: tuple[Delivery, tuple[bytes, ...]]) -> list[int]:
    """Of the records, whose bodies are beside their envelopes."""
    delivery, bodies = delivered
    assert [hashlib.sha256(body).hexdigest() for body in bodies] == [
        each.digest for each in delivery.records
    ]
    return [each.sequence for each in delivery.records]


def test_the_version_grows_with_phase_stage_record_and_failure_but_not_with_answers() -> (
    None
):
    book = state()
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
    book = state()
    book.enter("Measuring", stage="a/rate=1/r1")
    book.count_answer()
    book.count_answer()
    assert book.progress().requests_done == 2
    book.enter("Measuring", stage="a/rate=1/r2")
    assert book.progress().requests_done == 0


def test_the_first_failure_stands_and_ends_all_phases() -> None:
    book = state()
    assert book.fail(FAILURE)
    assert not book.fail(Failure(reason="ClientError", message="later"))
    book.enter("Done")
    assert (book.progress().phase, book.progress().failure) == ("Failed", FAILURE)


def test_a_delivery_starts_at_the_requested_record_and_is_bounded_in_number() -> (
    None
):
    book = state(made=30)
    assert sequences(book.delivery(first=3)) == list(range(3, 3 + MAX_ENVELOPES))
    assert sequences(book.delivery(first=29)) == [29]
    assert sequences(book.delivery(first=30)) == []


def test_a_delivery_is_bounded_in_size_but_never_empty_when_there_is_a_record() -> (
    None
):
    fit = MAX_BODIES_BYTES // MAX_PACKED_BYTES
    assert 1 <= fit < 8
    assert sequences(
        state(made=8, size=MAX_PACKED_BYTES).delivery(first=0)
    ) == list(range(fit))


@pytest.mark.parametrize(
    "token",
    ["", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), TOKEN_DIGEST, "ünïcode", "\udcff"],
)
def test_a_wrong_token_opens_nothing(token: str) -> None:
    book = state()
    assert (book.may_read(token), book.may_acknowledge(token)) == (False, False)


def test_the_token_opens_both() -> None:
    book = state()
    assert (book.may_read(TOKEN), book.may_acknowledge(TOKEN)) == (True, True)


def test_before_the_plan_is_read_anybody_may_read_and_nobody_acknowledge() -> None:
    assert (RunProgress().may_read(""), RunProgress().may_acknowledge(TOKEN)) == (
        True,
        False,
    )


def test_after_a_failure_the_records_made_are_stored() -> None:
    book = state(made=1)
    book.fail(FAILURE)
    assert not book.is_delivered()
    book.delivery(first=0)
    assert not book.is_delivered()
    book.acknowledge(1)
    assert book.is_delivered()


MOST = 40


class StateMachine(RuleBasedStateMachine):
    """Against a model of three numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.book = RunProgress()
        self.woken = 0
        self.book.listen(self._hear)
        self.book.begin(run_uid="run-1", token_digest=TOKEN_DIGEST)
        self.made = 0
        self.stored = 0
        self.failed = False
        self.done = False
        self.version = self.book.progress().version

    def _hear(self) -> None:
        self.woken += 1

    @precondition(
        lambda self: self.made < MOST and not self.failed and not self.done
    )
    @rule()
    def a_record_is_made(self) -> None:
        before = self.woken
        self.book.add(sealed(self.made))
        self.made += 1
        assert self.woken > before, "whoever waits is woken"

    @rule(through=st.integers(0, MOST + 5))
    def somebody_acknowledges(self, through: int) -> None:
        stored = self.book.acknowledge(through)
        assert stored is (through <= self.made)
        if stored:
            self.stored = max(self.stored, through)

    @rule(first=st.integers(-2, MOST + 2), seen=st.integers(-1, 2 * MOST))
    def somebody_asks(self, first: int, seen: int) -> None:
        assert self.book.has_news(first=first, seen=seen) is (
            self.made > first or self.book.progress().version > seen
        )
        kept = [n for n in range(self.stored, self.made) if n >= first]
        assert sequences(self.book.delivery(first=first)) == kept[:MAX_ENVELOPES]

    @rule()
    def all_is_measured(self) -> None:
        self.book.enter("Done")
        self.done = True

    @precondition(lambda self: not self.done)
    @rule()
    def a_phase_begins(self) -> None:
        self.book.enter("Measuring", stage="a/rate=1/r1")
        assert self.book.progress().phase == (
            "Failed" if self.failed else "Measuring"
        )

    @rule()
    def it_fails(self) -> None:
        assert (
            self.book.fail(Failure(reason="ClientError", message="no"))
            is not self.failed
        )
        self.failed = True

    @invariant()
    def versions_only_grow(self) -> None:
        now = self.book.progress()
        assert now.version >= self.version
        assert now.records == self.made
        self.version = now.version

    @invariant()
    def a_run_is_told_when_all_that_it_gives_is_stored(self) -> None:
        if not self.failed:
            assert self.book.is_delivered() is (
                self.done and self.stored == self.made
            )
        elif self.book.is_delivered():
            assert self.stored == self.made


TestStateMachine = StateMachine.TestCase


@given(st.integers(0, 10), st.integers(0, 10))
def test_a_run_is_delivered_once_it_is_done_and_every_record_is_stored(
    made: int, stored: int
) -> None:
    book = RunProgress()
    answers: list[int] = []
    book.listen(lambda: answers.append(1))
    book.begin(run_uid="run-1", token_digest=TOKEN_DIGEST)
    for n in range(made):
        book.add(sealed(n))
    book.acknowledge(min(made, stored))
    assert not book.is_delivered(), "a search goes on"
    answers.clear()
    book.enter("Done")
    assert book.is_delivered() is (made <= stored)
    assert answers, "whoever waits for the end is woken"


def test_answers_are_counted_while_others_read() -> None:
    """One thread measures; the version does not move with it, so that no poll ends for it."""
    book = state()
    book.enter("Measuring", stage="a/rate=1/r1")
    version = book.progress().version
    readers = [threading.Thread(target=book.progress) for _ in range(4)]
    for thread in readers:
        thread.start()
    for _ in range(1000):
        book.count_answer()
    for thread in readers:
        thread.join()
    assert (book.progress().requests_done, book.progress().version) == (
        1000,
        version,
    )
    assert not book.has_news(first=0, seen=version)


def test_instants_that_are_known_change_nothing_and_wake_nobody() -> None:
    book = state()
    book.note("healthy_unix_us", 5)
    answers: list[int] = []
    book.listen(lambda: answers.append(1))
    version = book.progress().version
    book.note("healthy_unix_us", 9)
    assert (answers, book.progress().version) == ([], version)
    book.note("warmup_us", 7)
    progress = book.progress()
    assert (progress.healthy_unix_us, progress.warmup_us, len(answers)) == (5, 7, 1)


def test_a_failure_is_reported_by_being_read_and_that_wakes_whoever_waits() -> None:
    book = state()
    book.fail(Failure(reason="ClientError", message="no"))
    answers: list[int] = []
    book.listen(lambda: answers.append(1))
    book.delivery(first=0)
    assert (book.is_delivered(), len(answers)) == (True, 1)


def test_reading_a_run_that_goes_on_wakes_nobody() -> None:
    book = state()
    answers: list[int] = []
    book.listen(lambda: answers.append(1))
    book.delivery(first=0)
    assert answers == []
