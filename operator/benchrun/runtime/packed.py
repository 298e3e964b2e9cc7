"""What was measured, kept small: a hundred runs' records and readings, opened only when somebody looks.

A parsed record of 400 requests takes 430 kB, packed 27 kB; a reading takes 400 bytes, packed about ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import overload

from benchrun_client.contract import StageRecord, open_record

from benchrun.measure.samples import Sample
from benchrun.measure.timeline import Timeline, decode, encode

BLOCK_SAMPLES = 32
"""Readings packed together; the newest, fewer than twice as many, stay open: live figures are made of them."""


@dataclass(frozen=True, slots=True)
class PackedRecords(Sequence[StageRecord]):
    """Records as they came; each is opened anew whenever it is asked for."""

    _packed: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, index: int) -> StageRecord: ...

    @overload
    def __getitem__(self, index: slice) -> PackedRecords: ...

    def __getitem__(self, index: int | slice) -> StageRecord | PackedRecords:
        if isinstance(index, slice):
            return PackedRecords(self._packed[index])
        return open_record(self._packed[index])


@dataclass(frozen=True, slots=True)
class PackedSamples(Sequence[Sample]):
    """Readings, oldest first: packed blocks, then open ones."""

    _blocks: tuple[bytes, ...] = ()
    _counts: tuple[int, ...] = ()
    _open: tuple[Sample, ...] = ()

    def __len__(self) -> int:
        return sum(self._counts) + len(self._open)

    def __iter__(self) -> Iterator[Sample]:
        return chain(chain.from_iterable(map(_opened, self._blocks)), self._open)

    def __reversed__(self) -> Iterator[Sample]:
        older = (reversed(_opened(block)) for block in reversed(self._blocks))
        return chain(reversed(self._open), chain.from_iterable(older))

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Sample, ...]: ...

    def __getitem__(self, index: int | slice) -> Sample | tuple[Sample, ...]:
        return tuple(self)[index]


@dataclass(slots=True)
class Readings:
    """Readings that grow at their end."""

    _blocks: list[bytes] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)
    _open: list[Sample] = field(default_factory=list)

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Readings:
        """These readings, oldest first."""
        made = cls()
        made.extend(samples)
        return made

    def extend(self, samples: Iterable[Sample]) -> None:
        """Newer readings."""
        self._open += samples
        while len(self._open) >= 2 * BLOCK_SAMPLES:
            self._blocks.append(encode(Timeline(samples=tuple(self._open[:BLOCK_SAMPLES]))))
            self._counts.append(BLOCK_SAMPLES)
            del self._open[:BLOCK_SAMPLES]

    def __len__(self) -> int:
        return sum(self._counts) + len(self._open)

    def followed_by(self, samples: Iterable[Sample]) -> PackedSamples:
        """What there is now and these; later changes do not show."""
        return PackedSamples(tuple(self._blocks), tuple(self._counts), (*self._open, *samples))


def _opened(block: bytes) -> tuple[Sample, ...]:
    return decode(block).samples
