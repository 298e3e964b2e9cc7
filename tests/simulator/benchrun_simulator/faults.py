"""When the misbehaviour that `Faults` describes is due, by count: nothing here is left to chance."""

from benchrun_simulator.settings import Faults


class FaultPlan:
    """Counts completions and says what goes wrong with each."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._asked = 0
        self._served = 0

    def next_request_fails(self) -> bool:
        """Count one completion that came in; True when it is to get HTTP 500."""
        self._asked += 1
        if self._asked <= self._faults.canary_fails:
            return True
        share = self._faults.error_percent / 100
        return int(self._asked * share) > int((self._asked - 1) * share)

    def last_request_served(self) -> bool:
        """Count one completion that ended; True when the process is to die now."""
        self._served += 1
        return self._served == self._faults.die_after_requests
