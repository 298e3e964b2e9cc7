"""A client that searches does not know how many records it will give until it has found."""

from __future__ import annotations

from benchrun_client.contract import seal
from benchrun_client.ledger import Ledger
from benchrun_client.records import record_of
from unit.client.plans import TOKEN_DIGEST, raw_stage


def test_all_is_told_only_once_the_end_is_known_and_stored() -> None:
    told: list[bool] = []
    ledger = Ledger()
    ledger.begin(run_uid="run-1", token_digest=TOKEN_DIGEST, records=None)
    ledger.listen(lambda: told.append(ledger.is_delivered()))
    ledger.add(seal(record_of(raw_stage())))
    assert ledger.acknowledge(1)
    assert not ledger.is_delivered()
    ledger.expect(1)
    assert ledger.is_delivered()
    assert told[-1] is True
    ledger.expect(2)
    assert not ledger.is_delivered()
