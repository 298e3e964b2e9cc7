"""Simulated work in parallel processes, at idle priority.

So it does not disturb what is measured at the same time.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")


def spread(work: Callable[[Task], Found], tasks: Sequence[Task]) -> Iterator[Found]:
    """Yield the results of all tasks, in their order; `work` is a function of a module."""
    context = get_context("spawn")
    with ProcessPoolExecutor(mp_context=context, initializer=_idle) as pool:
        yield from pool.map(work, tasks)


def _idle() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
