"""However many stages a run has, no more of its records are open at a time than one load
point's."""

import gc
import weakref
from collections.abc import Sequence
from typing import overload

from benchrun.judge.results import results
from benchrun_client.contract import StageRecord, open_record, seal
from unit.judge.specs import spec, workload
from unit.measure.records import load_point, record

VALUES = [str(rate) for rate in range(1, 9)]
REPEATS = 3


class Packed(Sequence[StageRecord]):
    """Opens a record whenever it is asked for, and counts those that nobody has let go yet."""

    def __init__(self, records: Sequence[StageRecord]) -> None:
        self._packed = [seal(each)[1] for each in records]
        self._opened: list[weakref.ref[StageRecord]] = []
        self.most_open = 0

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, index: int) -> StageRecord: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[StageRecord]: ...

    def __getitem__(
        self, index: int | slice
    ) -> StageRecord | Sequence[StageRecord]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        opened = open_record(self._packed[index])
        self._opened = [each for each in self._opened if each() is not None] + [
            weakref.ref(opened)
        ]
        self.most_open = max(self.most_open, len(self._opened))
        return opened


def test_records_are_opened_for_their_load_point_and_let_go_after_it() -> None:
    load_points = [load_point(value=value, repeats=REPEATS) for value in VALUES]
    # As measured: every load point once before any is repeated.
    stages = [
        each.stage_ids[repeat] for repeat in range(REPEATS) for each in load_points
    ]
    records = [record(stage, sequence=place) for place, stage in enumerate(stages)]
    run_spec = spec(
        workloads=[workload(load={"requestRates": VALUES})], repeats=REPEATS
    )
    packed = Packed(records)
    gc.disable()  # what is let go goes at once, without a search for circles
    try:
        judged = results(load_points, packed, (), spec=run_spec)
    finally:
        gc.enable()
    assert judged == results(load_points, records, (), spec=run_spec)
    assert [row.repeats for row in judged.results] == [REPEATS] * len(VALUES)
    assert packed.most_open <= REPEATS + 1
