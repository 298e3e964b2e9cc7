"""When the misbehaviour that `Faults` describes is due, by count: nothing here is left to
chance."""

from http import HTTPStatus

from benchrun_simulator.settings import Faults


class Share:
    """True for a share of the questions asked, spread evenly: with 20 percent for the fifth, the
    tenth, ..."""

    def __init__(self, percent: float) -> None:
        self._percent = percent
        self._asked = 0

    def next_is_due(self) -> bool:
        """Count one; True when it is one of the share."""
        before = self._asked * self._percent // 100
        self._asked += 1
        return self._asked * self._percent // 100 > before


class FaultPlan:
    """Counts completions, scrapes and resets, and says what goes wrong with each."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._asked = self._served = self._resets = 0
        self._errors = Share(faults.error_percent)
        self._rejections = Share(faults.reject_percent)
        self._lost_ends = Share(faults.drop_end_percent)
        self._failed_scrapes = Share(faults.metrics_fail_percent)

    def next_request_refused(self) -> HTTPStatus | None:
        """Count one completion that came in; the status it gets instead of an answer, or None."""
        self._asked += 1
        fails = self._errors.next_is_due()
        rejected = self._rejections.next_is_due()
        if self._asked <= self._faults.canary_fails or fails:
            return HTTPStatus.INTERNAL_SERVER_ERROR
        return HTTPStatus.TOO_MANY_REQUESTS if rejected else None

    def next_stream_loses_its_end(self) -> bool:
        """Count one stream that begins; True when its last tokens are not to be sent."""
        return self._lost_ends.next_is_due()

    def next_scrape_fails(self) -> bool:
        """Count one scrape; True when it is to get HTTP 500."""
        return self._failed_scrapes.next_is_due()

    def next_reset_fails(self) -> bool:
        """Count one reset of the prefix cache; True when it is not to succeed."""
        self._resets += 1
        return self._resets <= self._faults.reset_fails

    def last_request_served(self) -> bool:
        """Count one completion that ended; True when the process is to die now."""
        self._served += 1
        return self._served == self._faults.die_after_requests
