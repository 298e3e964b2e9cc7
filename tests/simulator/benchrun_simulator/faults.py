"""When the misbehaviour that `Faults` describes is due, by count: nothing is left to chance."""

from http import HTTPStatus

from benchrun_simulator.settings import Faults


class Share:
    """A counter that picks an evenly spread share of what it counts.

    With 20 percent it picks the fifth, the tenth, and so on.
    """

    def __init__(self, percent: float) -> None:
        self._percent = percent
        self._asked = 0

    def next_is_due(self) -> bool:
        """Count one more; return whether it is picked."""
        before = self._asked * self._percent // 100
        self._asked += 1
        return self._asked * self._percent // 100 > before


class FaultPlan:
    """A counter of completions, scrapes and resets that decides what goes wrong with each."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._asked = self._served = self._resets = 0
        self._errors = Share(faults.error_percent)
        self._rejections = Share(faults.reject_percent)
        self._lost_ends = Share(faults.drop_end_percent)
        self._failed_scrapes = Share(faults.metrics_fail_percent)

    def next_request_refused(self) -> HTTPStatus | None:
        """Count one completion that came in; return the error status of its answer, or None."""
        self._asked += 1
        fails = self._errors.next_is_due()
        rejected = self._rejections.next_is_due()
        if self._asked <= self._faults.canary_fails or fails:
            return HTTPStatus.INTERNAL_SERVER_ERROR
        return HTTPStatus.TOO_MANY_REQUESTS if rejected else None

    def next_stream_loses_its_end(self) -> bool:
        """Count one stream that begins; return whether its last tokens are left out."""
        return self._lost_ends.next_is_due()

    def next_scrape_fails(self) -> bool:
        """Count one scrape; return whether it gets HTTP 500."""
        return self._failed_scrapes.next_is_due()

    def next_reset_fails(self) -> bool:
        """Count one reset of the prefix cache; return whether it fails."""
        self._resets += 1
        return self._resets <= self._faults.reset_fails

    def last_request_served(self) -> bool:
        """Count one completion that ended; return whether the process dies now."""
        self._served += 1
        return self._served == self._faults.die_after_requests
