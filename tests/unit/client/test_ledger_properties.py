"""The ledger under any order of what may happen to it: nothing is lost, nothing is told twice, versions only grow."""

from __future__ import annotations

import threading

from benchrun_client.contract import MAX_ENVELOPES, Failure
from benchrun_client.ledger import Ledger
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from unit.client.plans import TOKEN_DIGEST
from unit.client.test_ledger import ledger, sealed, sequences

EXPECTED = 40


class LedgerMachine(RuleBasedStateMachine):
    """Against a model of three numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Ledger()
        self.told = 0
        self.book.listen(self._hear)
        self.book.begin(run_uid="run-1", token_digest=TOKEN_DIGEST, records=EXPECTED)
        self.made, self.stored, self.failed = 0, 0, False
        self.version = self.book.progress().version

    def _hear(self) -> None:
        self.told += 1

    @precondition(lambda self: self.made < EXPECTED and not self.failed)
    @rule()
    def a_record_is_made(self) -> None:
        before = self.told
        self.book.add(sealed(self.made))
        self.made += 1
        assert self.told > before, "whoever waits is woken"

    @rule(through=st.integers(0, EXPECTED + 5))
    def somebody_acknowledges(self, through: int) -> None:
        stored = self.book.acknowledge(through)
        assert stored is (through <= self.made)
        if stored:
            self.stored = max(self.stored, through)

    @rule(first=st.integers(-2, EXPECTED + 2), seen=st.integers(-1, 2 * EXPECTED))
    def somebody_asks(self, first: int, seen: int) -> None:
        assert self.book.has_news(first=first, seen=seen) is (self.made > first or self.book.progress().version > seen)
        kept = [n for n in range(self.stored, self.made) if n >= first]
        assert sequences(self.book.delivery(first=first)) == kept[:MAX_ENVELOPES]

    @rule()
    def a_phase_begins(self) -> None:
        self.book.enter("Measuring", stage="a/rate=1/r1")
        assert self.book.progress().phase == ("Failed" if self.failed else "Measuring")

    @rule()
    def it_fails(self) -> None:
        assert self.book.fail(Failure(reason="ClientError", message="no")) is not self.failed
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
            assert self.book.is_delivered() is (self.stored == EXPECTED)
        elif self.book.is_delivered():
            assert self.stored == self.made


TestLedgerMachine = LedgerMachine.TestCase


@given(st.integers(0, 10), st.integers(0, 10))
def test_how_many_records_there_are_may_be_known_late(made: int, expected: int) -> None:
    book = Ledger()
    heard: list[int] = []
    book.listen(lambda: heard.append(1))
    book.begin(run_uid="run-1", token_digest=TOKEN_DIGEST, records=None)
    for n in range(made):
        book.add(sealed(n))
    book.acknowledge(made)
    assert not book.is_delivered(), "a search goes on"
    heard.clear()
    book.expect(expected)
    assert book.is_delivered() is (made == expected)
    assert heard, "whoever waits for the end is woken"


def test_answers_are_counted_while_others_read() -> None:
    """One thread measures; the version does not move with it, so that no poll ends for it."""
    book = ledger(records=1)
    book.enter("Measuring", stage="a/rate=1/r1")
    version = book.progress().version
    reading = [threading.Thread(target=book.progress) for _ in range(4)]
    for thread in reading:
        thread.start()
    for _ in range(1000):
        book.count_answer()
    for thread in reading:
        thread.join()
    assert (book.progress().requests_done, book.progress().version) == (1000, version)
    assert not book.has_news(first=0, seen=version)


def test_instants_that_are_known_change_nothing_and_wake_nobody() -> None:
    book = ledger(records=1)
    book.note("healthy_unix_us", 5)
    heard: list[int] = []
    book.listen(lambda: heard.append(1))
    book.note("healthy_unix_us", 9)
    assert heard == []
    book.note("warmup_us", 7)
    told = book.progress()
    assert (told.healthy_unix_us, told.warmup_us, len(heard)) == (5, 7, 1)


def test_a_failure_is_told_by_being_read_and_that_wakes_whoever_waits() -> None:
    book = ledger(records=1)
    book.fail(Failure(reason="ClientError", message="no"))
    heard: list[int] = []
    book.listen(lambda: heard.append(1))
    book.delivery(first=0)
    assert (book.is_delivered(), len(heard)) == (True, 1)


def test_reading_a_run_that_goes_on_wakes_nobody() -> None:
    book = ledger(records=1)
    heard: list[int] = []
    book.listen(lambda: heard.append(1))
    book.delivery(first=0)
    assert heard == []


def test_a_client_is_ready_when_it_says_so() -> None:
    book = Ledger()
    assert not book.ready
    book.mark_ready()
    assert book.ready
