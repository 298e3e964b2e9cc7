"""The look of a restart from outside, without one: counters from zero, another start time."""

import time

from benchrun_simulator.engine import Engine
from benchrun_simulator.settings import Faults


class Lifetime:
    """The instant at which the process claims to have started, in seconds since the epoch."""

    def __init__(
        self, faults: Faults, *, engine: Engine, started_at: float
    ) -> None:
        self._faults = faults
        self._engine = engine
        self.started_at = started_at

    def request(self, number: int) -> None:
        """Note completion `number`, counted from 1, before the engine sees it."""
        if number == self._faults.restart_look_at_request:
            self.started_at = time.time()
        if number == self._faults.counters_fall_at_request:
            self._engine.begin_counters_anew()
