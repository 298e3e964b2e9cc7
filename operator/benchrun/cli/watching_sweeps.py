"""A sweep, watched: its own status, and beside it those of its runs, which tell what goes on."""

from __future__ import annotations

from benchrun.api import names
from benchrun.cli.kubectl import RUN, SWEEP, Body
from benchrun.cli.kubectl_errors import KubectlError
from benchrun.cli.watching import Over, SweepSeen, SweptRunSeen, Watcher, Word


class SweepWatcher(Watcher):
    """Watches one sweep."""

    def _watched(self) -> tuple[str, ...]:
        return (SWEEP, self._name)

    def _word(self, body: Body, *, deleted: bool) -> Word:
        if deleted:
            raise KubectlError(f"{self._name} was deleted", "NotFound")
        return SweepSeen(self._name, body)

    def _unknown(self) -> Word:
        return Over(self._name, self._kubectl.missing_sweep(self._name))


class SweptRunsWatcher(SweepWatcher):
    """Watches the runs of one sweep. They are news beside the sweep's own: it goes on to its end without them."""

    may_be_silent = True

    def _watched(self) -> tuple[str, ...]:
        return (RUN, f"--selector={names.LABEL_SWEEP}={self._name}")

    def _word(self, body: Body, *, deleted: bool) -> Word:
        return SweptRunSeen(self._name, body, gone=deleted)

    def _failed(self, error: KubectlError) -> None:
        """Nobody waits for it: who may read sweeps may perhaps not read runs."""
