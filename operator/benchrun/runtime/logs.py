"""Logging, set up before anything logs: one line an entry, JSON for machines or plain for people."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from benchrun.runtime.settings import LogFormat, LogLevel

_PLAIN = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_NOISY = ("aiohttp.access", "asyncio", "kopf._core.engines", "kopf.objects")
"""Loggers that say something for every request or event."""


_REPEATED = "kopf._cogs.clients.watching"
"""Complains at every try to watch what can't be watched."""
REPEATED_SECONDS = 600.0
_MAX_REPEATED = 1000


class Sparing(logging.Filter):
    """Lets the same complaint through once in ten minutes, whichever try it is of."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._let_through: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it was not said lately."""
        text, now = re.sub(r"#\d+", "", record.getMessage()), self._seconds()
        if now - self._let_through.get(text, -REPEATED_SECONDS) < REPEATED_SECONDS:
            return False
        if len(self._let_through) >= _MAX_REPEATED:
            self._let_through.clear()
        self._let_through[text] = now
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object an entry: time, level, logger, message, error, and the run it is about."""

    def format(self, record: logging.LogRecord) -> str:
        """The entry as one line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        run = getattr(record, "run", None)
        if run is not None:
            entry["run"] = str(run)
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(*, level: LogLevel, log_format: LogFormat) -> None:
    """Send everything to standard error in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_PLAIN))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger(_REPEATED).addFilter(Sparing())
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
