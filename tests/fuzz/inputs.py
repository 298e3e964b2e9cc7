"""Inputs of the readers, drawn from their seeds, and what came of them."""

import random
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field

from fuzz.mutations import mutated_bytes
from fuzz.readers import MAX_INPUT_BYTES, READERS
from fuzz.seeds import seeds

SEED = 35
MOST_SECONDS = 5.0
"""CPU seconds of one input."""


@dataclass
class Read:
    """What came of the inputs of one reader."""

    tried: int = 0
    worst_seconds: float = 0.0
    wrong: dict[str, bytes] = field(default_factory=dict)
    """By where it was raised, an input that a reader did not stand."""


def drawn(reader: str, count: int, *, seed: int = SEED) -> Iterator[bytes]:
    """So many inputs, each a seed with a few changes."""
    listed = seeds(reader)
    for number in range(count):
        rng = random.Random(f"{seed} {reader} {number}")
        yield mutated_bytes(rng.choice(listed), rng)[:MAX_INPUT_BYTES]


def read(reader: str, inputs: Iterator[bytes]) -> Read:
    """Give them to the reader."""
    found = Read()
    for data in inputs:
        began = time.process_time()
        try:
            READERS[reader](data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {place.filename.rpartition('/')[2]}:{place.lineno}"
            found.wrong.setdefault(f"{where}: {str(error)[:150]}", data)
        took = time.process_time() - began
        found.tried += 1
        found.worst_seconds = max(found.worst_seconds, took)
    return found
